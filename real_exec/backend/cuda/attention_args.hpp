// What the attention kernels are told, and which keys a query sees.
#pragma once

#include "real_exec/backend/cuda/device_math.hpp"

namespace tw::cuda {

struct AttentionArgs {
    std::int64_t seq = 0, heads = 0, kv_heads = 0, all_heads = 0;
    int dim = 0;
    bool causal = true;
    std::int64_t window = 0;
    float scale = 1;
    Dropper dropout;

    [[nodiscard]] TW_DEVICE std::int64_t first_key(std::int64_t query) const {
        return window > 0 && query + 1 > window ? query + 1 - window : 0;
    }
    [[nodiscard]] TW_DEVICE std::int64_t last_key(std::int64_t query) const {
        return causal && query + 1 < seq ? query + 1 : seq;
    }
    [[nodiscard]] TW_DEVICE bool sees(std::int64_t query, std::int64_t key) const {
        return key >= first_key(query) && key < last_key(query);
    }
    // Queries that see `key`: [first, last).
    [[nodiscard]] TW_DEVICE std::int64_t first_query(std::int64_t key) const { return causal ? key : 0; }
    [[nodiscard]] TW_DEVICE std::int64_t last_query(std::int64_t key) const {
        return window > 0 && key + window < seq ? key + window : seq;
    }
    // Index of the probability in dropout's stream.
    [[nodiscard]] TW_DEVICE std::int64_t dropout_row(std::int64_t sample, std::int64_t head,
                                                     std::int64_t query) const {
        return (((dropout.first_row + sample) * all_heads + dropout.first_col + head) * seq + query) * seq;
    }
};

template <class T>
struct Heads {
    T* data = nullptr;
    std::int64_t ld = 0;
    [[nodiscard]] TW_DEVICE T* at(std::int64_t row, std::int64_t head, int dim) const {
        return data + row * ld + head * dim;
    }
};
template <class T>
Heads<T> heads_of(const MatrixView& m) {
    return {static_cast<T*>(m.data), m.ld};
}

// The kernels on tensor cores. lse and delta: (sample, head, query) in fp32; the forward writes the
// log-sum-exp of each row, the backward reads it and delta = dout . out of the row, which the caller has
// computed.
void attention_forward_tiles(const AttentionArgs& args, std::int64_t batch, const MatrixView& q,
                             const MatrixView& k, const MatrixView& v, const MatrixView& out, float* lse,
                             Stream stream);
void attention_backward_tiles(const AttentionArgs& args, std::int64_t batch, const MatrixView& q,
                              const MatrixView& k, const MatrixView& v, const float* lse, const float* delta,
                              const MatrixView& dout, const MatrixView& dq, const MatrixView& dk,
                              const MatrixView& dv, Stream stream);

}  // namespace tw::cuda
