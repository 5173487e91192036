#include "models/families/linear.hpp"

#include <algorithm>

namespace tw {

Linear column_linear(const char* name, std::int64_t n, std::int64_t k, bool bias, int tp) {
    Linear l{name, n, k, ceil_div(n, tp), k, 0, 0, Linear::Shard::Column};
    if (bias) {
        l.bias = n;
        l.local_bias = l.local_n;
    }
    return l;
}

Linear row_linear(const char* name, std::int64_t n, std::int64_t k, bool bias, int tp) {
    Linear l{name, n, k, n, ceil_div(k, tp), 0, 0, Linear::Shard::Row};
    if (bias) l.bias = l.local_bias = n;
    return l;
}

Linear replicated_linear(const char* name, std::int64_t n, std::int64_t k, bool bias) {
    return Linear{name, n, k, n, k, bias ? n : 0, bias ? n : 0, Linear::Shard::Replicated};
}

Linear unquantised(Linear linear) {
    linear.quantised = false;
    return linear;
}

std::int64_t local_kv_heads(const AttentionSpec& spec, int tp) {
    return std::max<std::int64_t>(1, ceil_div(spec.kv_heads, tp));
}

namespace {

void add_plain(LinearList& list, const AttentionSpec& s, std::int64_t hidden, int tp) {
    const std::int64_t gate = s.output_gate ? 2 : 1;
    const std::int64_t q_local = ceil_div(s.heads, tp) * s.qk_dim * gate;
    const std::int64_t kv_width = s.qk_dim + (s.shared_kv ? 0 : s.v_dim);
    const std::int64_t kv_local = local_kv_heads(s, tp) * kv_width;
    const auto fused = [&](const char* name, std::int64_t n, std::int64_t local) {
        return Linear{name, n, hidden, local, hidden, 0, 0, Linear::Shard::Column};
    };
    const std::int64_t q = s.heads * s.qk_dim * gate, kv = s.kv_heads * kv_width;
    const std::int64_t without_k = s.k_bias ? 0 : s.kv_heads * s.qk_dim;
    const std::int64_t without_k_local = s.k_bias ? 0 : local_kv_heads(s, tp) * s.qk_dim;
    if (s.cross) {
        Linear query = fused("xattn.q", q, q_local);
        Linear memory = fused("xattn.kv", kv, kv_local);
        if (s.qkv_bias) {
            query.bias = q, query.local_bias = q_local;
            memory.bias = kv - without_k, memory.local_bias = kv_local - without_k_local;
        }
        list.add(query);
        list.add(memory);
        return;
    }
    Linear qkv = fused("attn.qkv", q + kv, q_local + kv_local);
    const std::int64_t k_local = local_kv_heads(s, tp) * s.qk_dim;
    qkv.products = {q_local, k_local, kv_local - k_local};
    if (s.qkv_bias) qkv.bias = qkv.n - without_k, qkv.local_bias = qkv.local_n - without_k_local;
    list.add(qkv);
}

void add_latent(LinearList& list, const AttentionSpec& s, std::int64_t hidden, int tp) {
    const std::int64_t qk = s.nope_dim + s.rope_dim;
    if (s.q_rank > 0) {
        list.add(replicated_linear("attn.q_down", s.q_rank, hidden, s.qkv_bias));
        list.add(column_linear("attn.q_up", s.heads * qk, s.q_rank, false, tp));
    } else {
        list.add(column_linear("attn.q", s.heads * qk, hidden, false, tp));
    }
    list.add(replicated_linear("attn.kv_down", s.kv_rank + s.rope_dim, hidden, s.qkv_bias));
    list.add(column_linear("attn.kv_up", s.heads * (s.nope_dim + s.v_dim), s.kv_rank, false, tp));
    if (s.index_heads > 0) {
        const std::int64_t from = s.q_rank > 0 ? s.q_rank : hidden;
        list.add(replicated_linear("index.q", s.index_heads * s.index_dim, from, false));
        list.add(replicated_linear("index.k", s.index_dim, hidden, false));
        list.add(replicated_linear("index.w", s.index_heads, hidden, false));
    }
}

// Queries and keys of the key heads, values and gates of the value heads in one product; decay and step sizes
// in another.
void add_gated_linear(LinearList& list, const AttentionSpec& s, std::int64_t hidden, int tp) {
    Linear in = column_linear("attn.in", 2 * (s.kv_heads * s.qk_dim + s.heads * s.v_dim), hidden, false, tp);
    in.local_n = 2 * (local_kv_heads(s, tp) * s.qk_dim + ceil_div(s.heads, tp) * s.v_dim);
    Linear steps = column_linear("attn.steps", 2 * s.heads, hidden, false, tp);
    steps.local_n = 2 * ceil_div(s.heads, tp);
    list.add(in);
    list.add(steps);
}

}  // namespace

LinearList attention_linears(const AttentionSpec& spec, std::int64_t hidden, int tp) {
    LinearList list;
    if (spec.kv_rank > 0) {
        add_latent(list, spec, hidden, tp);
    } else if (spec.linear_conv > 0) {
        add_gated_linear(list, spec, hidden, tp);
    } else {
        add_plain(list, spec, hidden, tp);
    }
    Linear out = row_linear(spec.cross ? "xattn.proj" : "attn.proj", hidden, spec.heads * spec.v_dim,
                            spec.out_bias, tp);
    out.local_k = ceil_div(spec.heads, tp) * spec.v_dim;
    list.add(out);
    return list;
}

Linear mtp_projection(std::int64_t hidden, int tp) {
    return column_linear("mtp.proj", hidden, 2 * hidden, false, tp);
}

LinearList mlp_linears(const MlpSpec& spec, std::int64_t hidden, int tp) {
    LinearList list;
    const std::int64_t width = spec.gated ? 2 : 1;
    Linear up = column_linear("mlp.up", spec.ffn * width, hidden, spec.bias, tp);
    up.local_n = ceil_div(spec.ffn, tp) * width;
    if (spec.bias) up.local_bias = up.local_n;
    if (spec.gated) up.products = {up.local_n / 2, up.local_n / 2, 0};
    list.add(up);
    list.add(row_linear("mlp.down", hidden, spec.ffn, spec.bias, tp));
    return list;
}

}  // namespace tw
