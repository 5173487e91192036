#include "planner/count_configurations.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "plan/schedule/placement.hpp"

namespace tw {

std::vector<ConfigurationCounter::Placement> ConfigurationCounter::placements(const MeshChoice& mesh,
                                                                              int virtual_stages) const {
    ScheduleShape shape;
    shape.ranks = mesh.mesh.pp;
    shape.virtual_stages = virtual_stages;
    shape.microbatches = static_cast<int>(mesh.microbatches);
    std::vector<Placement> result;
    for (const ScheduleGenerator* schedule : space_.schedules(mesh, virtual_stages)) {
        // One stage a rank: rank by rank, whichever the schedule.
        if (virtual_stages == 1 && !result.empty()) {
            ++result.front().schedules;
            continue;
        }
        std::vector<std::uint16_t> ranks = rank_of_stage(*schedule, shape);
        const auto same = std::find_if(result.begin(), result.end(),
                                       [&](const Placement& p) { return p.rank_of_stage == ranks; });
        if (same != result.end()) {
            ++same->schedules;
        } else {
            result.push_back({std::move(ranks), 1});
        }
    }
    return result;
}

// Of a schedule and a partition.
std::int64_t ConfigurationCounter::pairs(const std::vector<Placement>& placements,
                                         PartitionCounter::Counts counts) {
    std::int64_t total = 0;
    for (const Placement& placement : placements)
        total += placement.schedules * counts.of(placement.rank_of_stage);
    return total;
}

ConfigurationCount ConfigurationCounter::below(const MeshChoice& mesh, const ShapeCost& shape) {
    const auto zeros = static_cast<std::int64_t>(space_.zeros(mesh).size());
    std::array<std::optional<PartitionCounter::Counts>, kRecomputeModes.size()> counts;  // by recompute mode
    ConfigurationCount total;
    int known = 0;
    std::int64_t schedules = 0;
    std::vector<Placement> placed;  // where partitions are counted
    for (const ChunkChoice& chunk : space_.chunks(mesh)) {
        if (std::exchange(known, chunk.virtual_stages) != chunk.virtual_stages) {
            schedules = static_cast<std::int64_t>(space_.schedules(mesh, chunk.virtual_stages).size());
            placed.clear();
        }
        if (!space_.has_partitions(mesh, chunk)) {
            total.plans += schedules * zeros;
        } else if (!uniform_) {
            total.plans += schedules * zeros;
            total.uniform_only += schedules;
        } else {
            auto& mode = counts[static_cast<std::size_t>(chunk.recompute)];
            if (!mode) mode = partitions_.counts(shape, chunk.recompute);
            if (placed.empty()) placed = placements(mesh, chunk.virtual_stages);
            total.plans += pairs(placed, *mode) * zeros;
        }
    }
    return total;
}

ConfigurationCount ConfigurationCounter::below(const MeshChoice& mesh, const ChunkChoice& chunk,
                                               const ShapeCost& shape) {
    const auto schedules = static_cast<std::int64_t>(space_.schedules(mesh, chunk.virtual_stages).size());
    const auto zeros = static_cast<std::int64_t>(space_.zeros(mesh).size());
    if (!space_.has_partitions(mesh, chunk)) return {schedules * zeros, 0};
    if (!uniform_) return {schedules * zeros, schedules};
    return {pairs(placements(mesh, chunk.virtual_stages), partitions_.counts(shape, chunk.recompute)) * zeros,
            0};
}

}  // namespace tw
