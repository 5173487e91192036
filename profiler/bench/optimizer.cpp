// AdamW over parameters, gradients and both moments in fp32; the gradient's sum of squares; clearing it.
#include "profiler/bench/benchmarks.hpp"

namespace tw {

void run_optimizer(BenchContext& c) {
    Backend& b = *c.backend;
    const std::int64_t scale = b.host_memory() ? 1 : 32;
    for (const std::int64_t base : {1 << 16, 1 << 19, 1 << 21, 1 << 22}) {
        const std::int64_t parameters = base * scale;
        const auto bytes = static_cast<std::size_t>(parameters) * 4;
        const RotatedBuffers p(b, bytes), g(b, bytes), m(b, bytes), v(b, bytes);
        const auto t = [&](const RotatedBuffers& of, std::int64_t i) {
            return of.tensor(i, DType::F32, {parameters});
        };
        const auto point = [&](const char* kernel) {
            return kernel_point(kernel, DType::F32, 1, parameters);
        };
        c.sample(point("optimizer"),
                 [&](std::int64_t i) { b.adamw(t(p, i), {}, t(g, i), t(m, i), t(v, i), {}); });
        c.sample(point("square_sum"), [&](std::int64_t i) { (void)b.sum_squares(t(g, i)); });
        c.sample(point("fill"), [&](std::int64_t i) { b.fill(t(g, i), 0); });
        c.sample(point("add"), [&](std::int64_t i) { b.add(t(p, i), t(g, i)); });
        if (c.sampler->over()) return;
    }
}

}  // namespace tw
