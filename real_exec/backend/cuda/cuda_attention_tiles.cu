// Attention on tensor cores: tiles of queries against tiles of keys (Dao 2023, FlashAttention-2, algorithms 1
// and 2), next tiles on their way while the current ones are multiplied. The gradient of queries has a kernel
// of its own, which computes the probabilities once more, so that no sum is made by atomics and a run repeats
// bit by bit.
#include "real_exec/backend/cuda/attention_args.hpp"
#include "real_exec/backend/cuda/tensor_core.hpp"

namespace tw::cuda {
namespace {

constexpr float kLog2E = 1.4426950408889634F;

// Powers of two, to 2 units in the last place; below 2^-126 zero (PTX ISA, ex2.approx.ftz). exp2f would scale
// every argument to keep what is smaller still.
TW_DEVICE float exp2_fast(float x) {
#ifdef __CUDACC__
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
#else
    return exp2f(x);
#endif
}

// Of one output element of a warp's 16 x 8 product: row and column.
TW_DEVICE int row_of(int i) {
    return static_cast<int>(threadIdx.x % 32 / 4) + (i / 2) * 8;
}
TW_DEVICE int column_of(int n, int i) {
    return 8 * n + 2 * static_cast<int>(threadIdx.x % 4) + i % 2;
}
// Over the four lanes that share a row.
TW_DEVICE float row_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, 1));
    return fmaxf(x, __shfl_xor_sync(kAllLanes, x, 2));
}
TW_DEVICE float row_sum(float x) {
    x += __shfl_xor_sync(kAllLanes, x, 1);
    return x + __shfl_xor_sync(kAllLanes, x, 2);
}

// The warp's 16 rows of products to a matrix, from row `begin` on; `factor` of each lane's two rows.
template <class T, int kDim>
TW_DEVICE void put_rows(const float (&c)[kDim / 8][4], const float* factor, Heads<T> to, std::int64_t base,
                        std::int64_t begin, std::int64_t rows, std::int64_t head, int dim) {
    TW_UNROLL
    for (int half = 0; half < 2; ++half) {
        const std::int64_t row = begin + row_of(2 * half);
        if (row >= rows) continue;
        T* out = to.at(base + row, head, dim);
        TW_UNROLL
        for (int n = 0; n < kDim / 8; ++n) {
            const int column = column_of(n, 0);
            if (column < dim) {
                *reinterpret_cast<std::uint32_t*>(out + column) =
                    pack_pair<T>(c[n][2 * half] * factor[half], c[n][2 * half + 1] * factor[half]);
            }
        }
    }
}

// ---- forward: a block of kQ queries, 16 a warp ----

template <class T, int kDim, int kQ, int kK>
TW_KERNEL forward_tiles(AttentionArgs a, Heads<const T> q, Heads<const T> k, Heads<const T> v, Heads<T> out,
                        float* lse) {
    constexpr int kThreads = kQ * 2;
    TW_DYNAMIC_SHARED(shared);
    T* query_tile = reinterpret_cast<T*>(shared);
    T* key_tiles = query_tile + kQ * kDim;  // two, in turn
    T* value_tiles = key_tiles + 2 * kK * kDim;
    const int warp_row = static_cast<int>(threadIdx.x / 32) * 16;
    const std::int64_t head = blockIdx.y, sample = blockIdx.z, base = sample * a.seq;
    const std::int64_t kv = head * a.kv_heads / a.heads;
    // Under a causal mask the last queries have most to do: they start first.
    const std::int64_t first_query = static_cast<std::int64_t>(gridDim.x - 1 - blockIdx.x) * kQ;
    const std::int64_t last_query = (first_query + kQ < a.seq ? first_query + kQ : a.seq) - 1;
    const T* keys = k.at(base, kv, a.dim);
    const T* values = v.at(base, kv, a.dim);
    const auto load = [&](std::int64_t begin, int stage) {
        load_tile<T, kDim, kK, kThreads>(key_tiles + stage * kK * kDim, keys, k.ld, begin, a.seq, a.dim);
        load_tile<T, kDim, kK, kThreads>(value_tiles + stage * kK * kDim, values, v.ld, begin, a.seq, a.dim);
        copies_commit();
    };
    const std::int64_t end = a.last_key(last_query);
    std::int64_t begin = a.first_key(first_query) / kK * kK;
    load_tile<T, kDim, kQ, kThreads>(query_tile, q.at(base, head, a.dim), q.ld, first_query, a.seq, a.dim);
    load(begin, 0);

    float result[kDim / 8][4] = {};
    float top[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};
    const float scale = a.scale * kLog2E;
    for (int stage = 0; begin < end; begin += kK, stage ^= 1) {
        if (begin + kK < end) {
            load(begin + kK, stage ^ 1);
            copies_wait<1>();
        } else {
            copies_wait<0>();
        }
        __syncthreads();
        float p[kK / 8][4];
        multiply_transposed<T, kDim, kK>(p, query_tile, warp_row, key_tiles + stage * kK * kDim);
        const std::int64_t first_row = first_query + warp_row;
        const bool all_seen = begin >= a.first_key(first_row + 15) && begin + kK <= a.last_key(first_row) &&
                              begin + kK <= a.seq;
        if (!all_seen) {
            TW_UNROLL
            for (int n = 0; n < kK / 8; ++n) {
                TW_UNROLL
                for (int i = 0; i < 4; ++i) {
                    if (!a.sees(first_row + row_of(i), begin + column_of(n, i))) p[n][i] = -INFINITY;
                }
            }
        }
        TW_UNROLL
        for (int half = 0; half < 2; ++half) {
            float higher = top[half];
            TW_UNROLL
            for (int n = 0; n < kK / 8; ++n)
                higher = fmaxf(higher, fmaxf(p[n][2 * half], p[n][2 * half + 1]));
            higher = row_max(higher);
            const float origin = higher == -INFINITY ? 0.0F : higher * scale;
            const float shrink = exp2_fast(top[half] * scale - origin);
            top[half] = higher;
            float sum = 0;
            TW_UNROLL
            for (int n = 0; n < kK / 8; ++n) {
                TW_UNROLL
                for (int i = 2 * half; i < 2 * half + 2; ++i) {
                    p[n][i] = exp2_fast(p[n][i] * scale - origin);
                    sum += p[n][i];
                }
            }
            total[half] = total[half] * shrink + sum;
            TW_UNROLL
            for (int n = 0; n < kDim / 8; ++n) {
                result[n][2 * half] *= shrink;
                result[n][2 * half + 1] *= shrink;
            }
        }
        if (a.dropout.on) {
            TW_UNROLL
            for (int n = 0; n < kK / 8; ++n) {
                TW_UNROLL
                for (int i = 0; i < 4; ++i)
                    p[n][i] *= a.dropout.mask(a.dropout_row(sample, head, first_row + row_of(i)) + begin +
                                              column_of(n, i));
            }
        }
        multiply_add<T, kDim, kK>(result, p, value_tiles + stage * kK * kDim);
        __syncthreads();
    }
    float inverse[2];
    TW_UNROLL
    for (int half = 0; half < 2; ++half) {
        const float sum = row_sum(total[half]);
        inverse[half] = 1.0F / sum;
        const std::int64_t row = first_query + warp_row + row_of(2 * half);
        if (threadIdx.x % 4 == 0 && row < a.seq)
            lse[(sample * a.heads + head) * a.seq + row] = top[half] * a.scale + logf(sum);
    }
    put_rows<T, kDim>(result, inverse, out, base, first_query + warp_row, a.seq, head, a.dim);
}

// ---- gradient of queries: a block of kQ queries against all keys that they see ----

template <class T, int kDim, int kQ, int kK>
TW_KERNEL query_grad_tiles(AttentionArgs a, Heads<const T> q, Heads<const T> k, Heads<const T> v,
                           const float* lse, const float* delta, Heads<const T> dout, Heads<T> dq) {
    constexpr int kThreads = kQ * 2;
    TW_DYNAMIC_SHARED(shared);
    T* query_tile = reinterpret_cast<T*>(shared);
    T* grad_tile = query_tile + kQ * kDim;
    T* key_tiles = grad_tile + kQ * kDim;
    T* value_tiles = key_tiles + 2 * kK * kDim;
    const int warp_row = static_cast<int>(threadIdx.x / 32) * 16;
    const std::int64_t head = blockIdx.y, sample = blockIdx.z, base = sample * a.seq;
    const std::int64_t kv = head * a.kv_heads / a.heads;
    const std::int64_t first_query = static_cast<std::int64_t>(gridDim.x - 1 - blockIdx.x) * kQ;
    const std::int64_t last_query = (first_query + kQ < a.seq ? first_query + kQ : a.seq) - 1;
    const auto load = [&](std::int64_t begin, int stage) {
        load_tile<T, kDim, kK, kThreads>(key_tiles + stage * kK * kDim, k.at(base, kv, a.dim), k.ld, begin,
                                         a.seq, a.dim);
        load_tile<T, kDim, kK, kThreads>(value_tiles + stage * kK * kDim, v.at(base, kv, a.dim), v.ld, begin,
                                         a.seq, a.dim);
        copies_commit();
    };
    const std::int64_t end = a.last_key(last_query);
    std::int64_t begin = a.first_key(first_query) / kK * kK;
    load_tile<T, kDim, kQ, kThreads>(query_tile, q.at(base, head, a.dim), q.ld, first_query, a.seq, a.dim);
    load_tile<T, kDim, kQ, kThreads>(grad_tile, dout.at(base, head, a.dim), dout.ld, first_query, a.seq,
                                     a.dim);
    load(begin, 0);

    float result[kDim / 8][4] = {};
    float own_lse[2] = {}, own_delta[2] = {};
    const std::int64_t first_row = first_query + warp_row;
    TW_UNROLL
    for (int half = 0; half < 2; ++half) {
        const std::int64_t row = first_row + row_of(2 * half);
        if (row >= a.seq) continue;
        own_lse[half] = lse[(sample * a.heads + head) * a.seq + row] * kLog2E;
        own_delta[half] = delta[(sample * a.heads + head) * a.seq + row];
    }
    const float scale = a.scale * kLog2E;
    for (int stage = 0; begin < end; begin += kK, stage ^= 1) {
        if (begin + kK < end) {
            load(begin + kK, stage ^ 1);
            copies_wait<1>();
        } else {
            copies_wait<0>();
        }
        __syncthreads();
        float p[kK / 8][4], g[kK / 8][4];
        multiply_transposed<T, kDim, kK>(p, query_tile, warp_row, key_tiles + stage * kK * kDim);
        multiply_transposed<T, kDim, kK>(g, grad_tile, warp_row, value_tiles + stage * kK * kDim);
        TW_UNROLL
        for (int n = 0; n < kK / 8; ++n) {
            TW_UNROLL
            for (int i = 0; i < 4; ++i) {
                float grad = g[n][i];
                if (a.dropout.on)
                    grad *= a.dropout.mask(a.dropout_row(sample, head, first_row + row_of(i)) + begin +
                                           column_of(n, i));
                p[n][i] = exp2_fast(p[n][i] * scale - own_lse[i / 2]) * (grad - own_delta[i / 2]);
            }
        }
        const bool all_seen = first_row + 15 < a.seq && begin >= a.first_key(first_row + 15) &&
                              begin + kK <= a.last_key(first_row);
        if (!all_seen) {
            TW_UNROLL
            for (int n = 0; n < kK / 8; ++n) {
                TW_UNROLL
                for (int i = 0; i < 4; ++i) {
                    const std::int64_t query = first_row + row_of(i);
                    if (query >= a.seq || !a.sees(query, begin + column_of(n, i))) p[n][i] = 0;
                }
            }
        }
        multiply_add<T, kDim, kK>(result, p, key_tiles + stage * kK * kDim);
        __syncthreads();
    }
    const float factor[2] = {a.scale, a.scale};
    put_rows<T, kDim>(result, factor, dq, base, first_row, a.seq, head, a.dim);
}

// ---- gradients of keys and values: a block of kK keys, 16 a warp, against all queries that see them ----

template <class T, int kDim, int kQ, int kK>
TW_KERNEL key_grad_tiles(AttentionArgs a, Heads<const T> q, Heads<const T> k, Heads<const T> v,
                         const float* lse, const float* delta, Heads<const T> dout, Heads<T> dk,
                         Heads<T> dv) {
    constexpr int kThreads = kK * 2;
    TW_DYNAMIC_SHARED(shared);
    T* key_tile = reinterpret_cast<T*>(shared);
    T* value_tile = key_tile + kK * kDim;
    T* query_tiles = value_tile + kK * kDim;
    T* grad_tiles = query_tiles + 2 * kQ * kDim;
    float* sums = reinterpret_cast<float*>(grad_tiles + 2 * kQ * kDim);  // per stage: lse, then delta
    const int warp_row = static_cast<int>(threadIdx.x / 32) * 16;
    const std::int64_t kv = blockIdx.y, sample = blockIdx.z, base = sample * a.seq;
    const std::int64_t group = a.heads / a.kv_heads;
    const std::int64_t first_key = static_cast<std::int64_t>(blockIdx.x) * kK;
    const std::int64_t first_row = first_key + warp_row;
    const std::int64_t last_key = (first_key + kK < a.seq ? first_key + kK : a.seq) - 1;
    const std::int64_t first = a.first_query(first_key) / kQ * kQ;
    const std::int64_t tiles = (a.last_query(last_key) - first + kQ - 1) / kQ;
    const auto load = [&](std::int64_t step, int stage) {
        const std::int64_t head = kv * group + step / tiles, begin = first + step % tiles * kQ;
        load_tile<T, kDim, kQ, kThreads>(query_tiles + stage * kQ * kDim, q.at(base, head, a.dim), q.ld,
                                         begin, a.seq, a.dim);
        load_tile<T, kDim, kQ, kThreads>(grad_tiles + stage * kQ * kDim, dout.at(base, head, a.dim), dout.ld,
                                         begin, a.seq, a.dim);
        copies_commit();
        for (int i = static_cast<int>(threadIdx.x); i < kQ; i += kThreads) {
            const std::int64_t at = (sample * a.heads + head) * a.seq + begin + i;
            sums[stage * 2 * kQ + i] = begin + i < a.seq ? lse[at] * kLog2E : 0.0F;
            sums[stage * 2 * kQ + kQ + i] = begin + i < a.seq ? delta[at] : 0.0F;
        }
    };
    load_tile<T, kDim, kK, kThreads>(key_tile, k.at(base, kv, a.dim), k.ld, first_key, a.seq, a.dim);
    load_tile<T, kDim, kK, kThreads>(value_tile, v.at(base, kv, a.dim), v.ld, first_key, a.seq, a.dim);
    load(0, 0);

    float key_sums[kDim / 8][4] = {}, value_sums[kDim / 8][4] = {};
    const float scale = a.scale * kLog2E;
    const std::int64_t steps = group * tiles;
    int stage = 0;
    for (std::int64_t step = 0; step < steps; ++step, stage ^= 1) {
        if (step + 1 < steps) {
            load(step + 1, stage ^ 1);
            copies_wait<1>();
        } else {
            copies_wait<0>();
        }
        __syncthreads();
        const std::int64_t head = kv * group + step / tiles, begin = first + step % tiles * kQ;
        const T* query_tile = query_tiles + stage * kQ * kDim;
        const T* grad_tile = grad_tiles + stage * kQ * kDim;
        const float* tile_lse = sums + stage * 2 * kQ;
        // Transposed: rows are keys, columns queries.
        float p[kQ / 8][4], g[kQ / 8][4];
        multiply_transposed<T, kDim, kQ>(p, key_tile, warp_row, query_tile);
        multiply_transposed<T, kDim, kQ>(g, value_tile, warp_row, grad_tile);
        TW_UNROLL
        for (int n = 0; n < kQ / 8; ++n) {
            TW_UNROLL
            for (int i = 0; i < 4; ++i) {
                const int column = column_of(n, i);
                const float mask =
                    a.dropout.on
                        ? a.dropout.mask(a.dropout_row(sample, head, begin + column) + first_row + row_of(i))
                        : 1.0F;
                const float own = exp2_fast(p[n][i] * scale - tile_lse[column]);
                g[n][i] = own * (g[n][i] * mask - tile_lse[kQ + column]);
                p[n][i] = own * mask;
            }
        }
        const bool all_seen = begin + kQ <= a.seq && first_row >= a.first_key(begin + kQ - 1) &&
                              first_row + 15 < a.last_key(begin);
        if (!all_seen) {
            TW_UNROLL
            for (int n = 0; n < kQ / 8; ++n) {
                TW_UNROLL
                for (int i = 0; i < 4; ++i) {
                    const std::int64_t query = begin + column_of(n, i);
                    if (query < a.seq && a.sees(query, first_row + row_of(i))) continue;
                    g[n][i] = 0;  // whatever it was, a number or none
                    p[n][i] = 0;
                }
            }
        }
        multiply_add<T, kDim, kQ>(value_sums, p, grad_tile);
        multiply_add<T, kDim, kQ>(key_sums, g, query_tile);
        __syncthreads();
    }
    const float key_factor[2] = {a.scale, a.scale}, value_factor[2] = {1, 1};
    put_rows<T, kDim>(key_sums, key_factor, dk, base, first_row, a.seq, kv, a.dim);
    put_rows<T, kDim>(value_sums, value_factor, dv, base, first_row, a.seq, kv, a.dim);
}

template <class Body>
void tile_types(DType dtype, Body body) {
    if (dtype == DType::BF16) {
        body(Bf16{});
    } else {
        body(F16{});
    }
}

Grid tile_grid(std::int64_t rows, int tile, std::int64_t heads, std::int64_t batch) {
    return {blocks_for(rows, tile), static_cast<unsigned>(heads), static_cast<unsigned>(batch)};
}

template <class T, int kDim>
void forward(const AttentionArgs& a, std::int64_t batch, const MatrixView& q, const MatrixView& k,
             const MatrixView& v, const MatrixView& out, float* lse, Stream stream) {
    constexpr int kQ = 128, kK = 64;
    launch("attention_tiles", forward_tiles<T, kDim, kQ, kK>, tile_grid(a.seq, kQ, a.heads, batch), 2 * kQ,
           (kQ + 4 * kK) * kDim * sizeof(T), stream, a, heads_of<const T>(q), heads_of<const T>(k),
           heads_of<const T>(v), heads_of<T>(out), lse);
}

template <class T, int kDim>
void backward(const AttentionArgs& a, std::int64_t batch, const MatrixView& q, const MatrixView& k,
              const MatrixView& v, const float* lse, const float* delta, const MatrixView& dout,
              const MatrixView& dq, const MatrixView& dk, const MatrixView& dv, Stream stream) {
    constexpr int kTile = 64;
    constexpr int kQ = kDim == 64 ? 64 : 32;  // queries at a time: what 255 registers a thread hold
    launch("attention_query_grad_tiles", query_grad_tiles<T, kDim, kTile, kTile>,
           tile_grid(a.seq, kTile, a.heads, batch), 2 * kTile, 6 * kTile * kDim * sizeof(T), stream, a,
           heads_of<const T>(q), heads_of<const T>(k), heads_of<const T>(v), lse, delta,
           heads_of<const T>(dout), heads_of<T>(dq));
    launch("attention_key_grad_tiles", key_grad_tiles<T, kDim, kQ, kTile>,
           tile_grid(a.seq, kTile, a.kv_heads, batch), 2 * kTile,
           (2 * kTile + 4 * kQ) * kDim * sizeof(T) + 4 * kQ * sizeof(float), stream, a, heads_of<const T>(q),
           heads_of<const T>(k), heads_of<const T>(v), lse, delta, heads_of<const T>(dout), heads_of<T>(dk),
           heads_of<T>(dv));
}

}  // namespace

void attention_forward_tiles(const AttentionArgs& a, std::int64_t batch, const MatrixView& q,
                             const MatrixView& k, const MatrixView& v, const MatrixView& out, float* lse,
                             Stream stream) {
    tile_types(q.dtype, [&](auto t) {
        using T = decltype(t);
        if (a.dim <= 64) {
            forward<T, 64>(a, batch, q, k, v, out, lse, stream);
        } else {
            forward<T, 128>(a, batch, q, k, v, out, lse, stream);
        }
    });
}

void attention_backward_tiles(const AttentionArgs& a, std::int64_t batch, const MatrixView& q,
                              const MatrixView& k, const MatrixView& v, const float* lse, const float* delta,
                              const MatrixView& dout, const MatrixView& dq, const MatrixView& dk,
                              const MatrixView& dv, Stream stream) {
    tile_types(q.dtype, [&](auto t) {
        using T = decltype(t);
        if (a.dim <= 64) {
            backward<T, 64>(a, batch, q, k, v, lse, delta, dout, dq, dk, dv, stream);
        } else {
            backward<T, 128>(a, batch, q, k, v, lse, delta, dout, dq, dk, dv, stream);
        }
    });
}

}  // namespace tw::cuda
