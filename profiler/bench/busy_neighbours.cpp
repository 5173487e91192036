// A product, attention and a norm while every rank runs them: cores share caches, memory and clocks. What
// matters is the ratio to the same shapes alone, and other machines on the same cores change the pace from
// second to second by more than that: both are measured in turn, round by round.
#include <cmath>

#include "profiler/bench/benchmarks.hpp"

namespace tw {
namespace {

constexpr int kRounds = 7;

struct Kernels {
    explicit Kernels(Backend& backend)
        : b(backend), x(b, kBytes), y(b, kBytes), z(b, kBytes), wide(b, 3 * kBytes), stats(b, kRows * 64) {}

    void product(std::int64_t i) {
        const auto view = [&](const RotatedBuffers& of) {
            return MatrixView{of.at(i), DType::F32, kRows, kWidth, kWidth};
        };
        const MatrixView weight{x.at(i), DType::F32, kWidth, kWidth, kWidth};
        b.gemm(view(y), false, weight, false, view(z), false);
    }
    void attention(std::int64_t i) {
        AttentionCall call;
        call.batch = 4, call.seq_len = kRows / 4, call.heads = call.kv_heads = 8, call.head_dim = kWidth / 8;
        call.scale = 1 / std::sqrt(static_cast<double>(call.head_dim));
        const MatrixView qkv{wide.at(i), DType::F32, kRows, 3 * kWidth, 3 * kWidth};
        b.attention_forward(call, qkv.columns(0, kWidth), qkv.columns(kWidth, kWidth),
                            qkv.columns(2 * kWidth, kWidth),
                            MatrixView{z.at(i), DType::F32, kRows, kWidth, kWidth},
                            stats.tensor(i, DType::F32, {4, 8, kRows / 4}));
    }
    void memory(std::int64_t i) {
        const auto t = [&](const RotatedBuffers& of) { return of.tensor(i, DType::F32, {kRows, kWidth}); };
        b.dropout_add(t(x), t(y), t(z), {});
    }

    static constexpr std::int64_t kRows = 512, kWidth = 512;
    static constexpr std::size_t kBytes = kRows * kWidth * 4;
    Backend& b;
    RotatedBuffers x, y, z, wide, stats;
};

}  // namespace

void run_busy_neighbours(BenchContext& c) {
    Kernels kernels(*c.backend);
    const auto point = [](const char* kernel, const char* how, int round) {
        SampleSeries s;
        s.benchmark = "interference";
        s.variant = std::string(kernel) + " " + how;
        s.shape = {{"round", static_cast<double>(round)}};
        return s;
    };
    const std::pair<const char*, void (Kernels::*)(std::int64_t)> bodies[] = {
        {"product", &Kernels::product}, {"attention", &Kernels::attention}, {"memory", &Kernels::memory}};
    for (int round = 0; round < kRounds; ++round) {
        for (const auto& [name, kernel] : bodies) {
            const auto body = kernel;
            if (c.team->rank() == 0)
                c.sample(point(name, "alone", round), [&](std::int64_t i) { (kernels.*body)(i); });
            (void)c.team->agree(0);
            c.sample_together(point(name, "beside ranks", round),
                              [&](std::int64_t i) { (kernels.*body)(i); });
        }
    }
}

}  // namespace tw
