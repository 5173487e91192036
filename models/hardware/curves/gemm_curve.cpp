#include "models/hardware/curves/gemm_curve.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace tw {
namespace {

constexpr std::array<int, 7> kSplits = {1, 2, 3, 4, 6, 8, 16};
constexpr double kSmallestSlice = 256;  // of k, per split

// ceil of a number in [0, 2^63); a call of the C library otherwise.
double whole(double x) {
    const auto floor = static_cast<double>(static_cast<std::int64_t>(x));
    return floor < x ? floor + 1 : floor;
}

constexpr std::size_t kFirstCommonTile = 2;

// A tile's main loop for one element of k.
double step_seconds(const GemmCurve& curve, std::size_t index) {
    const GemmTile tile = kGemmTileSizes[index];
    const double loss = 1.0 + 64.0 * curve.overhead * (1.0 / tile.m + 1.0 / tile.n);
    return 2.0 * tile.m * tile.n * curve.factors[index] * loss * (curve.sms / curve.rate) + curve.step_s;
}

struct Traffic {
    double seconds;           // of operands and output
    double seconds_per_byte;  // of what was just written: partial sums
};

Traffic traffic(const GemmCurve& curve, const GemmShape& shape) {
    const double m = static_cast<double>(shape.m), n = static_cast<double>(shape.n);
    const double k = static_cast<double>(shape.k), batch = static_cast<double>(shape.batch);
    const double left_and_output = (shape.element_bytes * m * k + shape.output_bytes * m * n) * batch;
    const double right = shape.element_bytes * k * n * batch;
    if (curve.cache_bytes <= 0) return {(left_and_output + right) / curve.bandwidth, 1 / curve.bandwidth};
    const auto share = [&curve](double bytes) {
        return std::clamp(0.5 + (1.0 - bytes / curve.cache_bytes) / curve.cache_fade, 0.0, 1.0);
    };
    const double saved = 1.0 - 1.0 / curve.cache_gain;
    const double own = share(left_and_output + right);
    double near = own * left_and_output;
    if (shape.weights_in_turn > 0) near += share(left_and_output + shape.weights_in_turn * right) * right;
    return {(left_and_output + right - near * saved) / curve.bandwidth,
            (1.0 - own * saved) / curve.bandwidth};
}

bool multiple_of(std::int64_t elements, double element_bytes, double bytes) {
    return std::fmod(static_cast<double>(elements) * element_bytes, bytes) == 0;
}

double misalignment(const GemmCurve& curve, const GemmShape& shape) {
    const auto whole_rows = [&](double bytes) {
        return multiple_of(shape.n, shape.element_bytes, bytes) &&
               multiple_of(shape.strided_k ? shape.m : shape.k, shape.element_bytes, bytes);
    };
    if (shape.batch > 1 && !whole_rows(16)) return curve.scalar;
    return whole_rows(128) ? 1.0 : curve.unaligned;
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

double tile_rate(const GemmCurve& curve) {
    constexpr std::size_t kTile = 2;
    static_assert(kGemmTileSizes[kTile].m == 256 && kGemmTileSizes[kTile].n == 128);
    constexpr double kFlops = 2.0 * 256 * 128;
    return kFlops * curve.sms / step_seconds(curve, kTile);
}

void scale_main_loop(GemmCurve& curve, double factor) {
    curve.rate *= factor;
    curve.step_s /= factor;
}

double gemm_seconds(const GemmCurve& curve, const GemmShape& shape) {
    const double m = static_cast<double>(shape.m);
    const double n = static_cast<double>(shape.n);
    const double k = static_cast<double>(shape.k);
    const double batch = static_cast<double>(shape.batch);
    const double sms = curve.sms;
    const Traffic moved = traffic(curve, shape);
    const double memory = moved.seconds;
    if (shape.m == 1 && shape.batch == 1 && curve.vector_step_s > 0) {
        const double loop = std::min(k * curve.vector_step_s, curve.vector_split_s);
        return curve.launch_s + curve.vector_s + soft_max(loop, memory, curve.blend);
    }
    const double penalty = misalignment(curve, shape);

    const std::size_t first = curve.largest_tile > 128 ? 0 : kFirstCommonTile;
    std::array<double, kGemmTiles> tiles{}, step{}, ends{};
    for (std::size_t i = first; i < kGemmTiles; ++i) {
        const GemmTile tile = kGemmTileSizes[i];
        tiles[i] = whole(m / tile.m) * whole(n / tile.n) * batch;
        step[i] = step_seconds(curve, i);
        ends[i] = curve.prologue_s + curve.epilogue_s * (tile.m * tile.n / (128.0 * 128.0));
    }
    double best = std::numeric_limits<double>::infinity();
    const bool splits = m * n * k * batch >= curve.least_split;
    for (const int split : kSplits) {
        if (split > 1 && (!splits || k / split < kSmallestSlice)) break;
        const double slice = 32.0 * whole(k / split / 32.0);
        double compute = std::numeric_limits<double>::infinity();
        for (std::size_t i = first; i < kGemmTiles; ++i) {
            const double turns = tiles[i] * split / sms;
            const double waves = (1.0 - curve.slack) * whole(turns) + curve.slack * std::max(1.0, turns);
            compute = std::min(compute, waves * (slice * step[i] + ends[i]));
        }
        compute = throttled(compute * penalty, curve.throttle);
        const double after =
            split > 1 ? curve.split_s + 4.0 * m * n * batch * split * moved.seconds_per_byte : 0.0;
        if (std::max(compute, memory) + after >= best) continue;  // soft_max is no less
        best = std::min(best, soft_max(compute, memory, curve.blend) + after);
    }
    return curve.launch_s + best;
}

double gemm_seconds(const GemmCurve& curve, const ResidualGrid& grid, const GemmShape& shape) {
    const double seconds = gemm_seconds(curve, shape);
    if (grid.empty()) return seconds;
    return seconds * std::exp(grid.at(static_cast<double>(shape.m) * static_cast<double>(shape.batch),
                                      static_cast<double>(shape.n), static_cast<double>(shape.k)));
}

double accumulation_seconds(const GemmCurve& curve, const GemmShape& shape) {
    const double outputs =
        static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.batch);
    return (8 - shape.output_bytes) * outputs / curve.bandwidth;
}

}  // namespace tw
