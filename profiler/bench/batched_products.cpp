// A product for each head of unfused attention, at head dimensions that vector units do not like. The
// executor has no batched product: it calls one after the other.
#include "profiler/bench/benchmarks.hpp"

namespace tw {

void run_batched_products(BenchContext& c) {
    Backend& b = *c.backend;
    const DType dtype = b.host_memory() ? DType::F32 : DType::BF16;
    const std::int64_t seq = b.host_memory() ? 128 : 1024;
    constexpr std::int64_t kHeads = 8;
    for (const std::int64_t dim : {32, 40, 48, 56, 64, 80, 96, 104}) {
        const auto bytes = [&](std::int64_t rows, std::int64_t cols) {
            return static_cast<std::size_t>(kHeads * rows * cols) * bytes_of(dtype);
        };
        const RotatedBuffers q(b, bytes(seq, dim)), k(b, bytes(seq, dim)), scores(b, bytes(seq, seq));
        SampleSeries point;
        point.benchmark = "batched_gemm";
        point.variant = std::string(precision_name(dtype)) + " input_grad";
        point.shape = {{"m", static_cast<double>(seq)},
                       {"n", static_cast<double>(seq)},
                       {"k", static_cast<double>(dim)},
                       {"batch", static_cast<double>(kHeads)}};
        c.sample(std::move(point), [&](std::int64_t i) {
            for (std::int64_t head = 0; head < kHeads; ++head) {
                const auto part = [&](const RotatedBuffers& of, std::int64_t rows, std::int64_t cols) {
                    auto* data = static_cast<std::byte*>(of.at(i)) +
                                 static_cast<std::size_t>(head * rows * cols) * bytes_of(dtype);
                    return MatrixView{data, dtype, rows, cols, cols};
                };
                b.gemm(part(q, seq, dim), false, part(k, seq, dim), true, part(scores, seq, seq), false);
            }
        });
        if (c.sampler->over()) return;
    }
}

}  // namespace tw
