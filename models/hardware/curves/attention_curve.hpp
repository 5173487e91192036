// Time of a fused attention kernel (one kernel for softmax(q k^T) v, nothing of size seq^2 in memory), from
// its shape.
//
//   t = launch + soft_max(c, (far + near / cache_gain) / bandwidth; blend)
//   c = throttled(soft_max(work / sms, longest; 4) / (rate_d / sms) + prologue tiles / sms)
//   rate_d = rate d / (d + narrow),  work = 2 (d_qk + d_v) x visited scores x passes
//
// A tile is `rows` queries of one head; it visits the keys that causality and the window leave, rounded up to
// `rows` (kernels skip whole blocks only: Dao 2023, section 3.1). `longest` is the largest tile's own work.
// q, k and v were just written and the output is read next: all bytes are near where they fit the level-2
// cache, none where they take twice its size, linear between (as in memory_curve.hpp), in a benchmark's
// repetitions as in a training step.
// Backward: passes = 2.5 of the forward's products (Dao et al. 2022, section 4; five products against two)
// and its own parameters.
#pragma once

#include <cstdint>

#include "models/hardware/curves/curve_math.hpp"

namespace tw {

struct AttentionCurve {
    double launch_s = 0;
    double rate = 1e12;       // FLOP/s of visited scores at unbounded head dimension
    double narrow = 0;        // head dimension at which half of `rate` is reached
    double prologue_s = 0;    // start and end of a tile
    double bandwidth = 1e12;  // bytes/s over q, k, v, output (twice that in the backward: gradients)
    double blend = 2;
    double throttle = 0;
    double cache_bytes = 0,
           cache_gain = 1;    // bytes that fit the cache move `cache_gain` times as fast; 0: none
    int rows = 128;           // queries a tile
    bool whole_dims = false;  // computes head dimensions rounded up to a power of two
    int sms = 1;

    friend bool operator==(const AttentionCurve&, const AttentionCurve&) = default;
};

struct AttentionShape {
    std::int64_t batch = 1, seq_q = 1, seq_kv = 1, heads = 1, kv_heads = 1, head_dim_qk = 1, head_dim_v = 1;
    bool causal = true;
    std::int64_t window = 0;  // 0: none
    bool backward = false;
    double element_bytes = 2;
};

double attention_seconds(const AttentionCurve& curve, const AttentionShape& shape);

// Scores (query, key) that a tiled kernel visits per head, over tiles of `rows` queries with keys rounded up.
// Where seq_q and seq_kv differ (context parallelism) the queries are an even sample of the sequence.
double visited_scores(const AttentionShape& shape, int rows);

}  // namespace tw
