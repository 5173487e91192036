#include "models/families/block_parameters.hpp"

#include "models/families/linear.hpp"

namespace tw {
namespace {

// Gains and other small tensors of attention, held whole by every rank.
std::int64_t attention_extras(const AttentionSpec& s) {
    std::int64_t sum = 0;
    switch (s.qk_norm) {
        case QkNormKind::None:
            break;
        case QkNormKind::PerHead:
            sum += 2 * s.qk_dim;
            break;
        case QkNormKind::PerProjection:
            sum += (s.heads + s.kv_heads) * s.qk_dim;
            break;
        case QkNormKind::LayerPerHead:
            sum += 4 * s.qk_dim;
            break;
    }
    if (s.sinks) sum += s.heads;
    if (s.linear_conv > 0) {
        // Depthwise convolution of q, k and v; decay and time step a head; the output's norm.
        sum += (2 * s.kv_heads * s.qk_dim + s.heads * s.v_dim) * s.linear_conv + 2 * s.heads + s.v_dim;
    }
    sum += s.relative_buckets * s.heads;
    if (s.kv_rank > 0) sum += s.q_rank + s.kv_rank;  // RMS norms of the latents
    if (s.index_heads > 0) sum += 2 * s.index_dim;   // layer norm of the indexer's key
    return sum;
}

std::int64_t sum_of(const LinearList& list, bool local) {
    std::int64_t sum = 0;
    for (const Linear& l : list)
        sum += local ? l.local_parameters() : l.parameters();
    return sum;
}

std::int64_t attention_parameters(const AttentionSpec& s, std::int64_t hidden, int tp) {
    return sum_of(attention_linears(s, hidden, tp), tp > 1) + attention_extras(s);
}

std::int64_t mlp_parameters(const MlpSpec& s, std::int64_t hidden, int tp) {
    return sum_of(mlp_linears(s, hidden, tp), tp > 1);
}

}  // namespace

int block_norms(const BlockSpec& s) {
    const int sublayers = s.cross ? 3 : 2;
    int norms = 0;
    if (s.pre_norm) norms += s.parallel && s.parallel_shared_norm ? sublayers - 1 : sublayers;
    if (s.post_norm) norms += sublayers;
    if (s.moe && s.moe->shared_norm) ++norms;
    if (s.mtp_vocab > 0) norms += 3;
    return norms;
}

BlockParameters block_parameters(const BlockSpec& s, int tp, int ep, int etp) {
    BlockParameters p;
    p.dense = block_norms(s) * s.norm.parameters(s.hidden);
    p.dense += attention_parameters(s.attention, s.hidden, tp);
    if (s.cross) p.dense += attention_parameters(*s.cross, s.hidden, tp);
    if (s.mlp) p.dense += mlp_parameters(*s.mlp, s.hidden, tp);
    if (s.moe) {
        p.dense += s.moe->experts * s.hidden + (s.moe->router_bias ? s.moe->experts : 0);
        if (s.moe->shared) p.dense += mlp_parameters(*s.moe->shared, s.hidden, tp);
        if (s.moe->shared_gate) p.dense += s.hidden;
        p.expert = ceil_div(s.moe->experts, ep) * mlp_parameters(s.moe->expert, s.hidden, etp);
    }
    if (s.mtp_vocab > 0) p.dense += mtp_projection(s.hidden, tp).local_parameters();
    return p;
}

std::int64_t active_block_parameters(const BlockSpec& s) {
    const BlockParameters whole = block_parameters(s, 1, 1, 1);
    return whole.dense + (s.moe ? s.moe->top_k * (whole.expert / s.moe->experts) : 0);
}

double block_parameters_estimate(const BlockSpec& s) {
    const auto d = [](std::int64_t v) { return static_cast<double>(v); };
    const double hidden = d(s.hidden);
    // Within the limits of model_config.hpp one expert and one attention fit int64; their products do not.
    BlockSpec dense = s;
    dense.moe.reset();
    double sum = d(block_parameters(dense, 1, 1, 1).dense);
    if (s.moe) {
        sum += d(s.moe->experts) * (hidden + d(mlp_parameters(s.moe->expert, s.hidden, 1)));
        if (s.moe->shared) sum += d(mlp_parameters(*s.moe->shared, s.hidden, 1));
    }
    return sum;
}

}  // namespace tw
