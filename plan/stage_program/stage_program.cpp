#include "plan/stage_program/stage_program.hpp"

#include <algorithm>

namespace tw {

std::vector<LayerWork> layer_works(const LayerGraph& graph, const WorkShape& shape) {
    std::vector<LayerWork> works(static_cast<std::size_t>(graph.layer_classes()));
    std::vector<bool> done(works.size(), false);
    for (int i = 0; i < graph.size(); ++i) {
        const auto c = static_cast<std::size_t>(graph.layer(i).layer_class);
        if (!done[c]) works[c] = graph.layer(i).model->work(shape);
        done[c] = true;
    }
    return works;
}

std::vector<StageSegment> stage_segments(const LayerGraph& graph, const StageSpec& stage) {
    std::vector<StageSegment> segments;
    int blocks = 0;
    for (int i = stage.first_layer; i < stage.last_layer; ++i) {
        const Layer& layer = graph.layer(i);
        RecomputeMode mode = RecomputeMode::None;
        if (recomputes(layer.role)) {
            mode = stage.recompute;
            if (mode == RecomputeMode::Full && stage.recompute_layers >= 0 &&
                blocks >= stage.recompute_layers) {
                mode = RecomputeMode::None;
            }
            ++blocks;
        }
        if (!segments.empty() && segments.back().layer_class == layer.layer_class &&
            segments.back().recompute == mode) {
            ++segments.back().count;
        } else {
            segments.push_back({layer.layer_class, 1, mode});
        }
    }
    return segments;
}

namespace {

bool of_core_attention(const LayerWork& work) {
    return work.modules.has(RecomputeModule::CoreAttention);
}

bool runs_again(const LayerWork& work, RecomputeMode mode, const Op& op) {
    const RecomputeLevel level = op.recompute;
    switch (mode) {
        case RecomputeMode::None:
            return false;
        case RecomputeMode::Selective:
            return level == RecomputeLevel::Selective;
        case RecomputeMode::Full:
            return level != RecomputeLevel::None;
        case RecomputeMode::SelectiveOps:  // by its own list
            return false;
        case RecomputeMode::Modules:
            return op.modules.any_of(work.modules) ||
                   (level == RecomputeLevel::Selective && of_core_attention(work));
    }
    return false;
}

bool dropped(const LayerWork& work, RecomputeMode mode, const SavedTensor& tensor) {
    using Keep = SavedTensor::Keep;
    const Keep keep = tensor.keep;
    switch (mode) {
        case RecomputeMode::None:
            return keep == Keep::Restart;
        case RecomputeMode::Selective:
            return keep == Keep::Selective || keep == Keep::Restart;
        case RecomputeMode::SelectiveOps:
            return work.by_op ? keep != Keep::Boundary && keep != Keep::Restart : keep == Keep::Restart;
        case RecomputeMode::Full:
            return keep != Keep::Boundary && keep != Keep::Restart;
        case RecomputeMode::Modules:
            return keep == Keep::Restart || tensor.modules.any_of(work.modules) ||
                   (keep == Keep::Selective && of_core_attention(work));
    }
    return false;
}

bool of_attention(const SavedTensor& tensor) {
    return tensor.name.starts_with("attn.") || tensor.name.starts_with("xattn.");
}

}  // namespace

void visit_layer_ops(const LayerWork& work, RecomputeMode recompute, Opcode opcode, const OpVisitor& visit) {
    if (opcode == Opcode::Forward) {
        for (const Op& op : work.forward)
            visit(op, false);
        return;
    }
    if (opcode != Opcode::BackwardWeight) {
        if (recompute == RecomputeMode::SelectiveOps && work.by_op) {
            for (const Op& op : work.by_op->again)
                visit(op, true);
        }
        for (const Op& op : work.forward) {
            if (runs_again(work, recompute, op)) visit(op, true);
        }
    }
    for (const Op& op : work.backward) {
        if (op.unless_recomputed && recompute == RecomputeMode::Full) continue;
        const bool weight = op.phase == Phase::BackwardWeight;
        if (opcode == Opcode::Backward || (opcode == Opcode::BackwardWeight) == weight) visit(op, false);
    }
}

double saved_bytes(const LayerWork& work, RecomputeMode recompute) {
    double bytes = 0;
    for (const SavedTensor& t : work.saved)
        bytes += dropped(work, recompute, t) ? 0 : t.bytes;
    if (recompute == RecomputeMode::SelectiveOps && work.by_op) bytes += work.by_op->kept_bytes;
    return bytes;
}

double recomputed_bytes(const LayerWork& work, RecomputeMode recompute) {
    double bytes = 0, attention = 0;
    for (const SavedTensor& t : work.saved) {
        if (dropped(work, recompute, t)) (of_attention(t) ? attention : bytes) += t.bytes;
    }
    // Modules make their tensors again one by one: those of the branch that runs first in the backward are
    // gone when attention's come back.
    bytes = recompute == RecomputeMode::Modules ? std::max(bytes, attention) : bytes + attention;
    if (recompute == RecomputeMode::SelectiveOps && work.by_op)
        bytes = std::max(0.0, bytes - work.by_op->kept_bytes);
    return bytes;
}

}  // namespace tw
