#include "models/hardware/curves/gemm_curve.hpp"

#include <array>
#include <cmath>
#include <limits>

namespace tw {
namespace {

struct Tile {
    int m, n;
};

// Tile sizes of cuBLAS's kernels, both ways round; the first two only where the device has them (Blackwell).
constexpr std::array<Tile, 12> kTiles = {{{256, 256},
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
constexpr std::array<int, 7> kSplits = {1, 2, 3, 4, 6, 8, 16};
constexpr double kSmallestSlice = 256;  // of k, per split

bool multiple_of(std::int64_t elements, double element_bytes, double bytes) {
    return std::fmod(static_cast<double>(elements) * element_bytes, bytes) == 0;
}

double misalignment(const GemmCurve& curve, const GemmShape& shape) {
    const bool whole_vectors =
        multiple_of(shape.n, shape.element_bytes, 16) && multiple_of(shape.k, shape.element_bytes, 16);
    if (!whole_vectors && shape.batch > 1) return curve.scalar;
    const bool whole_lines =
        multiple_of(shape.n, shape.element_bytes, 128) && multiple_of(shape.k, shape.element_bytes, 128);
    return whole_lines ? 1.0 : curve.unaligned;
}

// Where x lies between knots: index of the left one and the weight of the right one.
struct Position {
    std::size_t left;
    double weight;
};

Position locate(const std::vector<double>& knots, double x) {
    if (knots.size() < 2 || x <= knots.front()) return {0, 0.0};
    if (x >= knots.back()) return {knots.size() - 2, 1.0};
    std::size_t i = 0;
    while (x > knots[i + 1])
        ++i;
    return {i, (x - knots[i]) / (knots[i + 1] - knots[i])};
}

}  // namespace

double ResidualGrid::at(double m_size, double n_size, double k_size) const {
    if (values.empty()) return 0.0;
    const std::array<Position, 3> where = {locate(m, std::log2(m_size)), locate(n, std::log2(n_size)),
                                           locate(k, std::log2(k_size))};
    double sum = 0;
    for (unsigned corner = 0; corner < 8; ++corner) {
        const std::array<unsigned, 3> bit = {(corner >> 2) & 1U, (corner >> 1) & 1U, corner & 1U};
        double weight = 1;
        for (std::size_t axis = 0; axis < 3; ++axis) {
            weight *= bit[axis] != 0 ? where[axis].weight : 1.0 - where[axis].weight;
        }
        if (weight == 0) continue;
        sum += weight * values[((where[0].left + bit[0]) * n.size() + where[1].left + bit[1]) * k.size() +
                               where[2].left + bit[2]];
    }
    return sum;
}

double gemm_seconds(const GemmCurve& curve, const GemmShape& shape) {
    const double m = static_cast<double>(shape.m);
    const double n = static_cast<double>(shape.n);
    const double k = static_cast<double>(shape.k);
    const double batch = static_cast<double>(shape.batch);
    const double sms = curve.sms;
    const double operand_bytes = shape.element_bytes * (m * k + k * n) * batch;
    const double memory = (operand_bytes + shape.output_bytes * m * n * batch) / curve.bandwidth;
    const double penalty = misalignment(curve, shape);

    double best = std::numeric_limits<double>::infinity();
    for (const int split : kSplits) {
        if (split > 1 && k / split < kSmallestSlice) break;
        const double slice = 32.0 * ceil_div(k / split, 32.0);
        double compute = std::numeric_limits<double>::infinity();
        for (const Tile tile : kTiles) {
            if (tile.m * tile.n > 256 * curve.largest_tile) continue;
            const double tiles = ceil_div(m, tile.m) * ceil_div(n, tile.n) * batch * split;
            const double waves =
                (1.0 - curve.slack) * ceil_div(tiles, sms) + curve.slack * std::max(1.0, tiles / sms);
            const double loss = 1.0 + 64.0 * curve.overhead * (1.0 / tile.m + 1.0 / tile.n);
            const double one = 2.0 * tile.m * tile.n * slice * loss * sms / curve.rate + curve.prologue_s;
            compute = std::min(compute, waves * one);
        }
        double seconds = soft_max(throttled(compute * penalty, curve.throttle), memory, curve.blend);
        if (split > 1) seconds += curve.split_s + 4.0 * m * n * batch * split / curve.bandwidth;
        best = std::min(best, seconds);
    }
    return curve.launch_s + best;
}

double gemm_seconds(const GemmCurve& curve, const ResidualGrid& grid, const GemmShape& shape) {
    const double seconds = gemm_seconds(curve, shape);
    if (grid.empty()) return seconds;
    return seconds * std::exp(grid.at(static_cast<double>(shape.m) * static_cast<double>(shape.batch),
                                      static_cast<double>(shape.n), static_cast<double>(shape.k)));
}

}  // namespace tw
