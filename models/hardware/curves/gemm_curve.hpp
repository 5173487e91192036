// Time of a matrix product on a GPU, from its shape: tiles, waves over the multiprocessors, split-k, memory
// traffic.
//
//   t = launch + soft_max(c, memory; blend) + [s > 1] (split + the partial sums' 4 m n s bytes)
//   c = throttled(waves (ceil32(k / s) step_TMTN + prologue + epilogue TM TN / 128^2))
//   step_TMTN = 2 TM TN factor_TMTN (1 + 64 overhead (1/TM + 1/TN)) sms / rate + step
//   waves = (1 - slack) ceil(tiles s / sms) + slack max(1, tiles s / sms)
//   memory = (far + near / cache_gain) / bandwidth
//
// minimised over tile sizes TM x TN and split-k factors s (s = 1 below `least_split`). Wave and tile
// quantisation: NVIDIA, "Matrix Multiplication Background User's Guide", sections 3-4; split-k and stream-k
// tiles: Osama et al. 2023; a tile's epilogue does not overlap its own main loop: NVIDIA/cutlass,
// media/docs/efficient_gemm.md. The form and the parameters of the shipped profiles were chosen on measured
// tables (docs/results/fit.md).
//
// Which bytes come from the level-2 cache. A cache keeps what was touched within its size, so an operand is
// near where everything touched since its last use fits. The left operand was written by the kernel before,
// and the output is read by the kernel after: they are near where the product's own operands and output fit.
// The right operand is a weight, or an activation of long ago: in a training step a whole pass over the model
// lies between two of its uses, and it is far. A benchmark that takes `weights_in_turn` different right
// operands finds the first again after all of them: they are near where all of them fit.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "models/hardware/curves/curve_math.hpp"

namespace tw {

constexpr std::size_t kGemmTiles = 12;

struct GemmCurve {
    double launch_s = 0;      // fixed time of the kernel
    double rate = 1e12;       // FLOP/s of the whole device in tiles of unbounded size
    double overhead = 0;      // loss of small tiles (operand traffic from shared memory)
    double prologue_s = 0;    // start and end of a tile
    double bandwidth = 1e12;  // bytes/s of device memory as a matrix product uses it
    double split_s = 0;       // the reduction after split-k
    // m n k from which on the library considers split-k. On L40S and RTX PRO 6000 cuBLAS does from 128^3: at
    // n = 32, k = 8192 a product of 7 rows takes 35.6 us, one of 8 rows 4.8 us.
    double least_split = 0;
    double blend = 2;     // how compute and memory overlap, >= 1
    double throttle = 0;  // sustained load, see throttled()
    double slack = 0;     // 0: whole waves; towards 1: a persistent scheduler fills the last wave
    // Rows off a 128-byte boundary (n or k, of a weight gradient m or n) cost c times `unaligned`. The
    // matrices of a batched product whose rows are not a multiple of 16 bytes start off a 16-byte boundary
    // too, where cuBLAS does not use its vectorised tensor-core kernels (cuBLAS Library User Guide, "Tensor
    // Core Usage"): c times `scalar`.
    double unaligned = 1;
    double scalar = 1;
    double step_s = 0;      // of a tile for each element of k, beside its FLOPs: latency of the main loop
    double epilogue_s = 0;  // of a tile of 128 x 128 outputs, after its main loop
    // A product with one row runs in a kernel of its own: launch + vector + soft_max(min(k vector_step,
    // vector_split), memory; blend). 0 vector_step: no such kernel.
    double vector_s = 0, vector_step_s = 0, vector_split_s = 0;
    // Bytes in the level-2 cache move `cache_gain` times as fast. All of a working set is near up to
    // cache_bytes (1 - fade / 2), none from cache_bytes (1 + fade / 2) on.
    double cache_bytes = 0, cache_gain = 1, cache_fade = 1;
    std::array<double, kGemmTiles> factors = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};  // of kGemmTileSizes
    int sms = 1;                                                                    // multiprocessors
    int largest_tile = 128;  // 128: tiles up to 256x128; 256: up to 256x256

    friend bool operator==(const GemmCurve&, const GemmCurve&) = default;
};

struct GemmShape {
    std::int64_t m = 1, n = 1, k = 1;
    std::int64_t batch = 1;    // independent products in one kernel
    double element_bytes = 2;  // of both operands
    double output_bytes = 2;   // written (and read, where accumulated) per output element
    int weights_in_turn = 0;   // of a benchmark's repetitions; 0: the right operand was not used lately
    // A weight gradient's: both operands are stored with their rows along m and n, so that k, the tokens, may
    // be any number (in 8 bits, where they are transposed, Transformer Engine pads it: fp8_utils.py,
    // get_fp8_align_size).
    bool strided_k = false;
};

// Corrections in log time on a grid over (log2 m, log2 n, log2 k), interpolated trilinearly and constant
// outside.
struct ResidualGrid {
    std::vector<double> m, n, k;  // knots, ascending, in log2
    std::vector<double> values;   // [m][n][k], natural log of measured / curve

    [[nodiscard]] bool empty() const { return values.empty(); }
    [[nodiscard]] double at(double m_size, double n_size, double k_size) const;
    friend bool operator==(const ResidualGrid&, const ResidualGrid&) = default;
};

struct GemmTile {
    int m, n;
};
// Tile sizes of cuBLAS's kernels, both ways round; the first two only where the device has them (Blackwell).
constexpr std::array<GemmTile, kGemmTiles> kGemmTileSizes = {{{256, 256},
                                                              {256, 192},
                                                              {256, 128},
                                                              {128, 256},
                                                              {128, 128},
                                                              {256, 64},
                                                              {64, 256},
                                                              {128, 64},
                                                              {64, 128},
                                                              {64, 64},
                                                              {64, 32},
                                                              {32, 64}}};

// FLOP/s of the whole device in the main loop of tiles of 256 x 128.
double tile_rate(const GemmCurve& curve);
// The same kernels at `factor` times the rate (another precision, another clock): what a multiprocessor does
// in a tile takes 1 / factor of its time.
void scale_main_loop(GemmCurve& curve, double factor);

// Seconds; shape entries >= 1. Deterministic, no allocation, under 2 us.
double gemm_seconds(const GemmCurve& curve, const GemmShape& shape);
double gemm_seconds(const GemmCurve& curve, const ResidualGrid& grid, const GemmShape& shape);
// What it takes more to add to fp32 sums: they are read and written where the curve has a result written, by
// the curve's rate of memory.
double accumulation_seconds(const GemmCurve& curve, const GemmShape& shape);

}  // namespace tw
