// The loss over logits in fp32: maximum, sums of exponentials, gradient.
#include <vector>

#include "profiler/bench/benchmarks.hpp"

namespace tw {

void run_cross_entropy(BenchContext& c) {
    Backend& b = *c.backend;
    const std::int64_t scale = b.host_memory() ? 1 : 16;
    for (const auto& [count, base] :
         {std::pair<std::int64_t, std::int64_t>{512, 512}, {1024, 2048}, {256, 8192}}) {
        const std::int64_t rows = count;
        const std::int64_t vocabulary = base * scale;
        const RotatedBuffers logits(b, static_cast<std::size_t>(rows * vocabulary) * 4);
        const Buffer numbers = b.allocate(DType::F32, {3, rows}, MemoryUse::Temporaries);
        const Tensor all = numbers.view(DType::F32, {3, rows});
        b.fill(all, 1);
        const auto row = [&](std::int64_t i) { return all.rows(i, 1).reshaped({rows}); };
        const std::vector<std::int32_t> host(static_cast<std::size_t>(rows), 7);
        const Buffer ids = b.allocate(DType::I32, {rows}, MemoryUse::Temporaries);
        const Tensor targets = ids.view(DType::I32, {rows});
        b.copy_from_host(targets, host.data());
        const auto t = [&](std::int64_t i) { return logits.tensor(i, DType::F32, {rows, vocabulary}); };
        const auto point = [&](const char* kernel) {
            return kernel_point(kernel, DType::F32, rows, vocabulary);
        };
        c.sample(point("row_max"), [&](std::int64_t i) { b.row_max(t(i), vocabulary, row(0)); });
        c.sample(point("softmax_sums"), [&](std::int64_t i) {
            b.softmax_sums(t(i), vocabulary, targets, 0, row(0), row(1), row(2));
        });
        c.sample(point("loss_backward"), [&](std::int64_t i) {
            b.cross_entropy_backward(t(i), vocabulary, targets, 0, row(0), row(1), 1e-3);
        });
        if (c.sampler->over()) return;
    }
}

}  // namespace tw
