#include "planner/partitions/count.hpp"

#include <set>
#include <utility>

#include "plan/stage_partition.hpp"
#include "planner/partitions/partition_strategy.hpp"

namespace tw {

PartitionCounter::PartitionCounter(const LayerGraph& graph) : graph_(graph) {
    uniform_cuts_.resize(static_cast<std::size_t>(graph.size()) + 1);
    for (int stages = 1; stages <= graph.size(); ++stages) {
        std::vector<int>& cuts = uniform_cuts_[static_cast<std::size_t>(stages)];
        cuts.push_back(0);
        for (const StageSpec& stage : uniform_partition(graph, stages, RecomputeMode::None))
            cuts.push_back(stage.last_layer);
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
        entry->by_stages.assign(uniform_cuts_.size(), 0);
    }
    return {*this, *entry};
}

int PartitionCounter::Counts::of(int stages) {
    if (stages == 1) return 1;
    // Where every composition is a partition, the others are among them.
    const std::int64_t all = listed_compositions(counter_->graph_.size(), stages);
    if (all > 0) return static_cast<int>(all);
    const auto s = static_cast<std::size_t>(stages);
    const std::lock_guard lock(entry_->mutex);
    int& count = entry_->by_stages[s];
    if (count == 0) count = min_max_partition(entry_->times, stages) == counter_->uniform_cuts_[s] ? 1 : 2;
    return count;
}

}  // namespace tw
