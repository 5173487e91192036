#include "models/families/profiled.hpp"

namespace tw {

bool MeasuredLayer::same_work(const MeasuredLayer& other) const {
    return forward_s == other.forward_s && backward_s == other.backward_s &&
           input_gradient_share == other.input_gradient_share && saved_bytes == other.saved_bytes &&
           parameters == other.parameters && minibatch == other.minibatch;
}

LayerWork ProfiledLayer::work(const WorkShape& shape) const {
    const double scale = static_cast<double>(shape.microbatch) / static_cast<double>(layer_.minibatch);
    const auto measured = [&](double seconds, Phase phase) {
        Op op{.name = layer_.name, .body = MeasuredOp{seconds * scale}, .phase = phase};
        op.host_dispatches = 0;  // the host's share is inside the measured time
        return op;
    };
    LayerWork work;
    if (layer_.forward_s > 0) work.forward.push_back(measured(layer_.forward_s, Phase::Forward));
    const double input_s = layer_.backward_s * layer_.input_gradient_share;
    const double weight_s = layer_.backward_s - input_s;
    if (input_s > 0) work.backward.push_back(measured(input_s, Phase::BackwardInput));
    if (weight_s > 0) work.backward.push_back(measured(weight_s, Phase::BackwardWeight));
    // One operator is its own checkpoint: recomputing it alone frees nothing, so all of it is Boundary.
    if (layer_.saved_bytes > 0) {
        work.saved.push_back(
            {layer_.name + ".output", layer_.saved_bytes * scale, SavedTensor::Keep::Boundary});
    }
    work.dense_parameters = layer_.parameters;
    return work;
}

std::vector<LayerModel::Divisibility> ProfiledLayer::divisibility() const {
    return {{"measured layer (runs whole)", 1, Divisibility::Rule::TpDivides}};
}

}  // namespace tw
