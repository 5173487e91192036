// One large product over and over: the first ones run at the clock of a rested device, the last ones at the
// clock that power and heat leave.
#include <algorithm>

#include "profiler/bench/benchmarks.hpp"

namespace tw {

void run_sustained(BenchContext& c) {
    Backend& b = *c.backend;
    const DType dtype = b.host_memory() ? DType::F32 : DType::BF16;
    const std::int64_t size = b.host_memory() ? 512 : 8192;
    const auto bytes = static_cast<std::size_t>(size * size) * 4;
    const RotatedBuffers left(b, bytes), right(b, bytes), out(b, bytes);
    SampleSeries point;
    point.benchmark = "sustained_gemm";
    point.variant = std::string(precision_name(dtype));
    point.shape = {
        {"m", static_cast<double>(size)}, {"n", static_cast<double>(size)}, {"k", static_cast<double>(size)}};
    if (c.measured(point)) return;
    const auto call = [&](std::int64_t i) {
        const auto view = [&](const RotatedBuffers& of) {
            return MatrixView{of.at(i), dtype, size, size, size};
        };
        b.gemm(view(left), false, view(right), false, view(out), false);
        b.synchronize();
    };
    call(0);
    // Every call is a sample: their order is what is asked about.
    const double end = std::min(c.sampler->deadline(), c.sampler->now() + 4);
    constexpr std::size_t kLeast = 8, kMost = 4000;
    for (std::int64_t i = 1; !c.sampler->stopped() && point.values.size() < kMost &&
                             (point.values.size() < kLeast || c.sampler->now() < end);
         ++i) {
        const double begin = c.sampler->now();
        call(i);
        point.values.push_back(c.sampler->now() - begin);
    }
    if (point.values.size() >= kLeast) c.keep(std::move(point));
}

}  // namespace tw
