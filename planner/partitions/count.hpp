// How many stage partitions a search has for each chunking, without making them: what `configurations` counts
// below chunkings that a bound leaves out.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "sim/cost/shape_cost.hpp"

namespace tw {

// On clusters of one kind of device, where the layers' times alone decide the partitions. Thread-safe.
class PartitionCounter {
  public:
    // Keeps a reference to the graph.
    explicit PartitionCounter(const LayerGraph& graph);

    // Of one shape and recompute mode.
    class Counts {
      public:
        // As many as distinct_partitions() has of stages on these ranks; at least one stage and no more than
        // layers.
        [[nodiscard]] int of(const std::vector<std::uint16_t>& rank_of_stage);

      private:
        friend class PartitionCounter;
        struct Entry {
            std::mutex mutex;
            std::vector<double> times, sums;                  // of every layer, and of the layers before each
            std::map<std::size_t, std::vector<int>> min_max;  // cuts, by stages
            std::map<std::vector<std::uint16_t>, int> by_placement;
        };
        Counts(const PartitionCounter& counter, Entry& entry) : counter_(&counter), entry_(&entry) {}

        const PartitionCounter* counter_;
        Entry* entry_;
    };
    [[nodiscard]] Counts counts(const ShapeCost& shape, RecomputeMode recompute);

  private:
    const LayerGraph& graph_;
    std::vector<std::vector<int>> uniform_cuts_;  // by number of stages
    std::mutex mutex_;
    std::vector<int> kinds_;  // layers that differ: of each class and role the first
    std::map<std::vector<double>, std::unique_ptr<Counts::Entry>> known_;  // by the times of these
};

}  // namespace tw
