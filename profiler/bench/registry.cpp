#include <array>

#include "profiler/bench/benchmarks.hpp"

namespace tw {
namespace {

using Kind = Benchmark::Kind;

// Shares are of the whole budget; what one leaves goes to those after it.
constexpr std::array kBenchmarks = {
    Benchmark{"memory_outside", "memory of the process beside what the allocator holds", "bytes", 0.01,
              Kind::Solo, run_memory_outside},
    Benchmark{"dispatch", "the host's time for one operation in a tight loop", "s", 0.02, Kind::Solo,
              run_dispatch},
    Benchmark{"training_steps", "every kernel inside whole training steps, and the host beside them", "s",
              0.33, Kind::Solo, run_training_steps},
    Benchmark{"copies", "copies inside memory and from the host", "s", 0.03, Kind::Solo, run_copies},
    Benchmark{"norms", "layer and RMS norms, forward and backward", "s", 0.03, Kind::Solo, run_norms},
    Benchmark{"elementwise", "activations, residual sums, rotary embedding, bias gradients", "s", 0.04,
              Kind::Solo, run_elementwise},
    Benchmark{"embedding", "look-up and its gradient", "s", 0.02, Kind::Solo, run_embedding},
    Benchmark{"cross_entropy", "the loss's kernels", "s", 0.02, Kind::Solo, run_cross_entropy},
    Benchmark{"optimizer", "AdamW", "s", 0.02, Kind::Solo, run_optimizer},
    Benchmark{"attention", "fused attention, forward and backward", "s", 0.07, Kind::Solo, run_attention},
    Benchmark{"batched_products", "a product for each head, at odd head dimensions", "s", 0.03, Kind::Solo,
              run_batched_products},
    Benchmark{"convolution", "convolutions, three forms", "s", 0.04, Kind::Solo, run_convolution},
    Benchmark{"sustained", "one product over and over", "s", 0.03, Kind::Solo, run_sustained},
    Benchmark{"point_to_point", "messages between two ranks", "s", 0.05, Kind::Team, run_point_to_point},
    Benchmark{"collectives", "every collective over sizes and groups", "s", 0.12, Kind::Team,
              run_collectives},
    Benchmark{"busy_neighbours", "kernels while every rank computes", "s", 0.06, Kind::Team,
              run_busy_neighbours},
    Benchmark{"overlap", "a product and a collective at once", "s", 0.03, Kind::Team, run_overlap},
    Benchmark{"crowd", "collectives and messages among more ranks than cores", "s", 0.04, Kind::Crowd,
              run_crowd},
    Benchmark{"gemm", "matrix products: forms, precisions, shapes", "s", 0.15, Kind::Solo, run_gemm},
};

}  // namespace

std::span<const Benchmark> benchmarks() {
    return kBenchmarks;
}

const Benchmark* find_benchmark(std::string_view name) {
    for (const Benchmark& benchmark : kBenchmarks) {
        if (benchmark.name == name) return &benchmark;
    }
    return nullptr;
}

}  // namespace tw
