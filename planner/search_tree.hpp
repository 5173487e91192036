// What the nodes of a search stand for: the choices below each, the plans, their exact bounds.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/recent_cache.hpp"
#include "planner/count_configurations.hpp"
#include "planner/plan_kind.hpp"
#include "planner/request.hpp"
#include "planner/space.hpp"
#include "sim/memory/ledger.hpp"

namespace tw {

struct SearchNode {
    double key = 0;                 // lower bound of the objective
    double time_s = 0, memory = 0;  // lower bounds
    // Stages: a chunking's partition under all schedules of one placement; `schedule` is the first of them.
    enum class Level : std::uint8_t { Mesh, Chunk, Stages, Leaf, Ready } level = Level::Mesh;
    std::uint32_t mesh = 0;
    std::uint16_t chunk = 0, schedule = 0, zero = 0;
    std::uint16_t partition = 0;  // 0: uniform
    [[nodiscard]] auto order() const {
        return std::tuple(key, time_s, mesh, chunk, schedule, partition, zero, level);
    }
};

struct LaterSearchNode {
    bool operator()(const SearchNode& a, const SearchNode& b) const { return a.order() > b.order(); }
};

// What became of one node: the nodes below it, or a simulation.
struct SearchOutcome {
    std::vector<SearchNode> children;
    ConfigurationCount found;  // on mixed clusters: partitions, and of how many pairs they are all
    std::map<std::string, std::int64_t> pruned;
    bool simulated = false;
    bool skipped = false;  // the search was stopped before the node's turn
    ParallelPlan plan;
    Evaluation evaluation;
};

class SearchTree {
  public:
    // Keeps references to all three.
    SearchTree(const Simulator& simulator, const SearchSpace& space, const PlanRequest& request)
        : simulator_(simulator), space_(space), request_(request), choices_(space.meshes().size()) {
        for (const ScheduleGenerator* generator : schedule_generators())
            infos_.emplace(generator, generator->info());
    }

    // What lies below a mesh.
    struct Choices {
        struct Schedule {
            const ScheduleGenerator* generator = nullptr;
            const GeneratorInfo* info = nullptr;
        };
        std::vector<ChunkChoice> chunks;
        std::vector<ZeroChoice> zeros;
        std::vector<std::vector<Schedule>> schedules;  // by virtual stages
        std::vector<char> hides;                       // by virtual stages: some schedule overlaps passes
        // By virtual stages: zero-bubble schedules of one stage a rank. They have the same placement and
        // bounds.
        std::vector<std::vector<std::uint16_t>> zero_bubble;
    };
    // Before anything else is asked about a node below this mesh; not thread-safe, the rest is.
    void prepare(std::uint32_t mesh);

    [[nodiscard]] const Choices& choices(const SearchNode& node) const { return *choices_[node.mesh]; }
    [[nodiscard]] const MeshChoice& mesh(const SearchNode& node) const { return space_.meshes()[node.mesh]; }
    [[nodiscard]] const ChunkChoice& chunk(const SearchNode& node) const {
        return choices(node).chunks[node.chunk];
    }
    [[nodiscard]] const std::vector<Choices::Schedule>& schedules(const SearchNode& node) const {
        return choices(node).schedules[static_cast<std::size_t>(chunk(node).virtual_stages)];
    }
    [[nodiscard]] const Choices::Schedule& schedule(const SearchNode& node) const {
        return schedules(node)[node.schedule];
    }

    // The schedules that a node stands for: its own; zero-bubble schedules share the nodes of their first
    // down to the leaf.
    [[nodiscard]] std::vector<std::uint16_t> schedules_of(const SearchNode& node) const {
        if (node.level == SearchNode::Level::Ready || !is_zero_bubble(*schedule(node).info))
            return {node.schedule};
        return choices(node).zero_bubble[static_cast<std::size_t>(chunk(node).virtual_stages)];
    }

    // Of a chunking's plans under one of its schedules and ZeRO choices.
    [[nodiscard]] PlanKind kind(const SearchNode& node, std::uint16_t schedule, std::uint16_t zero) const;

    // ZeRO 2 and 3 change what layers compute and keep, not only what they exchange: FSDP gathers parameters
    // that autocast would cast (WorkShape::gathered_parameters).
    [[nodiscard]] bool may_gather() const;
    // The layers' costs on one kind of device; needs no prepare().
    [[nodiscard]] std::shared_ptr<const ShapeCost> shape(const MeshChoice& mesh, int node_group,
                                                         bool gathered_parameters = false) const;
    // Of the node's chunking and schedule: the uniform one first. The most recently used ones are remembered.
    using Partitions = std::vector<std::vector<StageSpec>>;
    [[nodiscard]] std::shared_ptr<const Partitions> partitions(
        const SearchNode& node, std::span<const std::uint16_t> rank_of_stage) const;
    [[nodiscard]] ParallelPlan plan(const SearchNode& node) const;

    // What a plan of any of the node's schedules holds, whatever the ZeRO stage; nothing where only the
    // lowered schedule tells. `costs` are the plan's. Where it is not exact, it is that of an order which
    // holds no more at once, which is made in a fraction of the time: of fewer microbatches, of one where
    // zero-bubble schedules share the node.
    struct LeastMemory {
        MemoryBase base;
        bool exact = false;
        // The device's largest use, a lower bound where it is not exact; infinite where the plan does not
        // fit.
        [[nodiscard]] double key(const ParallelPlan& plan) const;
    };
    [[nodiscard]] std::optional<LeastMemory> memory(const SearchNode& node, const ParallelPlan& plan,
                                                    const PlanCost& costs,
                                                    std::span<const std::uint16_t> rank_of_stage) const;

    // A leaf's schedules with lower bounds of their step time, from their exact stages, and of their memory
    // where it is known better than the leaf's; infinite where the plan does not fit.
    struct Ready {
        std::uint16_t schedule = 0;
        double time_s = 0, memory = 0;
    };
    // `wanted(time_s, memory)`: whether anything of no less may still be among the best.
    [[nodiscard]] std::vector<Ready> ready(const SearchNode& leaf,
                                           const std::function<bool(double, double)>& wanted) const;
    // The largest use of a device; infinite where some device cannot hold its own.
    [[nodiscard]] static double memory_key(const ParallelPlan& plan, const MemoryBase& base);

  private:
    [[nodiscard]] static bool is_zero_bubble(const GeneratorInfo& info) {
        return info.splits_backward && !info.virtual_stages && info.fixed_virtual_stages == 0;
    }

    // The plan's, of as few microbatches as an order takes that holds as much at once, but for what grows
    // with their number.
    [[nodiscard]] static ScheduleShape least_shape(const ScheduleGenerator& generator,
                                                   const ParallelPlan& plan, const PlanCost& costs);

    [[nodiscard]] Partitions make_partitions(const SearchNode& node,
                                             std::span<const std::uint16_t> rank_of_stage) const;

    const Simulator& simulator_;
    const SearchSpace& space_;
    const PlanRequest& request_;
    std::map<const ScheduleGenerator*, GeneratorInfo>
        infos_;                                      // made once: thousands of choices refer to them
    std::vector<std::unique_ptr<Choices>> choices_;  // by mesh; null until it is prepared
    mutable RecentCache<Partitions> partitions_{std::int64_t{32} << 20};
};

}  // namespace tw
