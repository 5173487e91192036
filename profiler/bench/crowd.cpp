// More ranks than cores: a blocking collective waits until the system has run every member. Products alone
// and products with an all-reduce after each, by all ranks at once; what the latter takes beyond the former
// is the wait.
#include <functional>

#include "profiler/bench/benchmarks.hpp"

namespace tw {

void run_crowd(BenchContext& c) {
    Backend& b = *c.backend;
    constexpr std::int64_t kSize = 448, kFloats = std::int64_t{1} << 14;
    const RotatedProduct product(b, kSize);
    const RotatedBuffers sum(b, kFloats * 4);
    const auto point = [&](const char* what) {
        SampleSeries s;
        s.benchmark = "crowd";
        s.variant = what;
        s.shape = {{"ranks", static_cast<double>(c.team->everyone())},
                   {"cores", static_cast<double>(c.team->size())}};
        return s;
    };
    c.sample_together(point("product"), std::cref(product), true);
    c.sample_together(
        point("product, all_reduce"),
        [&](std::int64_t i) {
            product(i);
            (void)c.team->all().all_reduce(sum.tensor(i, DType::F32, {kFloats}))->wait();
        },
        true);
}

}  // namespace tw
