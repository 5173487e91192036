#include "models/families/embedding.hpp"

#include <algorithm>

#include "models/families/work_builder.hpp"

namespace tw {
namespace {

using Keep = SavedTensor::Keep;

double d(std::int64_t v) {
    return static_cast<double>(v);
}

Linear projection_of(const EmbeddingSpec& s) {
    return unquantised(replicated_linear("embed.proj", s.hidden, s.width, s.projection_bias));
}

Linear patches_of(const EmbeddingSpec& s) {
    return unquantised(
        replicated_linear("embed.patch", s.hidden, s.channels * s.patch * s.patch, s.patch_bias));
}

}  // namespace

std::int64_t EmbeddingLayer::parameters_of(std::int64_t vocab_rows) const {
    const EmbeddingSpec& s = spec_;
    std::int64_t sum = vocab_rows * s.width;
    sum += s.position_rows * (s.positions_after_projection ? s.hidden : s.width) + s.type_vocab * s.width;
    if (s.width != s.hidden && s.vocab > 0) sum += projection_of(s).parameters();
    if (s.patch > 0) sum += patches_of(s).parameters() + (s.extra_tokens + s.image_positions) * s.hidden;
    // The norm follows the tables (ALBERT) and so has their width.
    if (s.norm_after) sum += s.norm.parameters(s.vocab > 0 ? s.width : s.hidden);
    return sum;
}

std::int64_t EmbeddingLayer::parameters() const {
    return parameters_of(spec_.vocab);
}

FlopCount EmbeddingLayer::model_flops(std::int64_t microbatch, std::int64_t seq_len, bool) const {
    const EmbeddingSpec& s = spec_;
    const double tokens = d(microbatch) * d(seq_len);
    double weights = 0;
    if (s.patch > 0) weights += d(patches_of(s).n) * d(patches_of(s).k);
    if (s.width != s.hidden && s.vocab > 0) weights += d(s.hidden) * d(s.width);
    return FlopCount(2 * tokens * weights);
}

LayerWork EmbeddingLayer::work(const WorkShape& shape) const {
    WorkBuilder b(shape);
    const EmbeddingSpec& s = spec_;
    const double e = b.r;  // the tables are fp32 under autocast, and so is what they give
    const double wide = d(b.tokens) * d(s.width);
    const double elements = d(b.rows) * d(s.hidden);

    b.set_phase(Phase::Forward);
    if (s.vocab > 0) {
        b.memory("embed.tokens", MemoryOpKind::Embedding, 2 * e * wide);
        // Vocabulary-parallel rows: the ranks' partial look-ups are summed.
        b.reduce("embed.tokens", s.width);
    }
    if (s.patch > 0) {
        b.linear_forward(patches_of(s), b.tokens);
        b.save_tokens("embed.patches", s.channels * s.patch * s.patch, b.e, Keep::Full);
    }
    if (s.position_rows + s.image_positions > 0)
        b.memory("embed.position", MemoryOpKind::Add, 3 * e * elements);
    if (s.type_vocab > 0) b.memory("embed.type", MemoryOpKind::Add, 3 * e * elements);
    if (s.norm_after) {
        b.norm_forward("embed.norm", s.norm, s.width > 0 ? s.width : s.hidden);
        b.save_rows("embed.norm_in", s.width > 0 ? s.width : s.hidden, e, Keep::Full);
    }
    if (s.width != s.hidden && s.vocab > 0) {
        b.linear_forward(projection_of(s), b.rows);
        b.save_rows("embed.proj_in", s.width, b.e, Keep::Full);
    }
    if (shape.dropout) {
        b.memory("embed.dropout", MemoryOpKind::Dropout, (2 * e + 1) * elements);
        b.save_rows("embed.mask", s.hidden, 1, Keep::Full);
    }
    // Eager frames keep the sum of the tables alive (one H200, PyTorch 2.11: 12 and 14 bytes a token and
    // channel outside the blocks in fp32 and under autocast, of which 4 are here).
    if (b.unfused()) b.save_rows("embed.out", s.hidden, e, Keep::Full);

    b.set_phase(Phase::BackwardInput);
    if (shape.dropout) b.memory("embed.dropout", MemoryOpKind::Dropout, (2 * e + 1) * elements);
    if (s.width != s.hidden && s.vocab > 0) b.linear_backward(projection_of(s), b.rows, false);
    if (s.norm_after) b.norm_backward("embed.norm", s.norm, s.width > 0 ? s.width : s.hidden, nullptr);
    b.set_phase(Phase::BackwardWeight);
    if (s.patch > 0) {
        const Linear l = patches_of(s);
        b.product(l, b.tokens, GemmForm::WeightGrad);
        b.weight_grad_extras(l);
    }
    if (s.position_rows + s.image_positions > 0)
        b.memory("embed.position", MemoryOpKind::Embedding, e * elements);
    const std::int64_t vocab_rows = shape.padded_vocab > 0 && s.vocab > 0 ? shape.padded_vocab : s.vocab;
    const std::int64_t local_rows = ceil_div(vocab_rows, shape.tp);
    if (s.vocab > 0) {
        b.gather("embed.tokens", s.width, false);
        // The gradient's rows are read, the table's rows read and written; an eager one first clears the
        // whole table.
        const double sum = shape.gradient_fp32 ? 4 : e;
        const double clear = b.unfused() ? d(local_rows) * d(s.width) * e : 0;
        b.memory("embed.tokens", MemoryOpKind::Embedding, (e + 2 * sum) * wide + clear);
    }
    b.never_recomputed();
    b.work.dense_parameters = parameters_of(local_rows);
    b.work.largest_weight = std::max(b.work.largest_weight, local_rows * s.width);
    return std::move(b.work);
}

}  // namespace tw
