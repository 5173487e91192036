#include <algorithm>
#include <functional>

#include "plan/stage_partition.hpp"
#include "plan/stage_program/stage_program.hpp"
#include "planner/partitions/partition_strategy.hpp"

namespace tw {

double layer_time(const Layer& layer, const ShapeCost& shape, RecomputeMode recompute) {
    const RecomputeMode mode = recomputes(layer.role) ? recompute : RecomputeMode::None;
    const LayerCost& cost = shape.layers[static_cast<std::size_t>(layer.layer_class)];
    return static_cast<double>(cost.phase(mode, Opcode::Forward).device_time() +
                               cost.phase(mode, Opcode::Backward).device_time());
}

std::vector<double> layer_times(const LayerGraph& graph, const ShapeCost& shape, RecomputeMode recompute) {
    std::vector<double> times;
    for (int i = 0; i < graph.size(); ++i)
        times.push_back(layer_time(graph.layer(i), shape, recompute));
    return times;
}

std::vector<std::vector<StageSpec>> min_max_time_partitions(const LayerGraph& graph, StageShapes shapes,
                                                            std::span<const std::uint16_t> /*rank_of_stage*/,
                                                            RecomputeMode recompute) {
    const int stages = static_cast<int>(shapes.size());
    if (graph.size() < stages) return {};
    const bool uniform =
        std::adjacent_find(shapes.begin(), shapes.end(), std::not_equal_to<>()) == shapes.end();
    std::vector<int> cuts;
    if (uniform) {
        cuts = min_max_partition(layer_times(graph, *shapes.front(), recompute), stages);
    } else {
        std::vector<std::vector<double>> times;
        for (const auto& shape : shapes)
            times.push_back(layer_times(graph, *shape, recompute));
        cuts = min_max_partition_by_stage(times);
    }
    if (cuts.empty()) return {};
    return {stages_of_cuts(cuts, recompute)};
}

}  // namespace tw
