// Which of a mixed cluster's node groups each stage lies on.
#include <algorithm>
#include <tuple>

#include "models/hardware/rank_order.hpp"
#include "plan/lower_plan.hpp"
#include "plan/schedule/generator.hpp"
#include "plan/schedule/placement.hpp"
#include "plan/stage_partition.hpp"

namespace tw {
namespace {

struct PipelineDigit {
    std::int64_t stride = 1;  // ranks from one pipeline rank to the next
    std::int64_t world = 1;
};

// Where pipeline ranks stand in the mixed radix of the rank order; world 0: more ranks than devices.
PipelineDigit pipeline_digit(const RankOrder& order, const DeviceMesh& mesh, std::int64_t pipeline_ranks,
                             std::int64_t devices) {
    PipelineDigit digit;
    bool inside = true;
    for (const Axis axis : order.axes) {
        if (axis == Axis::Ep) continue;
        if (axis == Axis::Pp) inside = false;
        const std::int64_t degree = axis == Axis::Pp   ? pipeline_ranks
                                    : axis == Axis::Tp ? mesh.tp
                                    : axis == Axis::Cp ? mesh.cp
                                                       : mesh.dp;
        if (degree < 1 || digit.world > devices / degree) return {1, 0};
        digit.world *= degree;
        if (inside) digit.stride *= degree;
    }
    return digit;
}

}  // namespace

std::vector<std::vector<int>> node_groups_of_stages(const Cluster& cluster, const ParallelPlan& plan) {
    const auto generator = find_schedule(plan.schedule);
    const auto order = parse_rank_order(plan.rank_order);
    if (!generator || !order || cluster.groups.empty() || plan.stages.empty()) return {};
    const ScheduleShape shape = schedule_shape(plan);
    const std::int64_t stages = std::int64_t{plan.mesh.pp} * plan.virtual_stages;
    if (stages != plan.stage_count() || !(*generator)->check(shape).empty()) return {};
    const std::vector<std::uint16_t> ranks = rank_of_stage(**generator, shape);
    std::int64_t pipeline_ranks = plan.mesh.pp;
    if (!shape.replicas.empty()) {
        pipeline_ranks = 0;
        for (const int replicas : shape.replicas)
            pipeline_ranks += replicas;
    }
    const PipelineDigit digit = pipeline_digit(*order, plan.mesh, pipeline_ranks, cluster.devices());
    if (digit.world == 0) return {};

    std::vector<std::vector<int>> on_rank(static_cast<std::size_t>(pipeline_ranks));
    std::int64_t first = 0;
    for (int g = 0; g < static_cast<int>(cluster.groups.size()); ++g) {
        const NodeGroup& group = cluster.groups[static_cast<std::size_t>(g)];
        const std::int64_t end = first + std::int64_t{group.nodes} * group.type.devices;
        for (std::int64_t rank = first; rank < std::min(end, digit.world); ++rank) {
            auto& groups = on_rank[static_cast<std::size_t>(rank / digit.stride % pipeline_ranks)];
            if (groups.empty() || groups.back() != g) groups.push_back(g);
        }
        first = end;
    }
    std::vector<std::vector<int>> result(plan.stages.size());
    for (std::size_t s = 0; s < result.size(); ++s) {
        for (int replica = 0; replica < plan.stages[s].replicas; ++replica) {
            const auto& groups = on_rank[ranks[s] + static_cast<std::size_t>(replica)];
            result[s].insert(result[s].end(), groups.begin(), groups.end());
        }
        std::sort(result[s].begin(), result[s].end());
        result[s].erase(std::unique(result[s].begin(), result[s].end()), result[s].end());
    }
    return result;
}

int slowest_node_group(const Cluster& cluster, std::span<const int> groups, Precision precision) {
    TW_CHECK(!groups.empty());
    const auto speed = [&](int group) {
        const Device& device = cluster.groups[static_cast<std::size_t>(group)].device;
        return std::tuple(device.peak(precision).value, device.memory_bandwidth.value, device.memory.value);
    };
    return *std::min_element(groups.begin(), groups.end(), [&](int a, int b) { return speed(a) < speed(b); });
}

void assign_node_groups(const Cluster& cluster, ParallelPlan& plan) {
    const bool mixed = cluster.groups.size() > 1;
    const auto groups = mixed ? node_groups_of_stages(cluster, plan) : std::vector<std::vector<int>>();
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
        plan.stages[s].node_group =
            groups.empty() ? 0 : slowest_node_group(cluster, groups[s], plan.precision.compute);
    }
}

}  // namespace tw
