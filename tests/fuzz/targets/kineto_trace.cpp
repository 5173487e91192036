// PyTorch profiler traces: sums are finite, collectives in order.
#include <cmath>

#include "models/formats/kineto.hpp"
#include "tests/fuzz/fuzz_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto trace = tw::read_kineto_text(tw::fuzz::text_of(data, size), "trace.json");
    tw::fuzz::require_value_or_refusal(trace);
    if (!trace) return 0;
    tw::fuzz::require(std::isfinite(trace->busy_s) && trace->busy_s >= 0, "a busy time that is none");
    tw::fuzz::require(std::isfinite(trace->span_s) && trace->span_s >= 0, "a span that is none");
    for (const tw::KinetoKernel& kernel : trace->kernels)
        tw::fuzz::require(kernel.count > 0 && kernel.shortest_s <= kernel.longest_s, "a kernel's times");
    for (const tw::KinetoOperation& o : trace->operations)
        tw::fuzz::require(o.count > 0 && o.median_s > 0 && o.median_s <= o.total_s * (1 + 1e-9),
                          "an operation's times");
    for (std::size_t i = 1; i < trace->collectives.size(); ++i) {
        tw::fuzz::require(trace->collectives[i - 1].start_ns <= trace->collectives[i].start_ns,
                          "collectives out of order");
    }
    for (const tw::KinetoCollective& collective : trace->collectives)
        tw::fuzz::require(collective.bytes >= 0 && collective.group_size >= 0, "a negative size");
    return 0;
}
