#include "planner/count_configurations.hpp"

#include <array>
#include <optional>
#include <utility>

namespace tw {

ConfigurationCount ConfigurationCounter::below(const MeshChoice& mesh, const ShapeCost& shape) {
    const auto zeros = static_cast<std::int64_t>(space_.zeros(mesh).size());
    std::array<std::optional<PartitionCounter::Counts>, 4> counts;  // by recompute mode
    ConfigurationCount total;
    int known = 0;
    std::int64_t schedules = 0;
    for (const ChunkChoice& chunk : space_.chunks(mesh)) {
        if (std::exchange(known, chunk.virtual_stages) != chunk.virtual_stages)
            schedules = static_cast<std::int64_t>(space_.schedules(mesh, chunk.virtual_stages).size());
        std::int64_t partitions = 1;
        if (space_.has_partitions(mesh, chunk)) {
            auto& mode = counts[static_cast<std::size_t>(chunk.recompute)];
            if (!uniform_) {
                total.uniform_only += schedules;
            } else {
                if (!mode) mode = partitions_.counts(shape, chunk.recompute);
                partitions = mode->of(mesh.mesh.pp * chunk.virtual_stages);
            }
        }
        total.plans += schedules * zeros * partitions;
    }
    return total;
}

std::int64_t ConfigurationCounter::partitions(const MeshChoice& mesh, const ChunkChoice& chunk,
                                              const ShapeCost& shape) {
    if (!uniform_ || !space_.has_partitions(mesh, chunk)) return 1;
    return partitions_.counts(shape, chunk.recompute).of(mesh.mesh.pp * chunk.virtual_stages);
}

ConfigurationCount ConfigurationCounter::below(const MeshChoice& mesh, const ChunkChoice& chunk,
                                               const ShapeCost& shape) {
    const auto schedules = static_cast<std::int64_t>(space_.schedules(mesh, chunk.virtual_stages).size());
    ConfigurationCount count;
    count.plans =
        schedules * static_cast<std::int64_t>(space_.zeros(mesh).size()) * partitions(mesh, chunk, shape);
    if (!uniform_ && space_.has_partitions(mesh, chunk)) count.uniform_only = schedules;
    return count;
}

}  // namespace tw
