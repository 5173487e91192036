// The matrix products of a block as one list: parameter counts, shards and GEMMs all follow from it.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/check.hpp"
#include "models/families/block_spec.hpp"

namespace tw {

// y[n] = W[n, k] x[k] + bias. Column shards n over tensor parallelism, Row shards k, Replicated neither.
struct Linear {
    enum class Shard : std::uint8_t { Column, Row, Replicated };
    const char* name = "";
    std::int64_t n = 0, k = 0;              // the whole layer's
    std::int64_t local_n = 0, local_k = 0;  // one rank's
    std::int64_t bias = 0, local_bias = 0;  // entries; a row-parallel bias is held whole by every rank
    Shard shard = Shard::Replicated;
    // Outputs of the products that a model without fused projections issues one after the other (query, key,
    // value; gate, up), on one rank; zeros: one product.
    std::array<std::int64_t, 3> products{};
    // Runs in fp8 or nvfp4 where the training does. Not the modules that frameworks leave in the precision of
    // activations: output layers and routers (Megatron-LM core/models/gpt/gpt_model.py builds the output
    // layer as a tensor_parallel.ColumnParallelLinear, outside of get_fp8_context; moe/router.py, gating;
    // torchtitan's train_configs: float8's filter_fqns has "output" and "router.gate").
    bool quantised = true;

    [[nodiscard]] std::int64_t parameters() const { return n * k + bias; }
    [[nodiscard]] std::int64_t local_parameters() const { return local_n * local_k + local_bias; }
};

class LinearList {
  public:
    void add(const Linear& linear) {
        TW_CHECK(count_ < items_.size());
        items_[count_++] = linear;
    }
    [[nodiscard]] const Linear* begin() const { return items_.data(); }
    [[nodiscard]] const Linear* end() const { return items_.data() + count_; }
    [[nodiscard]] const Linear& operator[](std::size_t i) const { return items_[i]; }
    [[nodiscard]] std::size_t size() const { return count_; }
    [[nodiscard]] const Linear& back() const { return items_[count_ - 1]; }

  private:
    std::array<Linear, 10> items_{};
    std::size_t count_ = 0;
};

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
    return (a + b - 1) / b;
}

Linear column_linear(const char* name, std::int64_t n, std::int64_t k, bool bias, int tp);
Linear row_linear(const char* name, std::int64_t n, std::int64_t k, bool bias, int tp);
Linear replicated_linear(const char* name, std::int64_t n, std::int64_t k, bool bias);
// The same module outside of fp8.
Linear unquantised(Linear linear);

// kv heads that one rank holds: kv / tp, and one (a replica) where tp exceeds kv (Megatron, GQA).
std::int64_t local_kv_heads(const AttentionSpec& spec, int tp);

// In execution order; the last is the output projection. Plain attention: qkv fused as one product (q and kv
// apart for cross attention). Gated linear attention: in, steps. Latent attention: q_down, q_up (or q),
// kv_down, kv_up; then the indexer's three, then the projection.
LinearList attention_linears(const AttentionSpec& spec, std::int64_t hidden, int tp);
// Of [embedding; hidden] before a multi-token-prediction module's block (Megatron-LM
// core/transformer/multi_token_prediction.py, eh_proj: a column-parallel module).
Linear mtp_projection(std::int64_t hidden, int tp);
// up (gate and up fused), down.
LinearList mlp_linears(const MlpSpec& spec, std::int64_t hidden, int tp);

}  // namespace tw
