#include "models/families/transformer_block.hpp"

#include <algorithm>

#include "models/families/block_parameters.hpp"
#include "models/families/head.hpp"
#include "models/families/sublayers.hpp"

namespace tw {
namespace {

using Keep = SavedTensor::Keep;

double d(std::int64_t v) {
    return static_cast<double>(v);
}

// A branch's place in the block: what its norms are called and save.
struct BranchNames {
    const char* norm;
    const char* input;  // the residual stream where the branch starts
    const char* branch_input;
    const char* post;
    const char* residual;
};

constexpr BranchNames kAttention{"norm1", "block.input", "attn.in", "norm1.post", "attn.residual"};
constexpr BranchNames kCross{"normx", "normx.in", "xattn.in", "normx.post", "xattn.residual"};
constexpr BranchNames kMlp{"norm2", "norm2.in", "mlp.in", "norm2.post", "mlp.residual"};

// Modules that the branch's input enters.
int attention_inputs(const BlockSpec& s, const AttentionSpec& a) {
    if (!s.separate_projections || a.linear_conv > 0) return 1;
    return a.kv_rank > 0 ? 2 : 3;
}
int mlp_inputs(const BlockSpec& s) {
    return s.separate_projections && s.mlp && s.mlp->gated ? 2 : 1;
}

bool norm_inside_branch(const BlockSpec& s) {
    return s.post_norm && (s.pre_norm || s.post_norm_inside);
}
bool norm_after_sum(const BlockSpec& s) {
    return s.post_norm && !norm_inside_branch(s);
}

// The norm before a branch is a module of its own where latent attention or experts follow; that of other
// attention is part of the projection behind it, that of a plain MLP of its first product (Megatron-LM
// core/models/gpt/gpt_layer_specs.py, get_gpt_layer_with_transformer_engine_submodules).
RecomputeModules norm_modules(const BlockSpec& s, const BranchNames& n) {
    if (n.norm == kMlp.norm) return {s.moe ? RecomputeModule::Norm : RecomputeModule::Mlp};
    if (n.norm == kAttention.norm && s.attention.kv_rank > 0) return {RecomputeModule::Norm};
    return {};
}

// The branch's input: a router, which stays out of fp8, reads the one of 16 bits, shared experts beside it
// their cast of it, which a recomputation that keeps the input drops.
void save_branch_input(WorkBuilder& b, const BlockSpec& s, const BranchNames& n) {
    const bool router = n.norm == kMlp.norm && s.moe;
    const bool casts = router && s.moe->shared && b.gemm_input < b.e;
    b.save_rows(n.branch_input, s.hidden, router ? b.e : b.gemm_input, Keep::Full);
    if (!casts) return;
    const ModuleScope shared(b, {RecomputeModule::Experts, RecomputeModule::SharedExperts});
    b.save_rows("moe.shared_in", s.hidden, b.gemm_input, Keep::Full);
}

// The residual stream where the branch starts is saved once; so is the branch's input where a norm or a cast
// made it another tensor.
void enter_branch(WorkBuilder& b, const BlockSpec& s, const BranchNames& n, bool first, int modules) {
    // After a norm of the sum the casts are what products read; nothing reads the fp32 input itself. A
    // composite norm reads an fp32 copy of it.
    const bool composite = b.shape.composite_norms && s.pre_norm && s.norm.kind == NormKind::Rms;
    const bool unread = s.pre_norm ? composite && b.r < 4 : b.casts;
    if (first || !unread)
        b.save_rows(n.input, s.hidden, b.r, first ? (unread ? Keep::Restart : Keep::Boundary) : Keep::Full);
    if (s.pre_norm) {
        const ModuleScope again(b, norm_modules(s, n));
        b.norm_forward(n.norm, s.norm, s.hidden);
        b.save_norm_stats(n.norm, s.norm, b.rows);
        if (composite) b.save_rows(n.norm, s.hidden, (b.r < 4 ? 4 : 0) + b.r, Keep::Full);
        save_branch_input(b, s, n);
    } else if (b.casts) {
        save_branch_input(b, s, n);
    }
    b.separate_inputs_forward(n.branch_input, modules, s.hidden);
}

void leave_branch(WorkBuilder& b, const BlockSpec& s, const BranchNames& n) {
    if (norm_inside_branch(s)) {
        b.save_rows(n.post, s.hidden, b.e, Keep::Full);
        b.norm_forward(n.post, s.norm, s.hidden);
        b.save_norm_stats(n.post, s.norm, b.rows);
    }
    b.residual_forward(n.residual, s.hidden);
    if (b.shape.dropout) b.save_rows(n.residual, s.hidden, 1, Keep::Full);
    if (norm_after_sum(s)) {
        b.save_rows(n.post, s.hidden, b.r, Keep::Full);
        b.norm_forward(n.post, s.norm, s.hidden);
        b.save_norm_stats(n.post, s.norm, b.rows);
    }
}

void leave_branch_backward(WorkBuilder& b, const BlockSpec& s, const BranchNames& n) {
    if (norm_after_sum(s)) b.norm_backward(n.post, s.norm, s.hidden, nullptr);
    b.residual_backward(n.residual, s.hidden);
    if (norm_inside_branch(s)) b.norm_backward(n.post, s.norm, s.hidden, nullptr);
}

void enter_branch_backward(WorkBuilder& b, const BlockSpec& s, const BranchNames& n, int modules) {
    b.separate_inputs_backward(n.branch_input, modules, s.hidden);
    if (s.pre_norm) {
        b.norm_backward(n.norm, s.norm, s.hidden, n.residual);
    } else {
        b.memory(n.residual, MemoryOpKind::Add, 3 * b.r * d(b.rows) * d(s.hidden));
    }
}

void feed_forward(WorkBuilder& b, const BlockSpec& s, BranchEdges edges) {
    if (s.mlp) {
        const ModuleScope again(b, {RecomputeModule::Mlp});
        mlp_forward(b, *s.mlp, s.hidden, edges);
    }
    if (s.moe) {
        const ModuleScope again(b, {RecomputeModule::Experts});
        moe_forward(b, *s.moe, s.hidden);
    }
}

void feed_backward(WorkBuilder& b, const BlockSpec& s, BranchEdges edges) {
    if (s.moe) moe_backward(b, *s.moe, s.hidden);
    if (s.mlp) mlp_backward(b, *s.mlp, s.hidden, edges);
}

void sequential_forward(WorkBuilder& b, const BlockSpec& s) {
    enter_branch(b, s, kAttention, true, attention_inputs(s, s.attention));
    attention_forward(b, s.attention, s.hidden, {});
    leave_branch(b, s, kAttention);
    if (s.cross) {
        enter_branch(b, s, kCross, false, 1);
        attention_forward(b, *s.cross, s.hidden, {});
        leave_branch(b, s, kCross);
    }
    enter_branch(b, s, kMlp, false, mlp_inputs(s));
    feed_forward(b, s, {});
    leave_branch(b, s, kMlp);
}

void sequential_backward(WorkBuilder& b, const BlockSpec& s) {
    leave_branch_backward(b, s, kMlp);
    feed_backward(b, s, {});
    enter_branch_backward(b, s, kMlp, mlp_inputs(s));
    if (s.cross) {
        leave_branch_backward(b, s, kCross);
        attention_backward(b, *s.cross, s.hidden, {});
        enter_branch_backward(b, s, kCross, 1);
    }
    leave_branch_backward(b, s, kAttention);
    attention_backward(b, s.attention, s.hidden, {});
    enter_branch_backward(b, s, kAttention, attention_inputs(s, s.attention));
}

// x + attention(norm x) + mlp(norm x): one tensor-parallel entry where the norm is shared, one exit for both
// branches.
void parallel_forward(WorkBuilder& b, const BlockSpec& s) {
    enter_branch(b, s, kAttention, true, attention_inputs(s, s.attention));
    attention_forward(b, s.attention, s.hidden, {true, s.moe.has_value()});
    if (!s.parallel_shared_norm) {
        b.norm_forward(kMlp.norm, s.norm, s.hidden);
        b.save_norm_stats(kMlp.norm, s.norm, b.rows);
        save_branch_input(b, s, kMlp);
    }
    feed_forward(b, s, {!s.parallel_shared_norm, true});
    b.memory("attn.add", MemoryOpKind::Add, 3 * b.e * d(b.rows) * d(s.hidden));
    leave_branch(b, s, kMlp);
}

void parallel_backward(WorkBuilder& b, const BlockSpec& s) {
    leave_branch_backward(b, s, kMlp);
    feed_backward(b, s, {!s.parallel_shared_norm, true});
    if (!s.parallel_shared_norm) b.norm_backward(kMlp.norm, s.norm, s.hidden, "mlp.residual");
    attention_backward(b, s.attention, s.hidden, {true, s.moe.has_value()});
    enter_branch_backward(b, s, kAttention, attention_inputs(s, s.attention));
}

// A multi-token-prediction module around its block (Megatron-LM core/transformer/multi_token_prediction.py).
// Its checkpoint starts behind the look-up and ends before the head (_checkpointed_forward;
// process_mtp_loss).
void mtp_forward(WorkBuilder& b, const BlockSpec& s) {
    b.set_recompute(RecomputeLevel::None);
    b.memory("mtp.embed", MemoryOpKind::Embedding, 2 * b.r * d(b.tokens) * d(s.hidden));
    b.reduce("mtp.embed", s.hidden);
    b.set_recompute(RecomputeLevel::Full);
    b.save_rows("mtp.in", 2 * s.hidden, b.r, Keep::Boundary);
    b.norm_forward("mtp.norm", s.norm, s.hidden);
    b.norm_forward("mtp.norm", s.norm, s.hidden);
    b.save_rows("mtp.normed", 2 * s.hidden, b.gemm_input, Keep::Full);
    b.gather("mtp.proj", 2 * s.hidden);
    b.linear_forward(mtp_projection(s.hidden, b.shape.tp), b.tokens);
    // Every rank's columns; with sequence parallelism each then takes its rows of them.
    if (b.tensor_parallel)
        b.collective("mtp.proj", CollectiveKind::AllGather, Axis::Tp, d(b.tokens) * d(s.hidden) * b.e);
}

void mtp_head(WorkBuilder& b, const BlockSpec& s) {
    const LmHeadSpec head{s.hidden, s.mtp_vocab};
    const std::size_t first = b.work.saved.size();
    b.set_recompute(RecomputeLevel::None);
    lm_head_forward(b, head);
    for (std::size_t i = first; i < b.work.saved.size(); ++i)
        b.work.saved[i].keep = Keep::Boundary;
    b.set_phase(Phase::BackwardInput);
    lm_head_backward(b, head);
    b.norm_backward("mtp.norm", s.norm, s.hidden, nullptr);
}

void mtp_backward(WorkBuilder& b, const BlockSpec& s) {
    if (b.sequence_parallel)
        b.collective("mtp.proj", CollectiveKind::AllGather, Axis::Tp, d(b.tokens) * d(s.hidden) * b.e);
    b.linear_backward(mtp_projection(s.hidden, b.shape.tp), b.tokens, true);
    b.norm_backward("mtp.norm", s.norm, s.hidden, nullptr);
    b.norm_backward("mtp.norm", s.norm, s.hidden, "mtp.residual");
    b.set_phase(Phase::BackwardWeight);
    b.gather("mtp.embed", s.hidden, false);
    const double sum = b.shape.gradient_fp32 ? 4 : b.r;
    b.memory("mtp.embed", MemoryOpKind::Embedding, (b.r + 2 * sum) * d(b.tokens) * d(s.hidden));
}

}  // namespace

LayerWork TransformerBlock::work(const WorkShape& shape) const {
    WorkBuilder b(shape);
    const BlockSpec& s = spec_;
    const bool mtp = s.mtp_vocab > 0;
    b.set_phase(Phase::Forward);
    if (mtp) mtp_forward(b, s);
    s.parallel ? parallel_forward(b, s) : sequential_forward(b, s);
    if (mtp) {
        // The block's input is inside the module's checkpoint.
        for (SavedTensor& t : b.work.saved)
            if (t.name == kAttention.input) t.keep = Keep::Full;
        b.save_rows("mtp.out", s.hidden, b.r, Keep::Full);
        b.norm_forward("mtp.norm", s.norm, s.hidden);
    }
    b.recompute_by_op();
    if (mtp) mtp_head(b, s);
    b.set_phase(Phase::BackwardInput);
    s.parallel ? parallel_backward(b, s) : sequential_backward(b, s);
    if (mtp) mtp_backward(b, s);
    const BlockParameters p = block_parameters(s, shape.tp, shape.ep, shape.etp);
    b.work.dense_parameters = p.dense;
    b.work.expert_parameters = p.expert;
    return std::move(b.work);
}

std::int64_t TransformerBlock::parameters() const {
    const BlockParameters p = block_parameters(spec_, 1, 1, 1);
    return p.dense + p.expert;
}

std::int64_t TransformerBlock::active_parameters() const {
    return active_block_parameters(spec_);
}

FlopCount TransformerBlock::model_flops(std::int64_t microbatch, std::int64_t seq_len,
                                        bool causal_half) const {
    const BlockSpec& s = spec_;
    double weights = 0;  // multiply-adds of the matrix products of one token
    const auto add = [&](const LinearList& list, double times) {
        for (const Linear& l : list)
            weights += times * d(l.n) * d(l.k);
    };
    add(attention_linears(s.attention, s.hidden, 1), 1);
    if (s.cross) add(attention_linears(*s.cross, s.hidden, 1), 1);
    if (s.mlp) add(mlp_linears(*s.mlp, s.hidden, 1), 1);
    if (s.moe) {
        add(mlp_linears(s.moe->expert, s.hidden, 1), d(s.moe->top_k));
        if (s.moe->shared) add(mlp_linears(*s.moe->shared, s.hidden, 1), 1);
    }
    if (s.mtp_vocab > 0) weights += 2 * d(s.hidden) * d(s.hidden) + d(s.hidden) * d(s.mtp_vocab);
    WorkShape shape;
    shape.microbatch = microbatch;
    shape.seq_len = seq_len;
    const WorkBuilder b(shape);
    double flops = 2 * d(microbatch) * d(seq_len) * weights;
    if (s.attention.linear_conv > 0) {
        WorkBuilder core(shape);
        linear_core_forward(core, s.attention);
        for (const Op& op : core.work.forward) {
            if (std::holds_alternative<Gemm>(op.body)) flops += op_flops(op).value;
        }
    } else {
        flops += op_flops(Op{.name = "", .body = attention_kernel(b, s.attention)}, causal_half).value;
    }
    if (s.cross) flops += op_flops(Op{.name = "", .body = attention_kernel(b, *s.cross)}, causal_half).value;
    return FlopCount(flops);
}

std::vector<LayerModel::Divisibility> TransformerBlock::divisibility() const {
    using Rule = Divisibility::Rule;
    std::vector<Divisibility> rules;
    const AttentionSpec& a = spec_.attention;
    rules.push_back({"num_attention_heads", a.heads, Rule::TpDivides});
    if (a.kv_rank == 0 && a.kv_heads != a.heads)
        rules.push_back({"num_key_value_heads", a.kv_heads, Rule::TpDividesOrMultiple});
    if (spec_.mlp) rules.push_back({"intermediate_size", spec_.mlp->ffn, Rule::TpDivides});
    if (spec_.moe) {
        rules.push_back({"num_experts", spec_.moe->experts, Rule::EpDivides});
        if (spec_.moe->shared)
            rules.push_back({"shared_expert_intermediate_size", spec_.moe->shared->ffn, Rule::TpDivides});
    }
    return rules;
}

}  // namespace tw
