#include "models/hardware/curves/attention_curve.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tw {
namespace {

// Keys that the tile of queries [first, first + rows) of a square problem visits, rounded up to whole blocks.
double tile_keys(const AttentionShape& shape, std::int64_t first, int rows) {
    std::int64_t high = shape.seq_kv;
    if (shape.causal) high = std::min(first + rows, shape.seq_kv);
    std::int64_t low = 0;
    if (shape.window > 0) low = std::max<std::int64_t>(0, first - shape.window + 1);
    const std::int64_t first_block = low / rows;
    const std::int64_t end_block = (high + rows - 1) / rows;
    return static_cast<double>(std::max<std::int64_t>(1, end_block - first_block) * rows);
}

double power_of_two(std::int64_t dimension) {
    return static_cast<double>(std::bit_ceil(static_cast<std::uint64_t>(dimension)));
}

}  // namespace

double visited_scores(const AttentionShape& shape, int rows) {
    const double keys = static_cast<double>(shape.seq_kv);
    // Queries of a context-parallel rank are spread evenly over the sequence: their share of the square
    // problem.
    const double share = ceil_div(static_cast<double>(shape.seq_q), rows) / ceil_div(keys, rows);
    const double tiles = ceil_div(keys, rows);
    if (!shape.causal && shape.window == 0) return share * tiles * tiles * rows * rows;
    if (shape.window == 0) return share * rows * rows * tiles * (tiles + 1) / 2;
    // Away from its ends a window visits the same number of blocks for every tile: sum the first tiles only.
    const std::int64_t count = static_cast<std::int64_t>(tiles);
    const std::int64_t settled = std::min(count, (shape.window + rows - 1) / rows + 2);
    double sum = 0;
    for (std::int64_t tile = 0; tile < settled; ++tile)
        sum += tile_keys(shape, tile * rows, rows);
    sum += static_cast<double>(count - settled) * tile_keys(shape, (settled - 1) * rows, rows);
    return share * sum * rows;
}

double attention_seconds(const AttentionCurve& curve, const AttentionShape& shape) {
    const double held = static_cast<double>(shape.head_dim_qk + shape.head_dim_v);
    const double dims =
        curve.whole_dims ? power_of_two(shape.head_dim_qk) + power_of_two(shape.head_dim_v) : held;
    const double passes = shape.backward ? 2.5 : 1.0;
    const double problems = static_cast<double>(shape.batch * shape.heads);
    const double tiles = ceil_div(static_cast<double>(shape.seq_q), curve.rows);
    const double flops_per_score = 2.0 * dims * passes;
    const double work = flops_per_score * visited_scores(shape, curve.rows) * problems;
    const std::int64_t last_tile = std::max<std::int64_t>(0, shape.seq_kv - curve.rows);
    const double longest = flops_per_score * tile_keys(shape, last_tile, curve.rows) * curve.rows;

    const double sms = curve.sms;
    const double rate = curve.rate * dims / (dims + 2.0 * curve.narrow) / sms;
    const double waves = std::max(1.0, tiles * problems / sms);
    const double compute = soft_max(work / sms, longest, 4.0) / rate + curve.prologue_s * waves;

    const double query = static_cast<double>(shape.batch * shape.seq_q * shape.heads) * held;
    const double key = static_cast<double>(shape.batch * shape.seq_kv * shape.kv_heads) * held;
    const double bytes = shape.element_bytes * (query + key) * (shape.backward ? 2.0 : 1.0);
    double memory = bytes / curve.bandwidth;
    if (curve.cache_bytes > 0) {
        const double near = std::clamp(2.0 - bytes / curve.cache_bytes, 0.0, 1.0);
        memory *= 1.0 - near * (1.0 - 1.0 / curve.cache_gain);
    }
    return curve.launch_s + soft_max(throttled(compute, curve.throttle), memory, curve.blend);
}

}  // namespace tw
