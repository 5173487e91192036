#include "plan/stage_partition.hpp"
#include "planner/partitions/partition_strategy.hpp"

namespace tw {

std::vector<std::vector<StageSpec>> min_max_time_partitions(const LayerGraph& graph, const ShapeCost& shape,
                                                            int stages, RecomputeMode recompute) {
    if (graph.size() < stages) return {};
    std::vector<double> weights;
    for (int i = 0; i < graph.size(); ++i) {
        const Layer& layer = graph.layer(i);
        const bool recomputes = layer.role == LayerRole::Block || layer.role == LayerRole::Other;
        const RecomputeMode mode = recomputes ? recompute : RecomputeMode::None;
        const LayerCost& cost = shape.layers[static_cast<std::size_t>(layer.layer_class)];
        weights.push_back(static_cast<double>(cost.phase(mode, Opcode::Forward).device_time() +
                                              cost.phase(mode, Opcode::Backward).device_time()));
    }
    const std::vector<int> cuts = min_max_partition(weights, stages);
    if (cuts.empty()) return {};
    std::vector<StageSpec> specs;
    for (std::size_t s = 0; s + 1 < cuts.size(); ++s) {
        StageSpec spec;
        spec.first_layer = cuts[s];
        spec.last_layer = cuts[s + 1];
        spec.recompute = recompute;
        specs.push_back(spec);
    }
    return {specs};
}

}  // namespace tw
