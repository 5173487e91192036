#include "models/families/head.hpp"

#include <algorithm>

namespace tw {
namespace {

using Keep = SavedTensor::Keep;

double d(std::int64_t v) {
    return static_cast<double>(v);
}

Linear logits_of(const WorkBuilder& b, const LmHeadSpec& s) {
    const std::int64_t rows = b.shape.padded_vocab > 0 ? b.shape.padded_vocab : s.vocab;
    return unquantised(column_linear("head.logits", rows, s.hidden, false, b.shape.tp));
}

bool eager_loss(const WorkBuilder& b) {
    return b.shape.loss == WorkShape::Loss::LogSoftmax || b.unfused();
}

Linear transform_of(const HeadSpec& s) {
    return unquantised(replicated_linear("head.dense", s.input_width, s.hidden, true));
}

}  // namespace

void lm_head_forward(WorkBuilder& b, const LmHeadSpec& s) {
    const Linear logits = logits_of(b, s);
    b.gather("head.logits", s.hidden, false);
    b.linear_forward(logits, b.tokens);
    b.save_rows("head.in", s.hidden, b.e, Keep::Full);
    const double elements = d(b.tokens) * d(logits.local_n);
    const bool half = activation_bytes(b.shape.precision) < 4;
    LayerWork& w = b.work;
    if (b.shape.loss == WorkShape::Loss::Fused) {
        // flash-attn's cross entropy (csrc/xentropy, inplace_backward), inductor's: reads the logits once.
        b.memory("head.loss", MemoryOpKind::Other, b.e * elements, 5 * elements);
        b.save("head.logits", b.e * elements, Keep::Full);
    } else if (eager_loss(b)) {
        if (half) b.memory("head.cast", MemoryOpKind::Cast, (b.e + 4) * elements);
        // log_softmax: two reads (maximum and sum), one write.
        b.memory("head.loss", MemoryOpKind::CrossEntropy, 12 * elements, 5 * elements, 2);
        b.save("head.log_probs", 4 * elements, Keep::Full);
        if (b.shape.loss == WorkShape::Loss::LogSoftmax) {
            // Forward: logits, their copy, the result; over a sharded vocabulary also the shifted copy and
            // its exponential. Backward: the gradients of both functions; sharded, the gradient, the
            // exponential and their sum (torch/distributed/tensor/parallel/loss.py, _log_softmax and
            // _nll_loss_and_log_softmax_backward). The logits leave a hole that no fp32 tensor fits.
            const double let_go = half ? b.e * elements : 0;
            w.transient_forward_bytes = let_go + (b.tensor_parallel ? 8 : 4) * elements;
            w.transient_backward_bytes = (b.tensor_parallel ? 12 : 8) * elements;
            w.loose_bytes = let_go;
        } else {
            if (half && !b.casts) b.save("head.logits", b.e * elements, Keep::Full);
            w.transient_forward_bytes = std::max(w.transient_forward_bytes, 4 * elements);
            w.transient_backward_bytes = std::max(w.transient_backward_bytes, 8 * elements);
        }
    } else {
        if (half) b.memory("head.cast", MemoryOpKind::Cast, (b.e + 4) * elements);
        // Vocabulary-parallel cross entropy (Megatron-LM, _VocabParallelCrossEntropy): maximum (4),
        // subtraction (8), exponential (8), sum (4), division (8) bytes an element: plain point-wise kernels
        // and reductions, not a log_softmax.
        b.memory("head.loss", MemoryOpKind::Other, 32 * elements, 5 * elements, 5);
        b.save("head.probs", 4 * elements, Keep::Full);
        if (b.shape.loss == WorkShape::Loss::InPlace) {
            // Beside the one fp32 tensor stand the logits while they are copied, and the gradient's cast back
            // (Megatron-LM core/tensor_parallel/cross_entropy.py, calculate_logits_max and its callers).
            if (half) {
                w.transient_forward_bytes = std::max(w.transient_forward_bytes, b.e * elements);
                w.transient_backward_bytes = std::max(w.transient_backward_bytes, b.e * elements);
            }
        } else {
            if (half) b.save("head.logits", b.e * elements, Keep::Full);
            w.transient_backward_bytes = std::max(w.transient_backward_bytes, 4 * elements);
        }
    }
    if (b.tensor_parallel) {
        // The maximum, the target's logit and the sum of exponentials, fp32 each.
        b.collective("head.max", CollectiveKind::AllReduce, Axis::Tp, 4 * d(b.tokens));
        b.collective("head.target", CollectiveKind::AllReduce, Axis::Tp, 4 * d(b.tokens));
        b.collective("head.sum", CollectiveKind::AllReduce, Axis::Tp, 4 * d(b.tokens));
    }
}

void lm_head_backward(WorkBuilder& b, const LmHeadSpec& s) {
    const Linear logits = logits_of(b, s);
    const double elements = d(b.tokens) * d(logits.local_n);
    if (b.shape.loss == WorkShape::Loss::Fused) {
        b.memory("head.loss", MemoryOpKind::Other, 2 * b.e * elements, 3 * elements);
        b.linear_backward(logits, b.tokens, true);
        return;
    }
    // Eager: the target's gradient is cleared (4), then log_softmax's backward reads it and the result and
    // writes (12). Vocabulary-parallel: the target's probability less one, then times the loss's gradient.
    if (eager_loss(b)) {
        b.memory("head.loss", MemoryOpKind::CrossEntropy, 16 * elements, 3 * elements, 2);
    } else {
        b.memory("head.loss", MemoryOpKind::Other, 8 * elements, 3 * elements, 2);
    }
    if (activation_bytes(b.shape.precision) < 4)
        b.memory("head.cast", MemoryOpKind::Cast, (b.e + 4) * elements);
    b.linear_backward(logits, b.tokens, true);
}

std::int64_t HeadLayer::parameters_of(std::int64_t vocab_rows) const {
    const HeadSpec& s = spec_;
    std::int64_t sum = s.final_norm ? s.norm.parameters(s.hidden) : 0;
    if (s.vocab > 0 && s.projects) sum += vocab_rows * s.input_width + (s.bias ? vocab_rows : 0);
    if (s.project_down) sum += s.hidden * s.input_width;
    if (s.transform) sum += transform_of(s).parameters() + s.norm.parameters(s.input_width);
    if (s.pooler) sum += s.hidden * s.hidden + s.hidden;
    if (s.classes > 0) sum += s.classes * s.hidden + s.classes;
    return sum;
}

std::int64_t HeadLayer::parameters() const {
    return parameters_of(spec_.vocab);
}

FlopCount HeadLayer::model_flops(std::int64_t microbatch, std::int64_t seq_len, bool) const {
    const HeadSpec& s = spec_;
    const double tokens = d(microbatch) * d(seq_len);
    double flops = 0;
    if (s.vocab > 0 && s.projects) flops += 2 * tokens * d(s.vocab) * d(s.input_width);
    if (s.project_down || s.transform) flops += 2 * tokens * d(s.hidden) * d(s.input_width);
    if (s.pooler) flops += 2 * d(microbatch) * d(s.hidden) * d(s.hidden);
    if (s.classes > 0) flops += 2 * d(microbatch) * d(s.hidden) * d(s.classes);
    return FlopCount(flops);
}

LayerWork HeadLayer::work(const WorkShape& shape) const {
    WorkBuilder b(shape);
    const HeadSpec& s = spec_;
    const LmHeadSpec lm{s.input_width, s.vocab};
    const bool down = s.project_down || s.transform;
    const Linear dense = s.transform
                             ? transform_of(s)
                             : unquantised(replicated_linear("head.down", s.input_width, s.hidden, false));
    const Linear pooler = unquantised(replicated_linear("head.pooler", s.hidden, s.hidden, true));
    const Linear classes = unquantised(replicated_linear("head.classes", s.classes, s.hidden, true));

    b.set_phase(Phase::Forward);
    b.save_rows("head.norm_in", s.hidden, b.r, Keep::Boundary);
    if (s.final_norm) {
        b.norm_forward("head.norm", s.norm, s.hidden);
        // Under autocast the eager frame keeps the fp32 output beside its cast.
        if (b.unfused() && b.casts) b.save_rows("head.norm_out", s.hidden, b.r, Keep::Full);
    }
    if (s.pooler) b.linear_forward(pooler, shape.microbatch);
    if (s.classes > 0) b.linear_forward(classes, shape.microbatch);
    if (down) {
        b.linear_forward(dense, b.rows);
        b.save_rows("head.dense_in", s.hidden, b.e, Keep::Full);
    }
    if (s.transform) {
        b.memory("head.act", MemoryOpKind::Activation, 2 * b.e * d(b.rows) * d(s.input_width));
        b.save_rows("head.act_in", s.input_width, b.e, Keep::Full);
        b.norm_forward("head.dense_norm", s.norm, s.input_width);
        b.save_rows("head.dense_norm", s.input_width, b.r, Keep::Full);
    }
    const bool has_logits = s.vocab > 0 && s.projects;
    if (has_logits) lm_head_forward(b, lm);

    b.set_phase(Phase::BackwardInput);
    if (has_logits) lm_head_backward(b, lm);
    if (s.transform) {
        b.norm_backward("head.dense_norm", s.norm, s.input_width, nullptr);
        b.memory("head.act", MemoryOpKind::Activation, 3 * b.e * d(b.rows) * d(s.input_width));
    }
    if (down) b.linear_backward(dense, b.rows, false);
    if (s.classes > 0) b.linear_backward(classes, shape.microbatch, false);
    if (s.pooler) b.linear_backward(pooler, shape.microbatch, false);
    if (s.final_norm) b.norm_backward("head.norm", s.norm, s.hidden, nullptr);

    b.never_recomputed();
    const std::int64_t rows = shape.padded_vocab > 0 ? shape.padded_vocab : s.vocab;
    b.work.dense_parameters = parameters_of(ceil_div(rows, shape.tp));
    b.work.largest_weight = std::max(b.work.largest_weight, ceil_div(rows, shape.tp) * s.input_width);
    return std::move(b.work);
}

}  // namespace tw
