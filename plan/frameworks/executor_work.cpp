#include "plan/frameworks/executor_work.hpp"

#include <algorithm>

#include "models/families/embedding.hpp"
#include "models/families/head.hpp"
#include "models/families/transformer_block.hpp"
#include "plan/frameworks/executor_kernels.hpp"
#include "plan/stage_program/stage_program.hpp"

namespace tw {
namespace {

using K = ExecutorKernel;
using Keep = SavedTensor::Keep;

double d(std::int64_t v) {
    return static_cast<double>(v);
}

// Collects one layer; sizes as StageSetting has them.
class Builder {
  public:
    explicit Builder(const WorkShape& shape) : s(shape), e(bytes_per_element(shape.precision)) {
        rows = s.microbatch * s.seq_len;
        sequence_parallel = s.tp > 1 && s.sequence_parallel;
        local = sequence_parallel ? rows / s.tp : rows;
    }

    void phase(Phase p) { phase_ = p; }
    void recompute(RecomputeLevel level) { level_ = level; }
    void kernel(const char* name, K kernel, std::int64_t of_rows, std::int64_t width, double element = 0) {
        // Processors compute in fp32 whatever they store: a kernel's time goes with its elements.
        push(name).body = executor_op(kernel, d(of_rows), d(width), element > 0 ? element : 4);
    }
    void gemm(const char* name, GemmForm form, std::int64_t m, std::int64_t n, std::int64_t k) {
        Gemm g;
        g.m = m, g.n = n, g.k = k, g.form = form, g.precision = s.precision;
        push(name).body = g;
    }
    void collective(const char* name, CollectiveKind kind, double bytes) {
        if (s.tp > 1) push(name).body = CollectiveOp{kind, Axis::Tp, bytes, false};
    }
    // gather_rows, reduce_rows of real_exec/layers/layer.cpp.
    void gather(const char* name, std::int64_t width) {
        if (sequence_parallel) collective(name, CollectiveKind::AllGather, d(rows) * d(width) * e);
    }
    void reduce(const char* name, std::int64_t width) {
        collective(name, sequence_parallel ? CollectiveKind::ReduceScatter : CollectiveKind::AllReduce,
                   d(rows) * d(width) * e);
    }
    void save(const char* name, double bytes, Keep keep = Keep::Full) {
        if (bytes > 0) layer.work.saved.push_back({name, bytes, keep});
    }
    // A product's gradients: of its input now, of weights in the weight half.
    void input_gradient(const char* name, std::int64_t n, std::int64_t k) {
        gemm(name, GemmForm::InputGrad, rows, k, n);
    }
    // `stored_in_out`: the weight is [in, out], else [out, in].
    void weight_gradient(const char* name, std::int64_t n, std::int64_t k, bool bias, bool stored_in_out,
                         std::int64_t bias_rows) {
        phase_ = Phase::BackwardWeight;
        gemm(name, GemmForm::WeightGrad, stored_in_out ? k : n, stored_in_out ? n : k, rows);
        if (bias) kernel(name, K::ColumnSum, bias_rows, n);
        phase_ = Phase::BackwardInput;
    }

    const WorkShape& s;
    double e;
    std::int64_t rows = 0, local = 0;
    bool sequence_parallel = false;
    ExecutorLayer layer;

  private:
    Op& push(const char* name) {
        std::vector<Op>& list = phase_ == Phase::Forward ? layer.work.forward : layer.work.backward;
        Op& op = list.emplace_back();
        op.name = name;
        op.phase = phase_;
        op.recompute = level_;
        return op;
    }
    Phase phase_ = Phase::Forward;
    RecomputeLevel level_ = RecomputeLevel::Full;
};

// Sizes of a block on one rank.
struct BlockSizes {
    std::int64_t hidden, heads, kv_heads, q, kv, width, ffn, up;
    bool fused_qkv, in_out;
};

BlockSizes sizes_of(const BlockSpec& spec, const WorkShape& s) {
    const AttentionSpec& a = spec.attention;
    BlockSizes z{};
    z.hidden = spec.hidden;
    z.heads = a.heads / s.tp;
    z.kv_heads = std::max<std::int64_t>(1, a.kv_heads / s.tp);
    z.q = z.heads * a.qk_dim;
    z.kv = z.kv_heads * a.qk_dim;
    z.width = z.q + 2 * z.kv;
    z.ffn = spec.mlp->ffn / s.tp;
    z.up = spec.mlp->gated ? 2 * z.ffn : z.ffn;
    // One product of GPT-2's kind (real_exec/layers/model_style.cpp), else one each for q, k and v; GPT-2
    // stores its weights [in, out].
    z.fused_qkv = z.in_out = !a.rope && a.kv_heads == a.heads && a.causal;
    return z;
}

struct Product {
    const char* name;
    std::int64_t width;
};

std::vector<Product> qkv_products(const BlockSizes& z) {
    if (z.fused_qkv) return {{"attn.qkv", z.width}};
    return {{"attn.q", z.q}, {"attn.k", z.kv}, {"attn.v", z.kv}};
}

Attention core_of(const BlockSpec& spec, const BlockSizes& z, const WorkShape& s, bool backward) {
    Attention a;
    a.batch = s.microbatch, a.seq_q = a.seq_kv = s.seq_len, a.heads = z.heads, a.kv_heads = z.kv_heads;
    a.head_dim_qk = a.head_dim_v = spec.attention.qk_dim;
    a.causal = spec.attention.causal, a.window = spec.attention.window, a.backward = backward;
    a.kernel = AttentionKernel::Flash2, a.precision = s.precision;
    return a;
}

void attention_half(Builder& b, const BlockSpec& spec, const BlockSizes& z) {
    const AttentionSpec& a = spec.attention;
    const double rows = d(b.rows), local = d(b.local), h = d(z.hidden);
    b.save("attn.stats", 8 * local);
    if (spec.pre_norm) {
        b.kernel("norm1", K::NormForward, b.local, z.hidden);
        b.save("attn.normed", local * h * b.e);
    }
    b.gather("attn.qkv", z.hidden);
    for (const Product& p : qkv_products(z))
        b.gemm(p.name, GemmForm::Forward, b.rows, p.width, z.hidden);
    b.save("attn.qkv", rows * d(z.width) * b.e);
    b.save("attn.out", rows * d(z.q) * b.e);
    if (a.rope) b.kernel("attn.rope", K::Rope, b.rows, z.q + z.kv);
    b.save("attn.lse", 4 * rows * d(z.heads), Keep::Selective);
    b.recompute(RecomputeLevel::Selective);
    b.layer.work.forward.emplace_back();
    b.layer.work.forward.back().name = "attn.core";
    b.layer.work.forward.back().body = core_of(spec, z, b.s, false);
    b.layer.work.forward.back().recompute = RecomputeLevel::Selective;
    b.recompute(RecomputeLevel::Full);
    b.gemm("attn.proj", GemmForm::Forward, b.rows, z.hidden, z.q);
    b.reduce("attn.proj", z.hidden);
    b.kernel("attn.residual", K::ResidualAdd, b.local, z.hidden);
    if (!spec.pre_norm) {
        b.kernel("norm1", K::NormForward, b.local, z.hidden);
        b.save("attn.sum", local * h * b.e);
    }
}

void mlp_half(Builder& b, const BlockSpec& spec, const BlockSizes& z) {
    const double rows = d(b.rows), local = d(b.local), h = d(z.hidden);
    b.save("mlp.stats", 8 * local);
    if (spec.pre_norm) {
        b.kernel("norm2", K::NormForward, b.local, z.hidden);
        b.save("mlp.normed", local * h * b.e);
    }
    b.gather("mlp.up", z.hidden);
    for (int i = 0; i < (spec.mlp->gated ? 2 : 1); ++i)
        b.gemm("mlp.up", GemmForm::Forward, b.rows, z.ffn, z.hidden);
    b.save("mlp.up", rows * d(z.up) * b.e);
    b.save("mlp.act", rows * d(z.ffn) * b.e);
    b.kernel("mlp.act", spec.mlp->gated ? K::GatedForward : K::ActivationForward, b.rows, z.ffn);
    b.gemm("mlp.down", GemmForm::Forward, b.rows, z.hidden, z.ffn);
    b.reduce("mlp.down", z.hidden);
    b.kernel("mlp.residual", K::ResidualAdd, b.local, z.hidden);
    if (!spec.pre_norm) {
        b.kernel("norm2", K::NormForward, b.local, z.hidden);
        b.save("mlp.sum", local * h * b.e);
    }
}

void norm_gradient(Builder& b, const char* name, const BlockSpec& spec, const BlockSizes& z) {
    b.kernel(name, K::NormBackward, b.local, z.hidden);
    if (spec.pre_norm) return;
    b.kernel(name, K::Copy, b.local, z.hidden);
    b.kernel(name, K::Add, b.local, z.hidden);
}

void mlp_backward(Builder& b, const BlockSpec& spec, const BlockSizes& z) {
    const MlpSpec& m = *spec.mlp;
    b.gather("mlp.down", z.hidden);
    b.weight_gradient("mlp.down", z.hidden, z.ffn, m.bias, z.in_out, b.local);
    b.input_gradient("mlp.down", z.hidden, z.ffn);
    b.kernel("mlp.act", m.gated ? K::GatedBackward : K::ActivationBackward, b.rows, z.ffn);
    const int products = m.gated ? 2 : 1;
    for (int i = 0; i < products; ++i)
        b.input_gradient("mlp.up", z.ffn, z.hidden);
    b.phase(Phase::BackwardWeight);
    b.gather("mlp.up", z.hidden);
    for (int i = 0; i < products; ++i)
        b.weight_gradient("mlp.up", z.ffn, z.hidden, m.bias, z.in_out, b.rows);
    b.phase(Phase::BackwardInput);
    b.reduce("mlp.up", z.hidden);
    norm_gradient(b, "norm2", spec, z);
}

void attention_backward(Builder& b, const BlockSpec& spec, const BlockSizes& z) {
    const AttentionSpec& a = spec.attention;
    b.gather("attn.proj", z.hidden);
    b.weight_gradient("attn.proj", z.hidden, z.q, a.out_bias, z.in_out, b.local);
    b.input_gradient("attn.proj", z.hidden, z.q);
    b.layer.work.backward.emplace_back();
    b.layer.work.backward.back().name = "attn.core";
    b.layer.work.backward.back().body = core_of(spec, z, b.s, true);
    b.layer.work.backward.back().phase = Phase::BackwardInput;
    if (a.rope) b.kernel("attn.rope", K::Rope, b.rows, z.q + z.kv);
    for (const Product& p : qkv_products(z))
        b.input_gradient(p.name, p.width, z.hidden);
    b.phase(Phase::BackwardWeight);
    b.gather("attn.qkv", z.hidden);
    for (const Product& p : qkv_products(z))
        b.weight_gradient(p.name, p.width, z.hidden, a.qkv_bias, z.in_out, b.rows);
    b.phase(Phase::BackwardInput);
    b.reduce("attn.qkv", z.hidden);
    norm_gradient(b, "norm1", spec, z);
}

// What lives inside one pass of a block (real_exec/layers/block.cpp, attention.cpp, mlp.cpp).
void block_transients(Builder& b, const BlockSpec& spec, const BlockSizes& z) {
    const double one = d(b.local) * d(z.hidden) * b.e, all = d(b.rows) * d(z.hidden) * b.e;
    const double rows = d(b.rows) * b.e;
    const double gathered = b.sequence_parallel ? all : 0;
    const double q = rows * d(z.q), qkv = rows * d(z.width), up = rows * d(z.up);
    LayerWork& w = b.layer.work;
    // The output; a branch's partial sums; with sequence parallelism its gathered input.
    w.transient_forward_bytes = one + all + gathered;
    // Of each half: gradients at the output, at the middle and at the input; the gathered gradient; partial
    // sums; post-norm the gradient at the sum; dropout's gradient at the branch's output.
    const double half = 3 * one + gathered + all + (spec.pre_norm ? 0 : one) + (b.s.dropout ? one : 0);
    // The gradient at the core's output is there until the core's own are; then the input is gathered once
    // more, for the weights'. So it is with a gated activation.
    const double core = q + attention_scratch_bytes(b.s.seq_len, spec.attention.qk_dim, true);
    const double attention = qkv + std::max(core, gathered);
    const double gated = spec.mlp->gated ? rows * d(z.ffn) : 0;
    w.transient_backward_bytes = half + std::max(attention, up + std::max(gated, gathered));
    // Gradients at the output and at the middle, and all that products of weights read.
    const double kept_by_halves =
        2 * (gathered + (spec.pre_norm ? 0 : one) + (b.s.dropout ? one : 0)) + qkv + up;
    b.layer.kept_for_weight_bytes = 2 * one + kept_by_halves;
    // The attention half runs last, beside what the other half keeps: the gradient at the input, partial
    // sums, the core.
    b.layer.split_transient_bytes =
        std::max(b.layer.kept_for_weight_bytes + one + all + core, half + up + gated);
}

ExecutorLayer block(const BlockSpec& spec, const WorkShape& shape) {
    Builder b(shape);
    const BlockSizes z = sizes_of(spec, shape);
    b.save("block.input", d(b.local) * d(z.hidden) * b.e, Keep::Boundary);
    attention_half(b, spec, z);
    b.save("block.middle", d(b.local) * d(z.hidden) * b.e);
    mlp_half(b, spec, z);
    b.phase(Phase::BackwardInput);
    mlp_backward(b, spec, z);
    attention_backward(b, spec, z);
    block_transients(b, spec, z);
    return std::move(b.layer);
}

ExecutorLayer embedding(const EmbeddingSpec& spec, const WorkShape& shape) {
    Builder b(shape);
    const std::int64_t h = spec.hidden;
    const double one = d(b.local) * d(h) * b.e, all = d(b.rows) * d(h) * b.e;
    b.recompute(RecomputeLevel::None);
    b.kernel("embed.tokens", K::EmbeddingForward, b.rows, h);
    b.reduce("embed.tokens", h);
    if (spec.position_rows > 0) b.kernel("embed.position", K::PositionForward, b.local, h);
    if (spec.type_vocab > 0) b.kernel("embed.type", K::PositionForward, b.local, h);
    if (spec.norm_after) {
        b.kernel("embed.norm", K::Copy, b.local, h);
        b.kernel("embed.norm", K::NormForward, b.local, h);
        b.save("embed.sum", one + 8 * d(b.local), Keep::Boundary);
    }
    b.kernel("embed.out", K::DropoutCopy, b.local, h);
    b.phase(Phase::BackwardInput);
    if (spec.norm_after) {
        b.kernel("embed.out", K::DropoutCopy, b.local, h);
        b.kernel("embed.norm", K::NormBackward, b.local, h);
    }
    b.phase(Phase::BackwardWeight);
    if (spec.position_rows > 0) b.kernel("embed.position", K::PositionBackward, b.local, h);
    if (spec.type_vocab > 0) b.kernel("embed.type", K::ColumnSum, b.local, h);
    b.gather("embed.tokens", h);
    b.kernel("embed.tokens", K::EmbeddingBackward, b.rows, h);
    b.layer.work.transient_forward_bytes = one + all + (b.sequence_parallel ? one : 0);
    // The gradient at the output, and behind norm and dropout; the gathered one, for the weights'.
    b.layer.kept_for_weight_bytes = one + (spec.norm_after || shape.dropout ? one : 0);
    b.layer.split_transient_bytes = b.layer.kept_for_weight_bytes;
    b.layer.work.transient_backward_bytes = b.layer.kept_for_weight_bytes + (b.sequence_parallel ? all : 0);
    return std::move(b.layer);
}

ExecutorLayer head(const HeadSpec& spec, const WorkShape& shape) {
    Builder b(shape);
    const std::int64_t h = spec.hidden;
    const std::int64_t padded = shape.padded_vocab > 0 ? shape.padded_vocab : spec.vocab;
    const std::int64_t columns = padded / shape.tp;
    const double one = d(b.local) * d(h) * b.e, all = d(b.rows) * d(h) * b.e;
    const double logits = d(b.rows) * d(columns);
    b.recompute(RecomputeLevel::None);
    b.save("head.in", one, Keep::Boundary);
    if (spec.final_norm) {
        b.kernel("head.norm", K::NormForward, b.local, h);
        b.save("head.normed", one + 8 * d(b.local), Keep::Boundary);
    }
    if (spec.transform) {
        b.gemm("head.dense", GemmForm::Forward, b.local, h, h);
        b.kernel("head.act", K::ActivationForward, b.local, h);
        b.kernel("head.dense_norm", K::NormForward, b.local, h);
        b.save("head.transform", 3 * one + 8 * d(b.local), Keep::Boundary);
    }
    b.gather("head.logits", h);
    b.gemm("head.logits", GemmForm::Forward, b.rows, columns, h);
    b.save("head.logits", 4 * logits, Keep::Boundary);
    b.save("head.softmax", 12 * d(b.rows), Keep::Boundary);
    b.kernel("head.loss", K::RowMax, b.rows, columns, 4);
    b.collective("head.max", CollectiveKind::AllReduce, 4 * d(b.rows));
    b.kernel("head.loss", K::SoftmaxSums, b.rows, columns, 4);
    b.collective("head.sum", CollectiveKind::AllReduce, 8 * d(b.rows));
    b.phase(Phase::BackwardInput);
    b.kernel("head.loss", K::LossBackward, b.rows, columns, 4);
    if (spec.bias) b.kernel("head.logits", K::ColumnSum, b.rows, columns, 4);
    const bool narrow = b.e < 4;
    if (narrow) b.kernel("head.logits", K::Copy, b.rows, columns, 3);  // 4 bytes read, 2 written
    b.input_gradient("head.logits", columns, h);
    b.phase(Phase::BackwardWeight);
    b.gather("head.logits", h);
    b.phase(Phase::BackwardInput);
    b.weight_gradient("head.logits", columns, h, false, false, 0);
    b.reduce("head.logits", h);
    if (spec.transform) {
        b.kernel("head.dense_norm", K::NormBackward, b.local, h);
        b.kernel("head.act", K::ActivationBackward, b.local, h);
        b.input_gradient("head.dense", h, h);
        b.weight_gradient("head.dense", h, h, true, false, b.local);
    }
    if (spec.final_norm) b.kernel("head.norm", K::NormBackward, b.local, h);
    LayerWork& w = b.layer.work;
    const double gathered = b.sequence_parallel ? all : 0;
    // A narrow copy of the logits' gradient takes the place of the wide one.
    const double copied = narrow ? 2 * logits : 0;
    const double transform = spec.transform ? 2 * one : 0;  // gradients at its output and inside
    w.transient_forward_bytes = gathered;
    // The gradient at the input; the copy, or partial sums beside what is gathered for the weights'.
    w.transient_backward_bytes = one + std::max({copied, all + gathered - copied, transform - copied});
    b.layer.kept_for_weight_bytes = (spec.transform ? one : 0) - copied;
    // Partial sums beside their own rows' alone.
    const double summed = all + (b.sequence_parallel ? one : 0);
    b.layer.split_transient_bytes = one + std::max({copied, summed - copied, transform - copied});
    return std::move(b.layer);
}

}  // namespace

std::optional<ExecutorLayer> executor_layer(const LayerModel& layer, const WorkShape& shape) {
    if (const auto* of_block = dynamic_cast<const TransformerBlock*>(&layer)) {
        const BlockSpec& spec = of_block->spec();
        const bool plain = spec.mlp && !spec.moe && !spec.cross && !spec.parallel && spec.mtp_vocab == 0 &&
                           spec.attention.kv_rank == 0 && spec.attention.linear_conv == 0;
        if (plain) return block(spec, shape);
    }
    if (const auto* of_tokens = dynamic_cast<const EmbeddingLayer*>(&layer)) {
        const EmbeddingSpec& spec = of_tokens->spec();
        if (spec.vocab > 0 && spec.width == spec.hidden && spec.patch == 0) return embedding(spec, shape);
    }
    if (const auto* of_head = dynamic_cast<const HeadLayer*>(&layer)) {
        const HeadSpec& spec = of_head->spec();
        if (spec.vocab > 0 && spec.projects && !spec.pooler && spec.classes == 0 && !spec.project_down)
            return head(spec, shape);
    }
    return std::nullopt;
}

std::vector<ExecutorLayer> executor_layers(const LayerGraph& graph, const WorkShape& shape) {
    std::vector<LayerWork> generic = layer_works(graph, shape);
    std::vector<ExecutorLayer> layers(generic.size());
    std::vector<bool> done(generic.size(), false);
    for (int i = 0; i < graph.size(); ++i) {
        const auto c = static_cast<std::size_t>(graph.layer(i).layer_class);
        if (done[c]) continue;
        done[c] = true;
        auto own = executor_layer(*graph.layer(i).model, shape);
        if (!own) {
            layers[c].work = std::move(generic[c]);
            layers[c].split_transient_bytes = layers[c].work.transient_backward_bytes;
            continue;
        }
        LayerWork& w = own->work;
        w.dense_parameters = generic[c].dense_parameters;
        w.expert_parameters = generic[c].expert_parameters;
        w.largest_weight = generic[c].largest_weight;
        layers[c] = std::move(*own);
    }
    return layers;
}

}  // namespace tw
