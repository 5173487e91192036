// Attention that stores neither scores nor probabilities (Dao et al. 2022); the backward computes them again
// from the log-sum-exp. 16-bit heads of up to 128 go to tensor cores (cuda_attention_tiles.cu); the kernels
// here take any type and up to 256: a warp a query (a key, for the gradients of keys and values).
#include "real_exec/backend/cuda/attention_args.hpp"
#include "real_exec/backend/cuda/cuda_backend.hpp"

namespace tw::cuda {
namespace {

constexpr int kWarps = 4;
constexpr unsigned kThreads = 32 * kWarps;
constexpr int kMaxDim = 256;
constexpr int kPerLane = kMaxDim / 32;

template <class T>
TW_DEVICE float dot(const float* shared, const T* row, int dim) {
    float sum = 0;
    for (int i = 0; i < dim; ++i)
        sum += shared[i] * to_float(row[i]);
    return sum;
}
template <class T>
TW_DEVICE void take_row(float* shared, const T* row, int dim, unsigned lane) {
    for (int i = static_cast<int>(lane); i < dim; i += 32)
        shared[i] = to_float(row[i]);
}
// sums[i] += the lanes' weights times their rows' elements lane + 32 i; row_of(j): lane j's row.
template <class RowOf>
TW_DEVICE void add_rows(float* sums, float weight, int count, int dim, unsigned lane, RowOf row_of) {
    for (int j = 0; j < count; ++j) {
        const float w = __shfl_sync(kAllLanes, weight, j);
        const auto* row = row_of(j);
        for (int i = 0; i < kPerLane; ++i) {
            const int d = static_cast<int>(lane) + 32 * i;
            if (d < dim) sums[i] += w * to_float(row[d]);
        }
    }
}
template <class T>
TW_DEVICE void put_row(T* row, const float* sums, float factor, int dim, unsigned lane) {
    for (int i = 0; i < kPerLane; ++i) {
        const int d = static_cast<int>(lane) + 32 * i;
        if (d < dim) row[d] = from_float<T>(sums[i] * factor);
    }
}

template <class T>
TW_KERNEL forward_kernel(AttentionArgs a, Heads<const T> q, Heads<const T> k, Heads<const T> v, Heads<T> out,
                         float* lse) {
    TW_SHARED float queries[kWarps][kMaxDim];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const std::int64_t query = static_cast<std::int64_t>(blockIdx.x) * kWarps + warp;
    const std::int64_t head = blockIdx.y, sample = blockIdx.z, base = sample * a.seq;
    const std::int64_t kv = head * a.kv_heads / a.heads;
    if (query >= a.seq) return;
    take_row(queries[warp], q.at(base + query, head, a.dim), a.dim, lane);
    __syncwarp();
    float sums[kPerLane] = {};
    float top = -INFINITY, total = 0;
    const std::int64_t last = a.last_key(query);
    for (std::int64_t begin = a.first_key(query); begin < last; begin += 32) {
        const std::int64_t key = begin + lane;
        const float score =
            key < last ? dot(queries[warp], k.at(base + key, kv, a.dim), a.dim) * a.scale : -INFINITY;
        const float higher = fmaxf(top, warp_max(score));
        const float shrink = __expf(top - higher);
        float p = key < last ? __expf(score - higher) : 0.0F;
        total = total * shrink + warp_sum(p);
        top = higher;
        if (a.dropout.on && key < last) p *= a.dropout.mask(a.dropout_row(sample, head, query) + key);
        for (float& s : sums)
            s *= shrink;
        const int count = static_cast<int>(last - begin < 32 ? last - begin : 32);
        add_rows(sums, p, count, a.dim, lane, [&](int j) { return v.at(base + begin + j, kv, a.dim); });
    }
    put_row(out.at(base + query, head, a.dim), sums, 1.0F / total, a.dim, lane);
    if (lane == 0) lse[(sample * a.heads + head) * a.seq + query] = top + logf(total);
}

template <class T>
TW_KERNEL delta_kernel(AttentionArgs a, Heads<const T> out, Heads<const T> dout, std::int64_t rows,
                       float* delta) {
    const unsigned lane = threadIdx.x % 32;
    const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
    const std::int64_t head = blockIdx.y;
    if (row >= rows) return;
    float sum = 0;
    for (int i = static_cast<int>(lane); i < a.dim; i += 32)
        sum += to_float(out.at(row, head, a.dim)[i]) * to_float(dout.at(row, head, a.dim)[i]);
    sum = warp_sum(sum);
    if (lane == 0) delta[(row / a.seq * a.heads + head) * a.seq + row % a.seq] = sum;
}

template <class T>
TW_KERNEL query_grad_kernel(AttentionArgs a, Heads<const T> q, Heads<const T> k, Heads<const T> v,
                            const float* lse, const float* delta, Heads<const T> dout, Heads<T> dq) {
    TW_SHARED float queries[kWarps][kMaxDim];
    TW_SHARED float grads[kWarps][kMaxDim];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const std::int64_t query = static_cast<std::int64_t>(blockIdx.x) * kWarps + warp;
    const std::int64_t head = blockIdx.y, sample = blockIdx.z, base = sample * a.seq;
    const std::int64_t kv = head * a.kv_heads / a.heads;
    if (query >= a.seq) return;
    take_row(queries[warp], q.at(base + query, head, a.dim), a.dim, lane);
    take_row(grads[warp], dout.at(base + query, head, a.dim), a.dim, lane);
    __syncwarp();
    const std::int64_t index = (sample * a.heads + head) * a.seq + query;
    float sums[kPerLane] = {};
    const std::int64_t last = a.last_key(query);
    for (std::int64_t begin = a.first_key(query); begin < last; begin += 32) {
        const std::int64_t key = begin + lane;
        float ds = 0;
        if (key < last) {
            const float p =
                __expf(dot(queries[warp], k.at(base + key, kv, a.dim), a.dim) * a.scale - lse[index]);
            float g = dot(grads[warp], v.at(base + key, kv, a.dim), a.dim);
            if (a.dropout.on) g *= a.dropout.mask(a.dropout_row(sample, head, query) + key);
            ds = p * (g - delta[index]);
        }
        const int count = static_cast<int>(last - begin < 32 ? last - begin : 32);
        add_rows(sums, ds, count, a.dim, lane, [&](int j) { return k.at(base + begin + j, kv, a.dim); });
    }
    put_row(dq.at(base + query, head, a.dim), sums, a.scale, a.dim, lane);
}

template <class T>
TW_KERNEL key_grad_kernel(AttentionArgs a, Heads<const T> q, Heads<const T> k, Heads<const T> v,
                          const float* lse, const float* delta, Heads<const T> dout, Heads<T> dk,
                          Heads<T> dv) {
    TW_SHARED float keys[kWarps][kMaxDim];
    TW_SHARED float values[kWarps][kMaxDim];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const std::int64_t key = static_cast<std::int64_t>(blockIdx.x) * kWarps + warp;
    const std::int64_t kv = blockIdx.y, sample = blockIdx.z, base = sample * a.seq;
    const std::int64_t group = a.heads / a.kv_heads;
    if (key >= a.seq) return;
    take_row(keys[warp], k.at(base + key, kv, a.dim), a.dim, lane);
    take_row(values[warp], v.at(base + key, kv, a.dim), a.dim, lane);
    __syncwarp();
    float key_sums[kPerLane] = {}, value_sums[kPerLane] = {};
    for (std::int64_t head = kv * group; head < (kv + 1) * group; ++head) {
        const std::int64_t last = a.last_query(key);
        for (std::int64_t begin = a.first_query(key); begin < last; begin += 32) {
            const std::int64_t query = begin + lane;
            float p = 0, ds = 0;
            if (query < last) {
                const std::int64_t index = (sample * a.heads + head) * a.seq + query;
                p = __expf(dot(keys[warp], q.at(base + query, head, a.dim), a.dim) * a.scale - lse[index]);
                float g = dot(values[warp], dout.at(base + query, head, a.dim), a.dim);
                const float mask =
                    a.dropout.on ? a.dropout.mask(a.dropout_row(sample, head, query) + key) : 1.0F;
                ds = p * (g * mask - delta[index]);
                p *= mask;
            }
            const int count = static_cast<int>(last - begin < 32 ? last - begin : 32);
            add_rows(value_sums, p, count, a.dim, lane,
                     [&](int j) { return dout.at(base + begin + j, head, a.dim); });
            add_rows(key_sums, ds, count, a.dim, lane,
                     [&](int j) { return q.at(base + begin + j, head, a.dim); });
        }
    }
    put_row(dk.at(base + key, kv, a.dim), key_sums, a.scale, a.dim, lane);
    put_row(dv.at(base + key, kv, a.dim), value_sums, 1.0F, a.dim, lane);
}

AttentionArgs args_of(const AttentionCall& s, const MatrixView& q, const MatrixView& k, const MatrixView& v) {
    TW_CHECK(s.heads % s.kv_heads == 0);
    TW_CHECK(q.rows == s.batch * s.seq_len && k.rows == q.rows && v.rows == q.rows);
    TW_CHECK(q.cols == s.heads * s.head_dim && k.cols == s.kv_heads * s.head_dim && v.cols == k.cols);
    TW_CHECK_MSG(s.head_dim <= kMaxDim, "attention heads have at most 256 dimensions");
    AttentionArgs a;
    a.seq = s.seq_len;
    a.heads = s.heads;
    a.kv_heads = s.kv_heads;
    a.all_heads = s.all_heads > 0 ? s.all_heads : s.heads;
    a.dim = static_cast<int>(s.head_dim);
    a.causal = s.causal;
    a.window = s.window;
    a.scale = static_cast<float>(s.scale);
    a.dropout = dropper_of(s.dropout);
    return a;
}

// Whether every row of every head starts at 16 bytes.
template <class... M>
bool tiles_fit(const AttentionCall& s, const MatrixView& q, const M&... others) {
    return q.dtype != DType::F32 && s.head_dim % 8 == 0 && s.head_dim <= 128 && wide(q) &&
           (wide(others) && ...);
}

Grid grid_of(std::int64_t rows, std::int64_t heads, std::int64_t batch) {
    return {blocks_for(rows, kWarps), static_cast<unsigned>(heads), static_cast<unsigned>(batch)};
}

}  // namespace

void CudaBackend::attention_forward(const AttentionCall& s, const MatrixView& q, const MatrixView& k,
                                    const MatrixView& v, const MatrixView& out, const Tensor& lse) {
    const AttentionArgs a = args_of(s, q, k, v);
    if (q.rows == 0) return;
    if (tiles_fit(s, q, k, v, out)) {
        attention_forward_tiles(a, s.batch, q, k, v, out, lse.as<float>(), stream_);
        return;
    }
    typed(q.dtype, [&](auto t) {
        using T = decltype(t);
        launch("attention", forward_kernel<T>, grid_of(s.seq_len, s.heads, s.batch), kThreads, 0, stream_, a,
               heads_of<const T>(q), heads_of<const T>(k), heads_of<const T>(v), heads_of<T>(out),
               lse.as<float>());
    });
}

void CudaBackend::attention_backward(const AttentionCall& s, const MatrixView& q, const MatrixView& k,
                                     const MatrixView& v, const MatrixView& out, const Tensor& lse,
                                     const MatrixView& dout, const MatrixView& dq, const MatrixView& dk,
                                     const MatrixView& dv) {
    const AttentionArgs a = args_of(s, q, k, v);
    if (q.rows == 0) return;
    const Buffer buffer = allocate(DType::F32, {q.rows * s.heads}, MemoryUse::Temporaries);
    auto* delta = static_cast<float*>(buffer.data());
    typed(q.dtype, [&](auto t) {
        using T = decltype(t);
        launch("attention_delta", delta_kernel<T>, grid_of(q.rows, s.heads, 1), kThreads, 0, stream_, a,
               heads_of<const T>(out), heads_of<const T>(dout), q.rows, delta);
        if (tiles_fit(s, q, k, v, dout, dq, dk, dv)) return;
        launch("attention_query_grad", query_grad_kernel<T>, grid_of(s.seq_len, s.heads, s.batch), kThreads,
               0, stream_, a, heads_of<const T>(q), heads_of<const T>(k), heads_of<const T>(v),
               lse.as<float>(), delta, heads_of<const T>(dout), heads_of<T>(dq));
        launch("attention_key_grad", key_grad_kernel<T>, grid_of(s.seq_len, s.kv_heads, s.batch), kThreads, 0,
               stream_, a, heads_of<const T>(q), heads_of<const T>(k), heads_of<const T>(v), lse.as<float>(),
               delta, heads_of<const T>(dout), heads_of<T>(dk), heads_of<T>(dv));
    });
    if (tiles_fit(s, q, k, v, dout, dq, dk, dv))
        attention_backward_tiles(a, s.batch, q, k, v, lse.as<float>(), delta, dout, dq, dk, dv, stream_);
}

}  // namespace tw::cuda
