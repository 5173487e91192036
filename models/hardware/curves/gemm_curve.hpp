// Time of a matrix product on a GPU, from its shape: tiles, waves over the multiprocessors, split-k, memory
// traffic.
//
//   t = launch + soft_max(c, bytes / bandwidth; blend) + [s > 1] (split + 4 m n s / bandwidth)
//   c = throttled(waves (2 TM TN ceil32(k / s) / rate_TMTN + prologue))
//   rate_TMTN = rate / sms / (1 + 64 overhead (1/TM + 1/TN))
//   waves = (1 - slack) ceil(tiles s / sms) + slack max(1, tiles s / sms)
//
// minimised over tile sizes TM x TN and split-k factors s. Wave and tile quantisation: NVIDIA, "Matrix
// Multiplication Background User's Guide", sections 3-4; split-k and stream-k tiles: Osama et al. 2023. The
// form and the parameters of the shipped profiles were chosen on measured tables (docs/results/fit.md).
#pragma once

#include <cstdint>
#include <vector>

#include "models/hardware/curves/curve_math.hpp"

namespace tw {

struct GemmCurve {
    double launch_s = 0;      // fixed time of the kernel
    double rate = 1e12;       // FLOP/s of the whole device in tiles of unbounded size
    double overhead = 0;      // loss of small tiles (operand traffic from shared memory)
    double prologue_s = 0;    // start and end of a tile
    double bandwidth = 1e12;  // bytes/s of device memory as a matrix product uses it
    double split_s = 0;       // the reduction after split-k
    double blend = 2;         // how compute and memory overlap, >= 1
    double throttle = 0;      // sustained load, see throttled()
    double slack = 0;         // 0: whole waves; towards 1: a persistent scheduler fills the last wave
    // Rows off a 128-byte boundary (n or k) cost c times `unaligned`. The matrices of a batched product whose
    // n or k is not a multiple of 16 bytes start off a 16-byte boundary too, where cuBLAS does not use its
    // vectorised tensor-core kernels (cuBLAS Library User Guide, "Tensor Core Usage"): c times `scalar`.
    double unaligned = 1;
    double scalar = 1;
    int sms = 1;             // multiprocessors
    int largest_tile = 128;  // 128: tiles up to 256x128; 256: up to 256x256

    friend bool operator==(const GemmCurve&, const GemmCurve&) = default;
};

struct GemmShape {
    std::int64_t m = 1, n = 1, k = 1;
    std::int64_t batch = 1;    // independent products in one kernel
    double element_bytes = 2;  // of both operands
    double output_bytes = 2;   // written (and read, where accumulated) per output element
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

// Seconds; shape entries >= 1. Deterministic, no allocation, under 2 us.
double gemm_seconds(const GemmCurve& curve, const GemmShape& shape);
double gemm_seconds(const GemmCurve& curve, const ResidualGrid& grid, const GemmShape& shape);

}  // namespace tw
