#include <algorithm>

#include "models/families/sublayers.hpp"

namespace tw {
namespace {

using Keep = SavedTensor::Keep;

double d(std::int64_t v) {
    return static_cast<double>(v);
}

// Sizes of the core on this rank.
struct Core {
    std::int64_t heads, kv_heads, q_rows, kv_rows,
        batch;            // heads and rows after an all-to-all over cp, if there is one
    double q, k, v, out;  // elements of this rank's tensors before it
    double scores;        // elements of one score matrix
};

bool swaps_heads(const WorkBuilder& b) {
    return b.shape.cp > 1 && b.shape.cp_kind == WorkShape::Cp::AllToAll;
}

Core core_of(const WorkBuilder& b, const AttentionSpec& s) {
    const std::int64_t heads = ceil_div(s.heads, b.shape.tp);
    const std::int64_t kv = s.kv_rank > 0 ? heads : local_kv_heads(s, b.shape.tp);
    const int cp = b.shape.cp;
    Core c{};
    c.batch = b.shape.microbatch;
    c.heads = swaps_heads(b) ? ceil_div(heads, cp) : heads;
    c.kv_heads = swaps_heads(b) ? ceil_div(kv, cp) : kv;
    c.q_rows = swaps_heads(b) ? b.shape.seq_len : ceil_div(b.shape.seq_len, cp);
    c.kv_rows = b.shape.seq_len;
    c.q = d(b.tokens) * d(heads * s.qk_dim);
    c.k = d(b.tokens) * d(kv * s.qk_dim);
    c.v = s.shared_kv ? 0 : d(b.tokens) * d(kv * s.v_dim);
    c.out = d(b.tokens) * d(heads * s.v_dim);
    c.scores = d(c.batch) * d(c.heads) * d(c.q_rows) * d(c.kv_rows);
    return c;
}

RecomputeModules up_projection(const AttentionSpec& s) {
    if (s.kv_rank == 0) return {};
    return {RecomputeModule::LatentUpProjection};
}

bool fused_core(const WorkBuilder& b) {
    return b.shape.attention != AttentionKernel::Unfused;
}

// Keys and values travel around the ring, hidden behind the core (Liu 2023, ring attention); the backward
// also sends their gradients. Or heads are exchanged for positions before and after the core
// (DeepSpeed-Ulysses, Jacobs 2023).
void exchange_before(WorkBuilder& b, const Core& c, double tensors) {
    const int cp = b.shape.cp;
    if (cp == 1) return;
    if (swaps_heads(b)) {
        b.collective("attn.a2a", CollectiveKind::AllToAll, Axis::Cp, tensors * (c.q + c.k + c.v) * b.e);
        return;
    }
    for (int step = 1; step < cp; ++step) {
        b.collective("attn.ring", CollectiveKind::SendRecv, Axis::Cp, tensors * (c.k + c.v) * b.e, true);
    }
}

void exchange_after(WorkBuilder& b, double elements) {
    if (b.shape.cp == 1) return;
    if (swaps_heads(b)) {
        b.collective("attn.a2a", CollectiveKind::AllToAll, Axis::Cp, elements * b.e);
    } else {
        b.join_next();
    }
}

double softmax_bytes(const WorkBuilder& b) {
    return b.shape.autocast ? 4 : b.e;
}  // autocast: softmax runs in fp32

void core_forward(WorkBuilder& b, const AttentionSpec& s) {
    const Core c = core_of(b, s);
    // What runs again with the core: the checkpointed module holds its exchanges (Megatron-LM
    // core/transformer/attention.py, _checkpointed_attention_forward; Transformer Engine
    // dot_product_attention/context_parallel.py).
    b.set_recompute(RecomputeLevel::Selective);
    exchange_before(b, c, 1);
    if (fused_core(b)) {
        b.attention("attn.core", attention_kernel(b, s));
        b.save("attn.lse", 4 * d(ceil_div(s.heads, b.shape.tp)) * d(b.tokens), Keep::Selective);
    } else {
        const std::int64_t batch = c.batch * c.heads;
        const double es = softmax_bytes(b);
        b.gemm("attn.qk", c.q_rows, c.kv_rows, s.qk_dim, GemmForm::Forward, batch);
        if (s.relative || s.alibi) b.memory("attn.bias", MemoryOpKind::Add, 2 * b.e * c.scores);
        if (b.unfused()) {
            b.memory("attn.scale", MemoryOpKind::Other, 2 * b.e * c.scores);
            if (s.causal) b.memory("attn.mask", MemoryOpKind::Other, 2 * b.e * c.scores);
            b.memory("attn.softmax", MemoryOpKind::Softmax, (b.e + es) * c.scores, 5 * c.scores);
        } else {
            // Scale, mask and softmax in one kernel; a causal one reads half of the scores.
            b.memory("attn.softmax", MemoryOpKind::Softmax,
                     (s.causal ? 0.5 : 1.0) * b.e * c.scores + es * c.scores, 5 * c.scores);
        }
        b.save("attn.probs", es * c.scores, Keep::Selective);
        if (b.shape.dropout) {
            b.memory("attn.dropout", MemoryOpKind::Dropout, (es + b.e + 1) * c.scores);
            b.save("attn.mask", c.scores, Keep::Selective);
            b.save("attn.dropped", b.e * c.scores, Keep::Selective);
        } else if (b.shape.autocast) {
            b.memory("attn.cast", MemoryOpKind::Cast, (es + b.e) * c.scores);
            b.save("attn.cast", b.e * c.scores, Keep::Selective);
        }
        b.gemm("attn.pv", c.q_rows, s.v_dim, c.kv_rows, GemmForm::Forward, batch);
    }
    exchange_after(b, c.out);
    b.set_recompute(RecomputeLevel::Full);
}

void core_backward(WorkBuilder& b, const AttentionSpec& s) {
    const Core c = core_of(b, s);
    if (swaps_heads(b)) {
        b.collective("attn.a2a", CollectiveKind::AllToAll, Axis::Cp, c.out * b.e);
    } else {
        exchange_before(b, c, 2);
    }
    if (fused_core(b)) {
        Attention kernel = attention_kernel(b, s);
        kernel.backward = true;
        b.attention("attn.core", kernel);
    } else {
        const std::int64_t batch = c.batch * c.heads;
        const double es = softmax_bytes(b);
        b.gemm("attn.pv", c.q_rows, c.kv_rows, s.v_dim, GemmForm::InputGrad, batch);
        b.gemm("attn.pv", c.kv_rows, s.v_dim, c.q_rows, GemmForm::WeightGrad, batch);
        if (b.shape.dropout) {
            b.memory("attn.dropout", MemoryOpKind::Dropout, (es + b.e + 1) * c.scores);
        } else if (b.shape.autocast) {
            b.memory("attn.cast", MemoryOpKind::Cast, (es + b.e) * c.scores);
        }
        if (b.unfused()) {
            b.memory("attn.softmax", MemoryOpKind::Softmax, 3 * es * c.scores, 4 * c.scores);
            if (s.causal) b.memory("attn.mask", MemoryOpKind::Other, 2 * b.e * c.scores);
            b.memory("attn.scale", MemoryOpKind::Other, 2 * b.e * c.scores);
        } else {
            b.memory("attn.softmax", MemoryOpKind::Softmax, ((s.causal ? 1.0 : 2.0) * es + b.e) * c.scores,
                     4 * c.scores);
        }
        if (s.relative) b.memory("attn.bias", MemoryOpKind::Other, b.e * c.scores);
        b.gemm("attn.qk", c.q_rows, s.qk_dim, c.kv_rows, GemmForm::InputGrad, batch);
        b.gemm("attn.qk", c.kv_rows, s.qk_dim, c.q_rows, GemmForm::WeightGrad, batch);
    }
    exchange_after(b, c.q + c.k + c.v);
}

// Rotary embedding and norms of q and k. Eager rotary embedding is five operations a tensor (two products,
// the rotated half's negation with concatenation, the sum), ten passes over each element; fused it is one
// pass.
void position_ops(WorkBuilder& b, const AttentionSpec& s, bool backward) {
    const Core c = core_of(b, s);
    const double share = s.kv_rank > 0 ? d(s.rope_dim) / d(s.qk_dim) : 1.0;
    const double qk = (c.q + c.k) * share;
    const auto rope = [&] {
        if (s.rope)
            b.memory("attn.rope", MemoryOpKind::Rope, (b.unfused() ? 10 : 2) * qk * b.e, 0,
                     b.unfused() ? 10 : 1);
    };
    const auto norm = [&] {
        if (s.qk_norm == QkNormKind::None) return;
        b.memory("attn.qk_norm", MemoryOpKind::Norm, (backward ? 3 : 2) * (c.q + c.k) * b.e, 5 * (c.q + c.k),
                 2);
    };
    if (backward) {
        rope();
        norm();
    } else {
        norm();
        rope();
    }
}

void save_core_inputs(WorkBuilder& b, const AttentionSpec& s) {
    const Core c = core_of(b, s);
    {
        const ModuleScope again(b, up_projection(s));
        b.save("attn.q", c.q * b.e, Keep::Full);
        b.save("attn.k", c.k * b.e, Keep::Full);
        b.save("attn.v", c.v * b.e, Keep::Full);
    }
    // Rotation makes new queries and keys; the values are a view of the projection's output, which keeps all
    // of it alive (Megatron-LM core/transformer/attention.py, get_query_key_value_tensors; eager models
    // project apart).
    const bool rotated = s.rope && s.kv_rank == 0 && !b.unfused();
    if (rotated || s.qk_norm != QkNormKind::None) b.save("attn.qk_raw", (c.q + c.k) * b.e, Keep::Full);
    // Of a fused core's output the core keeps one of 16 bits, the projection its cast of it (Megatron-LM
    // core/transformer/attention.py says so, and spares the cast under recipes other than delayed scaling).
    if (fused_core(b) && b.gemm_input < b.e) b.save("attn.core_out", c.out * b.e, Keep::Selective);
    b.save("attn.out", c.out * b.gemm_input, Keep::Full);
}

// The latent projections. Down-projections run on the sequence-parallel rows; the narrow latents are gathered
// instead of the hidden state (Megatron-LM, MLASelfAttention). What makes queries, keys and values of the
// latents, their norms included, is one recomputation's (core/transformer/multi_latent_attention.py,
// qkv_up_proj_and_rope_apply; gpt_layer_specs.py: the norms are the up-projections').
void latent_forward(WorkBuilder& b, const AttentionSpec& s, const LinearList& list, std::int64_t hidden) {
    for (const Linear& l : list) {
        if (l.shard == Linear::Shard::Row) continue;
        if (l.shard == Linear::Shard::Replicated) {
            if (l.k == hidden) b.next_input_of(RecomputeModule::Norm);
            b.linear_forward(l, b.rows);
            if (l.k == hidden && l.n >= s.kv_rank && s.kv_rank > 0) {
                b.save_rows(l.name, l.n, b.e, Keep::Full);
                const ModuleScope again(b, {RecomputeModule::LatentUpProjection});
                b.memory(l.name, MemoryOpKind::Norm, 2 * b.e * d(b.rows) * d(l.n));
            }
            continue;
        }
        const ModuleScope again(b, {RecomputeModule::LatentUpProjection});
        b.gather(l.name, l.k);
        if (l.k == hidden) b.next_input_of(RecomputeModule::Norm);
        b.linear_forward(l, b.tokens);
        if (l.k != hidden) b.save_rows(l.name, l.k, b.gemm_input, Keep::Full);
    }
}

void latent_backward(WorkBuilder& b, const AttentionSpec& s, const LinearList& list, std::int64_t hidden) {
    for (std::size_t i = list.size() - 1; i-- > 0;) {
        const Linear& l = list[i];
        if (l.shard == Linear::Shard::Replicated) {
            if (l.k == hidden && l.n >= s.kv_rank && s.kv_rank > 0) {
                b.memory(l.name, MemoryOpKind::Norm, 3 * b.e * d(b.rows) * d(l.n));
            }
            b.linear_backward(l, b.rows, false);
        } else {
            b.linear_backward(l, b.tokens, true);
        }
    }
}

// Scores of the indexer: every query against every key (DeepSeek-V3.2, equation 1).
void index_scores(WorkBuilder& b, const AttentionSpec& s, bool backward) {
    if (s.index_heads == 0) return;
    const std::int64_t q = ceil_div(b.shape.seq_len, b.shape.cp);
    const std::int64_t batch = b.shape.microbatch * s.index_heads;
    if (!backward) {
        b.gemm("index.scores", q, b.shape.seq_len, s.index_dim, GemmForm::Forward, batch);
        return;
    }
    b.gemm("index.scores", q, s.index_dim, b.shape.seq_len, GemmForm::InputGrad, batch);
    b.gemm("index.scores", b.shape.seq_len, s.index_dim, q, GemmForm::WeightGrad, batch);
}

}  // namespace

Attention attention_kernel(const WorkBuilder& b, const AttentionSpec& s) {
    const Core c = core_of(b, s);
    Attention a;
    a.batch = c.batch;
    a.seq_q = c.q_rows;
    a.seq_kv = c.kv_rows;
    a.heads = c.heads;
    a.kv_heads = c.kv_heads;
    a.head_dim_qk = s.qk_dim;
    a.head_dim_v = s.v_dim;
    a.causal = s.causal;
    a.window = s.index_topk > 0 ? s.index_topk : s.window;
    a.kernel = b.shape.attention;
    a.precision = activation_precision(b.shape.precision);
    return a;
}

void attention_forward(WorkBuilder& b, const AttentionSpec& s, std::int64_t hidden, BranchEdges edges) {
    const LinearList list = attention_linears(s, hidden, b.shape.tp);
    if (s.linear_conv > 0) {
        if (edges.gather) b.gather(list[0].name, hidden);
        b.linear_forward(list[0], b.tokens);
        b.linear_forward(list[1], b.tokens);
        linear_core_forward(b, s);
        b.linear_forward(list.back(), b.tokens);
        if (edges.reduce) b.reduce(list.back().name, hidden);
        return;
    }
    if (s.kv_rank > 0) {
        latent_forward(b, s, list, hidden);
        index_scores(b, s, false);
    } else {
        if (edges.gather) b.gather(list[0].name, hidden);
        for (const Linear& l : list) {
            if (l.shard == Linear::Shard::Row) continue;
            // The encoder's output is gathered by every decoder layer.
            if (s.cross && &l != list.begin()) b.gather(l.name, hidden);
            b.linear_forward(l, b.tokens);
        }
    }
    {
        const ModuleScope again(b, up_projection(s));
        position_ops(b, s, false);
    }
    save_core_inputs(b, s);
    core_forward(b, s);
    b.linear_forward(list.back(), b.tokens);
    if (edges.reduce) b.reduce(list.back().name, hidden);
}

void attention_backward(WorkBuilder& b, const AttentionSpec& s, std::int64_t hidden, BranchEdges edges) {
    const LinearList list = attention_linears(s, hidden, b.shape.tp);
    if (edges.reduce) b.gather(list.back().name, hidden);
    b.linear_backward(list.back(), b.tokens, false);
    if (s.linear_conv > 0) {
        linear_core_backward(b, s);
        b.linear_backward(list[1], b.tokens, false);
        b.linear_backward(list[0], b.tokens, edges.gather);
        return;
    }
    core_backward(b, s);
    position_ops(b, s, true);
    if (s.kv_rank > 0) {
        index_scores(b, s, true);
        latent_backward(b, s, list, hidden);
        return;
    }
    for (std::size_t i = list.size() - 1; i-- > 0;)
        b.linear_backward(list[i], b.tokens, i > 0 || edges.gather);
}

}  // namespace tw
