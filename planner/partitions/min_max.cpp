#include <algorithm>
#include <array>
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
    // Equal layers take as long: of each class once, recomputed and as it is.
    std::vector<std::array<double, 2>> known(shape.layers.size(), {-1, -1});
    std::vector<double> times;
    times.reserve(static_cast<std::size_t>(graph.size()));
    for (int i = 0; i < graph.size(); ++i) {
        const Layer& layer = graph.layer(i);
        double& time = known[static_cast<std::size_t>(layer.layer_class)][recomputes(layer.role) ? 1 : 0];
        if (time < 0) time = layer_time(layer, shape, recompute);
        times.push_back(time);
    }
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
        for (std::size_t s = 0; s < shapes.size(); ++s) {
            const bool again = s > 0 && shapes[s] == shapes[s - 1];
            times.push_back(again ? times.back() : layer_times(graph, *shapes[s], recompute));
        }
        cuts = min_max_partition_by_stage(times);
    }
    if (cuts.empty()) return {};
    return {stages_of_cuts(cuts, recompute)};
}

}  // namespace tw
