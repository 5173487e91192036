#include "planner/search_tree.hpp"

#include <algorithm>
#include <limits>

#include "plan/frameworks/framework.hpp"
#include "plan/lower_plan.hpp"
#include "plan/schedule/placement.hpp"
#include "planner/bounds.hpp"
#include "planner/partitions/partition_strategy.hpp"

namespace tw {

void SearchTree::prepare(std::uint32_t mesh_index) {
    auto& entry = choices_[mesh_index];
    if (entry) return;
    entry = std::make_unique<Choices>();
    const MeshChoice& mesh = space_.meshes()[mesh_index];
    entry->chunks = space_.chunks(mesh);
    entry->zeros = space_.zeros(mesh);
    for (const ChunkChoice& chunk : entry->chunks) {
        const auto v = static_cast<std::size_t>(chunk.virtual_stages);
        if (entry->schedules.size() <= v) {
            entry->schedules.resize(v + 1);
            entry->hides.resize(v + 1);
            entry->zero_bubble.resize(v + 1);
        }
        if (!entry->schedules[v].empty()) continue;
        for (const ScheduleGenerator* generator : space_.schedules(mesh, chunk.virtual_stages)) {
            const GeneratorInfo& info = infos_.at(generator);
            if (info.overlaps_passes) entry->hides[v] = 1;
            if (is_zero_bubble(info))
                entry->zero_bubble[v].push_back(static_cast<std::uint16_t>(entry->schedules[v].size()));
            entry->schedules[v].push_back({generator, &info});
        }
    }
}

PlanKind SearchTree::kind(const SearchNode& node, std::uint16_t schedule, std::uint16_t zero) const {
    const MeshChoice& m = mesh(node);
    const ChunkChoice& c = chunk(node);
    return {m.mesh.tp,
            m.mesh.pp,
            m.mesh.ep,
            m.mesh.etp,
            choices(node).zeros[zero].stage,
            kind_of_recompute(c.recompute, c.recompute_layers, m.mesh.pp * c.virtual_stages,
                              simulator_.environment().graph.size()),
            schedules(node)[schedule].info->name};
}

bool SearchTree::may_gather() const {
    const ParallelPlan& base = request_.base;
    return base.precision.autocast && framework_defaults(base.framework).fsdp;
}

std::shared_ptr<const ShapeCost> SearchTree::shape(const MeshChoice& mesh, int node_group,
                                                   bool gathered_parameters) const {
    const Environment& environment = simulator_.environment();
    // A plan of the mesh with everything else at its default: enough for shapes and placement. Without ZeRO,
    // whatever the framework's row has: a bound for all of the search's ZeRO stages counts no layer's
    // gathers.
    ParallelPlan plan = request_.base;
    plan.zero_stage = plan.zero_shard = 0;
    plan.mesh = mesh.mesh;
    plan.microbatch = mesh.microbatch;
    plan.seq_len = space_.seq_len();
    plan.sequence_parallel = mesh.sequence_parallel;
    if (space_.recomputes_by_op()) plan.recompute = RecomputeMode::SelectiveOps;
    plan.recompute_modules = space_.modules();
    const RankPlacement placement = place_plan(environment.cluster, plan);
    ShapeKey key = shape_key(environment.graph, plan, placement, node_group);
    key.shape.gathered_parameters = gathered_parameters;
    return simulator_.shapes().get(environment, key);
}

std::shared_ptr<const SearchTree::Partitions> SearchTree::partitions(
    const SearchNode& node, std::span<const std::uint16_t> rank_of_stage) const {
    RecentCache<Partitions>::Key key = {node.mesh, node.chunk};
    key.insert(key.end(), rank_of_stage.begin(), rank_of_stage.end());
    if (auto known = partitions_.find(key)) return known;
    auto made = std::make_shared<const Partitions>(make_partitions(node, rank_of_stage));
    const std::size_t bytes =
        key.size() * 2 * sizeof(key[0]) + made->size() * rank_of_stage.size() * sizeof(StageSpec);
    partitions_.add(std::move(key), made, static_cast<std::int64_t>(bytes));
    return made;
}

SearchTree::Partitions SearchTree::make_partitions(const SearchNode& node,
                                                   std::span<const std::uint16_t> rank_of_stage) const {
    std::vector<StageSpec> uniform =
        space_.make_plan(mesh(node), chunk(node), *schedule(node).generator, ZeroChoice{}).stages;
    if (!space_.has_partitions(mesh(node), chunk(node))) return {std::move(uniform)};
    std::vector<std::shared_ptr<const ShapeCost>> shapes;  // by stage
    for (const StageSpec& stage : uniform) {
        const bool again = !shapes.empty() && stage.node_group == uniform[shapes.size() - 1].node_group;
        shapes.push_back(again ? shapes.back() : shape(mesh(node), stage.node_group));
    }
    return distinct_partitions(simulator_.environment().graph, shapes, rank_of_stage, std::move(uniform),
                               chunk(node).recompute);
}

ParallelPlan SearchTree::plan(const SearchNode& node) const {
    ParallelPlan plan =
        space_.make_plan(mesh(node), chunk(node), *schedule(node).generator, choices(node).zeros[node.zero]);
    if (node.partition > 0) {
        const auto ranks = rank_of_stage(*schedule(node).generator, schedule_shape(plan));
        plan.stages = (*partitions(node, ranks))[node.partition];
    }
    return plan;
}

std::optional<SearchTree::LeastMemory> SearchTree::memory(
    const SearchNode& node, const ParallelPlan& plan, const PlanCost& costs,
    std::span<const std::uint16_t> rank_of_stage) const {
    const auto& [generator, own_info] = schedule(node);
    const GeneratorInfo& info = *own_info;
    if (info.boundary == StepBoundary::None || plan.offload_activations) return std::nullopt;
    const auto base = [&](std::span<const RankMemoryProfile> profiles) {
        return memory_base(simulator_.environment(), plan, costs, rank_of_stage, profiles);
    };
    if (is_zero_bubble(info)) return LeastMemory{base(one_in_flight_profile(rank_of_stage)), false};
    const ScheduleShape shape = least_shape(*generator, plan, costs);
    const auto ordered = simulator_.schedules().order(info.name, shape, nullptr);
    if (!ordered) return std::nullopt;
    return LeastMemory{base((*ordered)->memory), shape.microbatches == plan.microbatches};
}

ScheduleShape SearchTree::least_shape(const ScheduleGenerator& generator, const ParallelPlan& plan,
                                      const PlanCost& costs) {
    ScheduleShape shape = schedule_shape(plan);
    // The executor holds more beside fewer microbatches (StageFootprint::next_input).
    if (costs.shape(0).executor || shape.microbatches <= 2 * shape.ranks) return shape;
    ScheduleShape least = shape;
    least.microbatches = 2 * shape.ranks;
    return generator.check(least).empty() ? least : shape;
}

double SearchTree::LeastMemory::key(const ParallelPlan& plan) const {
    if (exact) return memory_key(plan, base);
    // What is smaller may be rounded to more blocks of the allocator's: gradients and the optimizer's
    // temporaries at its step, where more activations would be the peak.
    const double roundings = 2 * in_blocks(1);
    MemoryBase less = base;
    for (RankFootprint& rank : less.ranks)
        rank.capacity += roundings;
    return memory_key(plan, less) - roundings;
}

double SearchTree::memory_key(const ParallelPlan& plan, const MemoryBase& base) {
    const MemoryTotals totals = memory_totals(plan, base);
    return totals.fits ? totals.device : std::numeric_limits<double>::infinity();
}

std::vector<SearchTree::Ready> SearchTree::ready(const SearchNode& leaf,
                                                 const std::function<bool(double, double)>& wanted) const {
    const Environment& environment = simulator_.environment();
    const ParallelPlan leaf_plan = plan(leaf);
    const auto& [generator, own_info] = schedule(leaf);
    const GeneratorInfo& info = *own_info;
    const ScheduleShape shape = schedule_shape(leaf_plan);
    const std::vector<std::uint16_t> ranks = rank_of_stage(*generator, shape);
    const PlanCost costs(environment, leaf_plan, ranks, simulator_.shapes());
    const std::vector<int> chunks =
        lowering_options(environment.graph, leaf_plan, costs.parameters()).buckets;
    const auto seconds = [](SimTime time) { return to_seconds(time).value; };
    double bound = seconds(leaf_step_time_bound(leaf_plan, costs, ranks, info, chunks, true));
    const bool shared = is_zero_bubble(info) && !leaf_plan.offload_activations;
    if (shared && wanted(bound, leaf.memory)) {
        StageCosts limited = costs.stage_costs();
        limited.memory_limit_bytes = activation_room(environment, leaf_plan, costs, ranks);
        bound = std::max(bound, seconds(memory_limited_step_time_bound(leaf_plan, costs, limited)));
    }
    std::vector<Ready> result;
    if (!wanted(bound, leaf.memory)) return result;
    const bool known = !is_zero_bubble(info) &&
                       least_shape(*generator, leaf_plan, costs).microbatches == leaf_plan.microbatches;
    for (const std::uint16_t s : schedules_of(leaf)) {
        Ready& one = result.emplace_back(Ready{s, bound, leaf.memory});
        const GeneratorInfo& own = *schedules(leaf)[s].info;
        const bool lowered = own.boundary == StepBoundary::None || leaf_plan.offload_activations;
        if (known || lowered || own.uses_costs) continue;  // known, or only with the simulation
        const auto ordered = simulator_.schedules().order(own.name, shape, nullptr);
        if (!ordered) continue;
        one.memory =
            memory_key(leaf_plan, memory_base(environment, leaf_plan, costs, ranks, (*ordered)->memory));
    }
    return result;
}

}  // namespace tw
