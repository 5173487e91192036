#include "planner/partitions/count.hpp"

#include <set>
#include <utility>

#include "plan/stage_partition.hpp"
#include "planner/partitions/partition_strategy.hpp"

namespace tw {

PartitionCounter::PartitionCounter(const LayerGraph& graph) : graph_(graph) {
    uniform_cuts_.resize(static_cast<std::size_t>(graph.size()) + 1);
    for (int stages = 1; stages <= graph.size(); ++stages) {
        uniform_cuts_[static_cast<std::size_t>(stages)] =
            cuts_of_stages(uniform_partition(graph, stages, RecomputeMode::None));
    }
    std::set<std::pair<int, LayerRole>> seen;
    for (int i = 0; i < graph.size(); ++i) {
        if (seen.emplace(graph.layer(i).layer_class, graph.layer(i).role).second) kinds_.push_back(i);
    }
}

PartitionCounter::Counts PartitionCounter::counts(const ShapeCost& shape, RecomputeMode recompute) {
    std::vector<double> key;
    for (const int layer : kinds_)
        key.push_back(layer_time(graph_.layer(layer), shape, recompute));
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Counts::Entry>& entry = known_[std::move(key)];
    if (!entry) {
        entry = std::make_unique<Counts::Entry>();
        entry->times = layer_times(graph_, shape, recompute);
        entry->sums = sums_before(entry->times);
    }
    return {*this, *entry};
}

int PartitionCounter::Counts::of(const std::vector<std::uint16_t>& rank_of_stage) {
    const auto stages = static_cast<int>(rank_of_stage.size());
    if (stages == 1) return 1;
    // Where every composition is a partition, the others are among them.
    const std::int64_t all = listed_compositions(counter_->graph_.size(), stages);
    if (all > 0) return static_cast<int>(all);
    const std::lock_guard lock(entry_->mutex);
    int& count = entry_->by_placement[rank_of_stage];
    if (count > 0) return count;
    const std::vector<std::span<const double>> before(rank_of_stage.size(), entry_->sums);
    const std::vector<int>& uniform = counter_->uniform_cuts_[rank_of_stage.size()];
    std::vector<int>& min_max = entry_->min_max[rank_of_stage.size()];
    if (min_max.empty()) min_max = min_max_partition(entry_->times, stages);
    std::vector<std::vector<int>> others = level_rank_cuts(before, rank_of_stage, uniform);
    if (others.size() == 2 && others[0] == others[1]) others.pop_back();
    const auto known = [&](const std::vector<int>& cuts) { return cuts == uniform || cuts == min_max; };
    std::erase_if(others, known);
    count = static_cast<int>(others.size()) + (min_max == uniform ? 1 : 2);
    return count;
}

}  // namespace tw
