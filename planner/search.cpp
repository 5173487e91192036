#include "planner/search.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <queue>
#include <tuple>

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include "plan/lower_plan.hpp"
#include "plan/schedule/placement.hpp"
#include "plan/stage_partition.hpp"
#include "planner/best_plans.hpp"
#include "planner/bounds.hpp"
#include "planner/partitions/partition_strategy.hpp"
#include "sim/memory/ledger.hpp"

namespace tw {
namespace {

constexpr std::size_t kRound = 64;  // leaves simulated together
// What a search that was stopped before its first simulation may still spend on finding some plan.
constexpr double kGraceSeconds = 1;
constexpr int kGraceVisits = 2048, kGracePlans = 16;

struct Node {
    double key = 0;                 // lower bound of the objective
    double time_s = 0, memory = 0;  // lower bounds
    enum class Level : std::uint8_t { Mesh, Chunk, Schedule, Leaf, Ready } level = Level::Mesh;
    std::uint32_t mesh = 0;
    std::uint16_t chunk = 0, schedule = 0, zero = 0;
    std::uint16_t partition = 0;  // 0: uniform
    [[nodiscard]] auto order() const {
        return std::tuple(key, mesh, chunk, schedule, partition, zero, level);
    }
};

struct Later {
    bool operator()(const Node& a, const Node& b) const { return a.order() > b.order(); }
};

// What became of one node: the nodes below it, or a simulation.
struct Outcome {
    std::vector<Node> children;
    std::int64_t more_configurations = 0;  // partitions that were found beside the uniform one
    std::map<std::string, std::int64_t> pruned;
    bool simulated = false;
    bool skipped = false;  // the search was stopped before the node's turn
    ParallelPlan plan;
    Evaluation evaluation;
};

class BestFirst {
  public:
    BestFirst(const Simulator& simulator, const SearchSpace& space, const PlanRequest& request)
        : simulator_(simulator),
          environment_(simulator.environment()),
          space_(space),
          request_(request),
          arena_(request.jobs > 0 ? request.jobs : tbb::task_arena::automatic),
          start_(std::chrono::steady_clock::now()),
          opened_(space.meshes().size()),
          choices_(space.meshes().size()),
          capacity_(environment_.usable_memory()),
          best_(request.objective, request.top) {}

    PlanAnswer run() {
        open_meshes();
        std::vector<Node> round;
        while (!stopped()) {
            collect(round);
            if (round.empty()) break;
            for (const Node& node : round)
                prepare_choices(node.mesh);
            std::vector<Outcome> outcomes(round.size());
            arena_.execute([&] {
                tbb::parallel_for(std::size_t{0}, round.size(), [&](std::size_t i) {
                    if (must_stop()) {
                        outcomes[i].skipped = true;
                    } else {
                        outcomes[i] = visit(round[i]);
                    }
                });
            });
            for (std::size_t i = 0; i < round.size(); ++i) {
                if (outcomes[i].skipped) queue_.push(round[i]);
                merge(outcomes[i]);
            }
            report();
        }
        if (statistics_.interrupted && best_.empty()) descend();
        return finish();
    }

  private:
    [[nodiscard]] double elapsed() const {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    }
    [[nodiscard]] bool wanted(const Node& node) const { return best_.wants(node.time_s, node.memory); }

    void open_meshes() {
        const std::size_t count = space_.meshes().size();
        bounds_.resize(count);
        std::vector<OpenedMesh> opened(count);
        arena_.execute([&] {
            tbb::parallel_for(std::size_t{0}, count, [&](std::size_t i) {
                if (!must_stop()) opened[i] = open_mesh(i);
            });
        });
        for (const OpenedMesh& mesh : opened)
            enter(mesh);
    }

    struct OpenedMesh {
        Node node;
        std::int64_t configurations = 0;
    };

    // Runs on any thread, once a mesh.
    OpenedMesh open_mesh(std::size_t i) {
        const MeshChoice& mesh = space_.meshes()[i];
        opened_[i] = 1;
        OpenedMesh opened;
        opened.configurations = space_.leaves(mesh);
        if (opened.configurations == 0) return opened;
        const ParallelPlan plan = probe_plan(mesh);
        const RankPlacement placement = place_plan(environment_.cluster, plan);
        for (int group = 0; group < node_groups(); ++group) {
            const auto shape =
                simulator_.shapes().get(environment_, shape_key(environment_.graph, plan, placement, group));
            bounds_[i].add({environment_, *shape, mesh, request_.base});
        }
        Node& n = opened.node;
        n.mesh = static_cast<std::uint32_t>(i);
        n.time_s = to_seconds(bounds_[i].step_time(can_hide(mesh))).value;
        n.memory = bounds_[i].memory();
        n.key = best_.key(n.time_s, n.memory);
        return opened;
    }

    void enter(const OpenedMesh& mesh) {
        if (mesh.configurations == 0) return;
        statistics_.configurations += mesh.configurations;
        if (mesh.node.memory > capacity_) {
            statistics_.pruned["memory"] += mesh.configurations;
        } else {
            queue_.push(mesh.node);
        }
    }

    // Whoever stops a search early wants its best plan so far: where nothing was simulated yet, the most
    // promising nodes are followed down, depth first, to a few plans that fit, until the grace is over.
    void descend() {
        const double end = elapsed() + kGraceSeconds;
        if (queue_.empty()) open_some_meshes(end);
        std::vector<Node> stack;
        for (int visits = 0; statistics_.simulated < kGracePlans && visits < kGraceVisits; ++visits) {
            if (elapsed() > end || (stack.empty() && queue_.empty())) break;
            if (stack.empty()) {
                stack.push_back(queue_.top());
                queue_.pop();
            }
            const Node node = stack.back();
            stack.pop_back();
            prepare_choices(node.mesh);
            Outcome outcome = visit(node);
            std::sort(outcome.children.begin(), outcome.children.end(), Later{});
            stack.insert(stack.end(), outcome.children.begin(), outcome.children.end());
            outcome.children.clear();
            const bool found = outcome.simulated;
            merge(outcome);
            if (!found) continue;
            // The next plan is one of another mesh, where there is another.
            if (!queue_.empty()) stack.clear();
        }
    }

    // Meshes from all over the space, where the search was stopped before it had opened any.
    void open_some_meshes(double end) {
        const std::size_t count = space_.meshes().size();
        const std::size_t stride = std::max<std::size_t>(1, count / kRound);
        for (std::size_t i = 0; i < count && elapsed() < end; i += stride) {
            if (opened_[i] == 0) enter(open_mesh(i));
        }
    }

    // A plan of the mesh with everything else at its default: enough for shapes and placement.
    [[nodiscard]] ParallelPlan probe_plan(const MeshChoice& mesh) const {
        ParallelPlan plan = request_.base;
        plan.mesh = mesh.mesh;
        plan.microbatch = mesh.microbatch;
        plan.seq_len = space_.seq_len();
        plan.sequence_parallel = mesh.sequence_parallel;
        return plan;
    }
    [[nodiscard]] int node_groups() const { return static_cast<int>(environment_.cluster.groups.size()); }
    [[nodiscard]] bool can_hide(const MeshChoice& mesh) const {
        const auto schedules = space_.schedules(mesh, 2);
        return std::any_of(schedules.begin(), schedules.end(),
                           [](const auto* s) { return s->info().overlaps_passes; });
    }
    // The next nodes in order of their bounds, a fixed number whatever the threads.
    void collect(std::vector<Node>& round) {
        round.clear();
        while (round.size() < kRound && !queue_.empty()) {
            const Node node = queue_.top();
            const bool is_wanted = wanted(node);
            if (!is_wanted && request_.objective != Objective::Pareto) return;  // nor is anything behind it
            queue_.pop();
            if (!is_wanted) continue;
            bound_s_ = std::max(bound_s_, node.time_s);
            round.push_back(node);
        }
    }

    // Runs on any thread.
    [[nodiscard]] Outcome visit(const Node& node) const {
        Outcome outcome;
        switch (node.level) {
            case Node::Level::Mesh:
                open_chunks(node, outcome);
                break;
            case Node::Level::Chunk:
                open_schedules(node, outcome);
                break;
            case Node::Level::Schedule:
                open_zeros(node, outcome);
                break;
            case Node::Level::Leaf:
                // A leaf's exact bound costs microseconds: it is asked for when the leaf's turn comes.
                push(outcome, node, Node::Level::Ready, leaf_bound(node), node.memory);
                break;
            case Node::Level::Ready:
                evaluate(node, outcome);
                break;
        }
        return outcome;
    }

    [[nodiscard]] bool must_stop() const {
        const bool asked = request_.stop != nullptr && request_.stop->load(std::memory_order_relaxed);
        return asked || (request_.time_limit_s > 0 && elapsed() > request_.time_limit_s);
    }
    bool stopped() {
        if (must_stop()) statistics_.interrupted = true;
        return statistics_.interrupted;
    }

    // What lies below a mesh, made when its first node is visited.
    struct Choices {
        std::vector<ChunkChoice> chunks;
        std::vector<ZeroChoice> zeros;
        std::vector<std::vector<const ScheduleGenerator*>> schedules;  // by virtual stages
    };

    void prepare_choices(std::uint32_t mesh_index) {
        auto& entry = choices_[mesh_index];
        if (entry) return;
        entry = std::make_unique<Choices>();
        const MeshChoice& mesh = space_.meshes()[mesh_index];
        entry->chunks = space_.chunks(mesh);
        entry->zeros = space_.zeros(mesh);
        for (const ChunkChoice& chunk : entry->chunks) {
            const auto v = static_cast<std::size_t>(chunk.virtual_stages);
            if (entry->schedules.size() <= v) entry->schedules.resize(v + 1);
            if (entry->schedules[v].empty())
                entry->schedules[v] = space_.schedules(mesh, chunk.virtual_stages);
        }
    }
    [[nodiscard]] const Choices& choices(const Node& node) const { return *choices_[node.mesh]; }
    [[nodiscard]] const ChunkChoice& chunk(const Node& node) const {
        return choices(node).chunks[node.chunk];
    }
    [[nodiscard]] const std::vector<const ScheduleGenerator*>& schedules(const Node& node) const {
        return choices(node).schedules[static_cast<std::size_t>(chunk(node).virtual_stages)];
    }

    void push(Outcome& outcome, Node node, Node::Level level, double time_s, double memory) const {
        node.level = level;
        node.time_s = std::max(node.time_s, time_s);
        node.memory = std::max(node.memory, memory);
        node.key = best_.key(node.time_s, node.memory);
        outcome.children.push_back(node);
    }

    void open_chunks(const Node& parent, Outcome& outcome) const {
        const ClusterBounds& bounds = bounds_[parent.mesh];
        const Choices& c = choices(parent);
        for (std::size_t k = 0; k < c.chunks.size(); ++k) {
            Node node = parent;
            node.chunk = static_cast<std::uint16_t>(k);
            const bool hides = std::any_of(schedules(node).begin(), schedules(node).end(),
                                           [](const auto* s) { return s->info().overlaps_passes; });
            double memory = std::numeric_limits<double>::infinity();
            for (const ZeroChoice& zero : c.zeros)
                memory = std::min(memory, bounds.memory(c.chunks[k], zero));
            if (memory > capacity_) {
                outcome.pruned["memory"] +=
                    static_cast<std::int64_t>(schedules(node).size() * c.zeros.size());
                continue;
            }
            push(outcome, node, Node::Level::Chunk, to_seconds(bounds.step_time(c.chunks[k], hides)).value,
                 memory);
        }
    }

    void open_schedules(const Node& parent, Outcome& outcome) const {
        const auto& candidates = schedules(parent);
        // Schedules of equal placement share partitions and their stages' costs.
        std::map<std::vector<std::uint16_t>, std::vector<std::vector<StageSpec>>> partitions_by_placement;
        std::map<std::pair<std::vector<std::uint16_t>, std::size_t>, std::unique_ptr<PlanCost>> costs;
        ParallelPlan plan =
            space_.make_plan(space_.meshes()[parent.mesh], chunk(parent), *candidates.front(), ZeroChoice{});
        for (std::size_t s = 0; s < candidates.size(); ++s) {
            plan.schedule = candidates[s]->info().name;
            const std::vector<std::uint16_t> ranks = rank_of_stage(*candidates[s], schedule_shape(plan));
            Node node = parent;
            node.schedule = static_cast<std::uint16_t>(s);
            auto& partitions = partitions_by_placement[ranks];
            if (partitions.empty()) partitions = partitions_of(node);
            outcome.more_configurations +=
                static_cast<std::int64_t>((partitions.size() - 1) * choices(parent).zeros.size());
            for (std::size_t p = 0; p < partitions.size(); ++p) {
                plan.stages = partitions[p];
                auto& cost = costs[{ranks, p}];
                if (!cost) cost = std::make_unique<PlanCost>(environment_, plan, ranks, simulator_.shapes());
                node.partition = static_cast<std::uint16_t>(p);
                // Holds for every ZeRO stage: 3's gathers only add to it.
                const SimTime bound =
                    leaf_step_time_bound(plan, *cost, ranks, candidates[s]->info(), {}, false);
                push(outcome, node, Node::Level::Schedule, to_seconds(bound).value, parent.memory);
            }
        }
    }

    void open_zeros(const Node& parent, Outcome& outcome) const {
        const Choices& c = choices(parent);
        ParallelPlan plan = plan_of(parent);
        const std::optional<MemoryBase> base = memory_of(parent, plan);
        for (std::size_t z = 0; z < c.zeros.size(); ++z) {
            Node node = parent;
            node.zero = static_cast<std::uint16_t>(z);
            plan.zero_stage = c.zeros[z].stage;
            plan.zero_shard = c.zeros[z].shard;
            const double memory =
                base ? memory_key(plan, *base) : bounds_[parent.mesh].memory(chunk(parent), c.zeros[z]);
            if (memory > capacity_) {
                ++outcome.pruned["memory"];
            } else {
                push(outcome, node, Node::Level::Leaf, parent.time_s, memory);
            }
        }
    }

    // The largest use of a device; infinite where some device cannot hold its own.
    [[nodiscard]] static double memory_key(const ParallelPlan& plan, const MemoryBase& base) {
        const MemoryTotals totals = memory_totals(plan, base);
        return totals.fits ? totals.device : std::numeric_limits<double>::infinity();
    }

    // A schedule's memory is known before it is lowered, unless costs decide its order or passes move memory.
    [[nodiscard]] std::optional<MemoryBase> memory_of(const Node& node, const ParallelPlan& plan) const {
        const GeneratorInfo info = schedules(node)[node.schedule]->info();
        if (info.uses_costs || info.boundary == StepBoundary::None || plan.offload_activations)
            return std::nullopt;
        const auto ordered = simulator_.order(plan);
        if (!ordered) return std::nullopt;
        return memory_base(environment_, plan, *ordered->costs, ordered->ordered->order.rank_of_stage,
                           ordered->ordered->memory);
    }

    // The uniform partition, then those that differ from it and from each other. Cheap enough to be made
    // anew.
    [[nodiscard]] std::vector<std::vector<StageSpec>> partitions_of(const Node& node) const {
        const MeshChoice& mesh = space_.meshes()[node.mesh];
        const ChunkChoice& choice = chunk(node);
        const int stages = mesh.mesh.pp * choice.virtual_stages;
        std::vector<std::vector<StageSpec>> result = {
            space_.make_plan(mesh, choice, *schedules(node)[node.schedule], ZeroChoice{}).stages};
        if (stages == 1 || choice.recompute_layers >= 0) return result;
        const ParallelPlan plan = probe_plan(mesh);
        const RankPlacement placement = place_plan(environment_.cluster, plan);
        std::vector<std::shared_ptr<const ShapeCost>> shapes;  // by stage
        for (const StageSpec& stage : result.front()) {
            const bool again =
                !shapes.empty() && stage.node_group == result.front()[shapes.size() - 1].node_group;
            shapes.push_back(
                again ? shapes.back()
                      : simulator_.shapes().get(
                            environment_, shape_key(environment_.graph, plan, placement, stage.node_group)));
        }
        for (const PartitionStrategy& strategy : partition_strategies()) {
            for (auto& partition : strategy.partitions(environment_.graph, shapes, choice.recompute)) {
                for (std::size_t s = 0; s < partition.size(); ++s)
                    partition[s].node_group = result.front()[s].node_group;
                if (std::find(result.begin(), result.end(), partition) == result.end())
                    result.push_back(std::move(partition));
            }
        }
        return result;
    }

    [[nodiscard]] ParallelPlan plan_of(const Node& node) const {
        ParallelPlan plan = space_.make_plan(space_.meshes()[node.mesh], chunk(node),
                                             *schedules(node)[node.schedule], choices(node).zeros[node.zero]);
        if (node.partition > 0) {
            plan.stages = partitions_of(node)[node.partition];
        }
        return plan;
    }

    [[nodiscard]] double leaf_bound(const Node& node) const {
        const ParallelPlan plan = plan_of(node);
        const ScheduleGenerator& schedule = *schedules(node)[node.schedule];
        const std::vector<std::uint16_t> ranks = rank_of_stage(schedule, schedule_shape(plan));
        const PlanCost costs(environment_, plan, ranks, simulator_.shapes());
        const std::vector<int> chunks =
            lowering_options(environment_.graph, plan, costs.parameters()).buckets;
        return to_seconds(leaf_step_time_bound(plan, costs, ranks, schedule.info(), chunks, true)).value;
    }

    void evaluate(const Node& node, Outcome& outcome) const {
        outcome.plan = plan_of(node);
        auto evaluation = simulator_.evaluate(outcome.plan, /*only_if_it_fits=*/true);
        if (!evaluation) {
            ++outcome.pruned["schedule"];
        } else if (!evaluation->fits) {
            ++outcome.pruned["memory"];
        } else {
            outcome.simulated = true;
            outcome.evaluation = *evaluation;
        }
    }

    void merge(Outcome& outcome) {
        statistics_.configurations += outcome.more_configurations;
        for (const auto& [rule, count] : outcome.pruned)
            statistics_.pruned[rule] += count;
        for (const Node& child : outcome.children)
            queue_.push(child);
        if (!outcome.simulated) return;
        ++statistics_.simulated;
        best_.insert({std::move(outcome.plan), outcome.evaluation, false});
    }

    void report() {
        if (!request_.progress) return;
        SearchProgress p;
        p.configurations = statistics_.configurations;
        p.simulated = statistics_.simulated;
        p.best_s = best_.first_s();
        p.bound_s = bound_s_;
        p.best = &best_.plans();
        request_.progress(p);
    }

    PlanAnswer finish() {
        PlanAnswer answer;
        statistics_.proven_optimal = !statistics_.interrupted;
        std::int64_t others = statistics_.simulated;
        for (const auto& [rule, count] : statistics_.pruned)
            others += count;
        statistics_.pruned[statistics_.interrupted ? "not reached" : "bound"] +=
            statistics_.configurations - others;
        statistics_.wall_s = elapsed();
        answer.plans = best_.take();
        answer.search = std::move(statistics_);
        return answer;
    }

    const Simulator& simulator_;
    const Environment& environment_;
    const SearchSpace& space_;
    const PlanRequest& request_;
    tbb::task_arena arena_;
    std::chrono::steady_clock::time_point start_;
    std::priority_queue<Node, std::vector<Node>, Later> queue_;
    std::vector<ClusterBounds> bounds_;              // by mesh
    std::vector<char> opened_;                       // by mesh
    std::vector<std::unique_ptr<Choices>> choices_;  // by mesh; null until it is opened
    double capacity_ = 0;                            // usable, of the largest device
    BestPlans best_;
    SearchStatistics statistics_;
    double bound_s_ = 0;
};

}  // namespace

PlanAnswer best_first_search(const Simulator& simulator, const SearchSpace& space,
                             const PlanRequest& request) {
    return BestFirst(simulator, space, request).run();
}

}  // namespace tw
