#include "planner/partitions/partition_strategy.hpp"

namespace tw {
namespace {

constexpr std::int64_t kMostPartitions = 256;

std::int64_t compositions(int layers, int stages) {  // C(layers - 1, stages - 1), cut off above the limit
    std::int64_t count = 1;
    for (int k = 1; k < stages; ++k) {
        count = count * (layers - k) / k;
        if (count > kMostPartitions) return kMostPartitions + 1;
    }
    return count;
}

}  // namespace

std::int64_t listed_compositions(int layers, int stages) {
    if (layers < stages || stages < 2) return 0;
    const std::int64_t count = compositions(layers, stages);
    return count > kMostPartitions ? 0 : count;
}

std::vector<std::vector<StageSpec>> all_partitions(const LayerGraph& graph, StageShapes shapes,
                                                   std::span<const std::uint16_t> /*rank_of_stage*/,
                                                   RecomputeMode recompute) {
    const int layers = graph.size(), stages = static_cast<int>(shapes.size());
    if (listed_compositions(layers, stages) == 0) return {};
    std::vector<std::vector<StageSpec>> result;
    std::vector<int> cuts(static_cast<std::size_t>(stages) + 1);
    for (int s = 0; s < stages; ++s)
        cuts[static_cast<std::size_t>(s)] = s;
    cuts.back() = layers;
    while (true) {
        result.push_back(stages_of_cuts(cuts, recompute));
        // The next combination of cuts in lexicographic order.
        int s = stages - 1;
        while (s > 0 && cuts[static_cast<std::size_t>(s)] == layers - (stages - s))
            --s;
        if (s == 0) return result;
        ++cuts[static_cast<std::size_t>(s)];
        for (int t = s + 1; t < stages; ++t)
            cuts[static_cast<std::size_t>(t)] = cuts[static_cast<std::size_t>(t) - 1] + 1;
    }
}

}  // namespace tw
