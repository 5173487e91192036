// Look-up of token rows and of positions, and the gradients of both tables.
#include <vector>

#include "profiler/bench/benchmarks.hpp"

namespace tw {

void run_embedding(BenchContext& c) {
    Backend& b = *c.backend;
    const DType dtype = b.host_memory() ? DType::F32 : DType::BF16;
    constexpr std::int64_t kVocabulary = 4096, kSequence = 128;
    for (const auto& [count, length] :
         {std::pair<std::int64_t, std::int64_t>{512, 128}, {1024, 256}, {2048, 512}}) {
        const std::int64_t rows = count, width = length;
        const auto bytes = static_cast<std::size_t>(rows * width) * bytes_of(dtype);
        const RotatedBuffers y(b, bytes);
        const Buffer table = b.allocate(DType::F32, {kVocabulary, width}, MemoryUse::Temporaries);
        b.fill(table.view(DType::F32, {kVocabulary, width}), 0.01);
        const Tensor values{table.data(), dtype, Shape{kVocabulary, width}};
        const Tensor gradients{table.data(), DType::F32, Shape{kVocabulary, width}};
        std::vector<std::int32_t> host(static_cast<std::size_t>(rows));
        for (std::size_t i = 0; i < host.size(); ++i)
            host[i] = static_cast<std::int32_t>((i * 2654435761U) % kVocabulary);
        const Buffer ids = b.allocate(DType::I32, {rows}, MemoryUse::Temporaries);
        const Tensor tokens = ids.view(DType::I32, {rows});
        b.copy_from_host(tokens, host.data());
        const auto t = [&](std::int64_t i) { return y.tensor(i, dtype, {rows, width}); };
        const auto point = [&](const char* kernel) { return kernel_point(kernel, dtype, rows, width); };
        c.sample(point("embedding"), [&](std::int64_t i) { b.embedding_forward(tokens, values, 0, t(i)); });
        c.sample(point("embedding_backward"),
                 [&](std::int64_t i) { b.embedding_backward(tokens, t(i), 0, gradients); });
        const Tensor some{table.data(), dtype, Shape{kSequence, width}};
        const Tensor some_gradients{table.data(), DType::F32, Shape{kSequence, width}};
        c.sample(point("position"), [&](std::int64_t i) { b.position_add(some, kSequence, 0, 0, t(i)); });
        c.sample(point("position_backward"),
                 [&](std::int64_t i) { b.position_backward(t(i), kSequence, 0, 0, some_gradients); });
        if (c.sampler->over()) return;
    }
}

}  // namespace tw
