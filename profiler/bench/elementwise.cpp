// Activations, residual sums, rotary embedding, sums over columns.
#include "profiler/bench/benchmarks.hpp"

namespace tw {

void run_elementwise(BenchContext& c) {
    Backend& b = *c.backend;
    const DType dtype = b.host_memory() ? DType::F32 : DType::BF16;
    const std::int64_t scale = b.host_memory() ? 1 : 16;
    for (const auto& [count, base] :
         {std::pair<std::int64_t, std::int64_t>{256, 512}, {1024, 1024}, {2048, 1536}, {128, 256}}) {
        const std::int64_t rows = count;
        const std::int64_t width = base * scale;
        const auto bytes = static_cast<std::size_t>(rows * width) * bytes_of(dtype);
        const RotatedBuffers x(b, bytes), y(b, bytes), z(b, bytes), u(b, bytes), v(b, bytes);
        const RotatedBuffers sums(b, static_cast<std::size_t>(width) * 4, 0);
        const auto t = [&](const RotatedBuffers& of, std::int64_t i) {
            return of.tensor(i, dtype, {rows, width});
        };
        const auto m = [&](const RotatedBuffers& of, std::int64_t i) {
            return MatrixView{of.at(i), dtype, rows, width, width};
        };
        const auto point = [&](const char* kernel) { return kernel_point(kernel, dtype, rows, width); };
        c.sample(point("activation"),
                 [&](std::int64_t i) { b.activation_forward(Activation::GeluTanh, t(x, i), t(y, i)); });
        c.sample(point("activation_backward"), [&](std::int64_t i) {
            b.activation_backward(Activation::GeluTanh, t(x, i), t(y, i), t(y, i));
        });
        c.sample(point("gated"),
                 [&](std::int64_t i) { b.gated_forward(Activation::Silu, m(x, i), m(y, i), m(z, i)); });
        c.sample(point("gated_backward"), [&](std::int64_t i) {
            b.gated_backward(Activation::Silu, m(x, i), m(y, i), m(z, i), m(u, i), m(v, i));
        });
        c.sample(point("residual_add"),
                 [&](std::int64_t i) { b.dropout_add(t(x, i), t(y, i), t(z, i), {}); });
        c.sample(point("column_sum"),
                 [&](std::int64_t i) { b.column_sum(m(x, i), sums.tensor(0, DType::F32, {width})); });
        c.sample(point("rope"),
                 [&](std::int64_t i) { b.rope(m(x, i), std::min<std::int64_t>(rows, 128), 64, 1e4, false); });
        if (c.sampler->over()) return;
    }
}

}  // namespace tw
