// A product and an all-reduce, each alone and both at once: how much of a transfer hides behind arithmetic,
// and what both lose.
#include <functional>

#include "profiler/bench/benchmarks.hpp"

namespace tw {

void run_overlap(BenchContext& c) {
    Backend& b = *c.backend;
    constexpr std::int64_t kSize = 768, kFloats = std::int64_t{1} << 20;
    const RotatedProduct product(b, kSize);
    const RotatedBuffers sum(b, kFloats * 4);
    const auto reduce = [&](std::int64_t i) {
        return c.team->measuring()->all_reduce(sum.tensor(i, DType::F32, {kFloats}));
    };
    const auto point = [](const char* what) {
        SampleSeries s;
        s.benchmark = "overlap";
        s.variant = what;
        return s;
    };
    c.sample_together(point("product"), std::cref(product));
    c.sample_together(point("all_reduce"), [&](std::int64_t i) { (void)reduce(i)->wait(); });
    c.sample_together(point("both"), [&](std::int64_t i) {
        const RequestPtr request = reduce(i);
        product(i);
        (void)request->wait();
    });
}

}  // namespace tw
