#include "sim/memory/executor_footprint.hpp"

#include <algorithm>

#include "plan/stage_program/stage_program.hpp"

namespace tw {
namespace {

// One layer of the stage, in bytes.
struct LayerBytes {
    double saved, recomputed, forward, backward, kept, split, parameters;
    double on_its_way;  // parameters whose gradient is still summed when the layer before begins its backward
};

std::vector<LayerBytes> layers_of(const LayerGraph& graph, const StageSpec& stage, const ShapeCost& shape) {
    std::vector<LayerBytes> layers;
    for (const StageSegment& segment : stage_segments(graph, stage)) {
        const auto c = static_cast<std::size_t>(segment.layer_class);
        const LayerWork& work = shape.works[c];
        const double again = recomputed_bytes(work, segment.recompute);
        const LayerBytes one{
            saved_bytes(work, segment.recompute), again,
            // What is recomputed as a whole goes when the layer has run.
            work.transient_forward_bytes + (segment.recompute == RecomputeMode::Full ? again : 0),
            work.transient_backward_bytes, shape.kept_for_weight_bytes[c], shape.split_transient_bytes[c],
            static_cast<double>(work.dense_parameters + work.expert_parameters),
            static_cast<double>(work.dense_parameters + work.expert_parameters)};
        layers.insert(layers.end(), static_cast<std::size_t>(segment.count), one);
    }
    return layers;
}

}  // namespace

StageFootprint executor_footprint(const LayerGraph& graph, const ParallelPlan& plan, int s,
                                  const ShapeCost& shape) {
    const StageSpec& spec = plan.stages[static_cast<std::size_t>(s)];
    std::vector<LayerBytes> layers = layers_of(graph, spec, shape);
    const bool first = s == 0, last = s + 1 == plan.stage_count();
    const double element = bytes_per_element(plan.precision.compute);
    const double gradient = plan.precision.gradient_fp32 ? 4 : element;
    const int replicas = plan.zero_shard > 0 ? plan.zero_shard : plan.mesh.dp * plan.mesh.cp;
    const double gathered = plan.zero_stage == 3 ? element : 0;  // of a parameter whose layer is at work
    const double whole = plan.zero_stage >= 2 ? gradient : 0;
    // Tokens and targets, 32 bits each: the microbatch's own, and the host's while a forward begins.
    const double tokens = static_cast<double>(plan.microbatch * plan.seq_len);
    const double batch = first || last ? 8 * tokens : 0;
    const bool shares_table = first && last && graph.tied_embeddings;
    if (shares_table) {
        // The embedding's parameters are one bucket, with which the head works and which goes before its own.
        const double own = layers.back().parameters - shared_table_parameters(graph, shape.shape);
        layers.back().on_its_way = own;
        layers.back().parameters = layers.front().parameters + own;
    }
    // What the stage passes on and what it is given, there while all of its layers run; the first or last
    // layer's own sizes have it.
    const double cut = first ? 0 : graph.cut_bytes(spec.first_layer, shape.shape);
    const double out = last ? 0 : graph.cut_bytes(spec.last_layer, shape.shape);
    StageFootprint f;
    double later = 0, kept_after = 0, recomputed_after = 0;
    for (std::size_t i = layers.size(); i-- > 0;) {
        const LayerBytes& l = layers[i];
        const double next = i + 1 < layers.size() ? layers[i + 1].parameters : 0;
        const double going = i + 1 < layers.size() ? layers[i + 1].on_its_way : 0;
        const double before = i > 0 ? layers[i - 1].parameters : 0;
        const double output = i + 1 < layers.size() ? out : 0, input_gradient = i > 0 ? cut : 0;
        // The next layer's parameters are gathered while this one runs.
        f.transient_forward = std::max(f.transient_forward,
                                       l.forward + output + batch + gathered * (l.parameters + next) - later);
        // This layer's whole gradient, that of the layer after it on its way, and the latter's shard.
        const double sharded =
            gathered * (l.parameters + before) + whole * (l.parameters + going + going / replicas);
        const double running = l.backward + l.recomputed + output + input_gradient + sharded - later;
        if (i + 1 == layers.size()) f.transient_backward_last = running;
        // When it has run: its input's gradient, its own whole gradient and the shard that this is summed
        // into.
        const double input =
            first && i == 0 ? 0 : graph.cut_bytes(spec.first_layer + static_cast<int>(i), shape.shape);
        const double ending = input + l.recomputed + output + input_gradient + gathered * before +
                              whole * (l.parameters + l.parameters / replicas) - later;
        f.transient_backward = std::max({f.transient_backward, running, ending});
        // Nothing goes before the weight half has run, whole gradients neither: norms and biases have added
        // to them (LayerSharding::after).
        f.gradients_for_weight += whole * l.parameters;
        // The gradient that it is given is copied: the copy is among what is kept.
        const double split = std::max(l.split, l.kept) + l.recomputed + out + input_gradient + kept_after +
                             recomputed_after + gathered * (l.parameters + before);
        f.transient_backward_input_beside = std::max(f.transient_backward_input_beside, split);
        f.transient_backward_input = std::max(f.transient_backward_input, split + f.gradients_for_weight);
        kept_after += l.kept;
        recomputed_after += l.recomputed;
        later += l.saved;
    }
    // ZeRO-2's reductions are instructions of their own, which wait for it.
    if (!layers.empty() && plan.zero_stage == 3)
        f.gradient_on_its_way = whole * layers.front().parameters * (1 + 1.0 / replicas);
    // A head that computes with the embedding's table waits for the table's gradient before it adds to it.
    if (shares_table) f.transient_backward_last -= f.gradient_on_its_way;
    if (plan.microbatches > 1) {
        f.next_input = cut;
        f.microbatches = static_cast<int>(plan.microbatches);
        // Where backwards are split, more passes of others lie between a message and its use.
        f.transient_backward_input += std::max(cut, out);
        f.transient_backward_input_beside += std::max(cut, out);
    }
    f.activations = later + batch;
    f.held_for_weight = f.activations + kept_after + recomputed_after;
    return f;
}

}  // namespace tw
