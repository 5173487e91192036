// How many plans a search covers, counted without making them: schedules x ZeRO choices x stage partitions of
// every chunking, also of those that a bound leaves out.
#pragma once

#include "planner/partitions/count.hpp"
#include "planner/space.hpp"

namespace tw {

struct ConfigurationCount {
    std::int64_t plans = 0;
    // Mixed clusters, where partitions depend on where each schedule puts its stages: pairs of a chunking and
    // a schedule of which the uniform partition alone is among `plans`.
    std::int64_t uniform_only = 0;
};

// Thread-safe. `shape` is the mesh's, on the first kind of device.
class ConfigurationCounter {
  public:
    // Keeps references to both.
    ConfigurationCounter(const Environment& environment, const SearchSpace& space)
        : space_(space), uniform_(environment.cluster.uniform()), partitions_(environment.graph) {}

    [[nodiscard]] ConfigurationCount below(const MeshChoice& mesh, const ShapeCost& shape);
    [[nodiscard]] ConfigurationCount below(const MeshChoice& mesh, const ChunkChoice& chunk,
                                           const ShapeCost& shape);

  private:
    // Schedules with equal placements of stages.
    struct Placement {
        std::vector<std::uint16_t> rank_of_stage;
        std::int64_t schedules = 0;
    };
    [[nodiscard]] std::vector<Placement> placements(const MeshChoice& mesh, int virtual_stages) const;
    static std::int64_t pairs(const std::vector<Placement>& placements, PartitionCounter::Counts counts);

    const SearchSpace& space_;
    bool uniform_;
    PartitionCounter partitions_;
};

}  // namespace tw
