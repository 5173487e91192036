#include "models/graph/layer_graph.hpp"

#include <algorithm>

namespace tw {

int LayerGraph::layer_classes() const {
    int classes = 0;
    for (int i = 0; i < size(); ++i)
        classes = std::max(classes, layer(i).layer_class + 1);
    return classes;
}

RecomputeModules LayerGraph::recompute_modules() const {
    std::vector<bool> asked(static_cast<std::size_t>(layer_classes()), false);
    RecomputeModules modules;
    for (int i = 0; i < size(); ++i) {
        const auto c = static_cast<std::size_t>(layer(i).layer_class);
        if (asked[c]) continue;
        asked[c] = true;
        for (const Op& op : layer(i).model->work(WorkShape{}).forward) {
            modules.add(op.modules);
            if (op.recompute == RecomputeLevel::Selective) modules.add(RecomputeModule::CoreAttention);
        }
    }
    return modules;
}

std::int64_t LayerGraph::parameters() const {
    std::int64_t sum = -tied_parameters;
    for (int i = 0; i < size(); ++i)
        sum += layer(i).model->parameters();
    return sum;
}

std::int64_t LayerGraph::active_parameters() const {
    std::int64_t sum = -tied_parameters;
    for (int i = 0; i < size(); ++i)
        sum += layer(i).model->active_parameters();
    return sum;
}

FlopCount LayerGraph::model_flops(std::int64_t microbatch, std::int64_t seq_len, bool causal_half) const {
    // Equal classes have equal arithmetic: each is asked once.
    std::vector<double> per_class(static_cast<std::size_t>(layer_classes()), -1.0);
    FlopCount sum;
    for (int i = 0; i < size(); ++i) {
        double& flops = per_class[static_cast<std::size_t>(layer(i).layer_class)];
        if (flops < 0) flops = layer(i).model->model_flops(microbatch, seq_len, causal_half).value;
        sum += FlopCount(flops);
    }
    return sum;
}

double LayerGraph::cut_bytes(int cut, const WorkShape& shape) const {
    TW_CHECK(cut >= 1 && cut < size());
    // A tensor with several consumers behind the cut crosses it once.
    double elements = 0;
    for (int i = 0; i < cut; ++i) {
        double widest = 0;
        const auto [begin, end] = boost::out_edges(static_cast<LayerDag::vertex_descriptor>(i), dag);
        for (auto edge = begin; edge != end; ++edge) {
            if (static_cast<int>(boost::target(*edge, dag)) >= cut) {
                widest = std::max(widest, dag[*edge].elements_per_token);
            }
        }
        elements += widest;
    }
    const double samples = counts_tokens
                               ? static_cast<double>(shape.microbatch) * static_cast<double>(shape.seq_len) /
                                     static_cast<double>(shape.cp)
                               : static_cast<double>(shape.microbatch);
    const double split = shape.sequence_parallel && shape.tp > 1 ? shape.tp : 1;
    return elements * samples * activation_bytes(shape.precision) / split;
}

std::int64_t padded_vocab(std::int64_t vocab, std::int64_t divisor, int tp) {
    TW_CHECK(vocab >= 0 && divisor >= 1 && tp >= 1);
    const std::int64_t multiple = divisor * tp;
    return (vocab + multiple - 1) / multiple * multiple;
}

}  // namespace tw
