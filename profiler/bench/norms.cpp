// Layer and RMS norms, forward, and backward with the residual's gradient added as layers do.
#include "profiler/bench/benchmarks.hpp"

namespace tw {

SampleSeries kernel_point(std::string_view kernel, DType dtype, std::int64_t rows, std::int64_t width) {
    SampleSeries point;
    point.benchmark = kernel;
    point.variant = std::string(precision_name(dtype));
    point.shape = {{"rows", static_cast<double>(rows)}, {"width", static_cast<double>(width)}};
    return point;
}

void run_norms(BenchContext& c) {
    const DType dtype = c.backend->host_memory() ? DType::F32 : DType::BF16;
    const std::int64_t scale = c.backend->host_memory() ? 1 : 16;
    for (const auto& [count, base] :
         {std::pair<std::int64_t, std::int64_t>{256, 128}, {1024, 256}, {512, 768}, {4096, 512}}) {
        const std::int64_t rows = count;
        const std::int64_t width = base * scale;
        const auto bytes = static_cast<std::size_t>(rows * width) * bytes_of(dtype);
        const RotatedBuffers x(*c.backend, bytes), y(*c.backend, bytes), dy(*c.backend, bytes),
            more(*c.backend, bytes);
        const RotatedBuffers stats(*c.backend, static_cast<std::size_t>(rows) * 8);
        const RotatedBuffers gain(*c.backend, static_cast<std::size_t>(width) * 4, 0);
        const auto t = [&](const RotatedBuffers& b, std::int64_t i) {
            return b.tensor(i, dtype, {rows, width});
        };
        const auto vector = [&](std::int64_t i, DType type) { return gain.tensor(i, type, {width}); };
        const auto statistics = [&](std::int64_t i) { return stats.tensor(i, DType::F32, {rows, 2}); };
        for (const bool rms : {false, true}) {
            const auto named = [&](const char* kernel) {
                SampleSeries point = kernel_point(kernel, dtype, rows, width);
                point.variant += rms ? " rms" : " layer";
                return point;
            };
            c.sample(named("norm"), [&](std::int64_t i) {
                if (rms) {
                    c.backend->rms_norm_forward(t(x, i), vector(0, dtype), 1e-5, t(y, i), statistics(i));
                } else {
                    c.backend->layer_norm_forward(t(x, i), vector(0, dtype), vector(1, dtype), 1e-5, t(y, i),
                                                  statistics(i));
                }
            });
            c.sample(named("norm_backward"), [&](std::int64_t i) {
                if (rms) {
                    c.backend->rms_norm_backward(t(dy, i), t(x, i), vector(0, dtype), statistics(i),
                                                 t(more, i), t(y, i), vector(1, DType::F32));
                } else {
                    c.backend->layer_norm_backward(t(dy, i), t(x, i), vector(0, dtype), statistics(i),
                                                   t(more, i), t(y, i), vector(1, DType::F32),
                                                   vector(2, DType::F32));
                }
            });
        }
        if (c.sampler->over()) return;
    }
}

}  // namespace tw
