#include "planner/search.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <queue>
#include <span>
#include <tuple>

#include "plan/lower_plan.hpp"
#include "plan/schedule/placement.hpp"
#include "planner/best_plans.hpp"
#include "planner/bounds.hpp"
#include "planner/count_configurations.hpp"
#include "planner/first_plans.hpp"
#include "planner/search_tree.hpp"
#include "planner/workers.hpp"

namespace tw {
namespace {

constexpr std::size_t kRound = 64;  // leaves simulated together
// What a search that was stopped before its first simulation may still spend on finding some plan.
constexpr double kGraceSeconds = 1;
constexpr int kGraceVisits = 2048, kGracePlans = 16;

using Node = SearchNode;
using Later = LaterSearchNode;
using Outcome = SearchOutcome;

class BestFirst {
  public:
    BestFirst(const Simulator& simulator, const SearchSpace& space, const PlanRequest& request)
        : simulator_(simulator),
          environment_(simulator.environment()),
          space_(space),
          request_(request),
          workers_(request.jobs),
          start_(std::chrono::steady_clock::now()),
          opened_(space.meshes().size()),
          tree_(simulator, space, request),
          capacity_(environment_.usable_memory()),
          counter_(environment_, space),
          best_(request.objective, request.top, request.every) {}

    PlanAnswer run() {
        std::vector<RankedPlan> first =
            first_plans(simulator_, space_, workers_, [this] { return must_stop(); });
        best_.expect(first);
        open_meshes();
        std::vector<Node> round;
        while (!stopped()) {
            collect(round);
            if (round.empty()) break;
            for (const Node& node : round)
                tree_.prepare(node.mesh);
            std::vector<Outcome> outcomes(round.size());
            workers_.for_each(round.size(), [&](std::size_t i) {
                if (must_stop()) {
                    outcomes[i].skipped = true;
                } else {
                    outcomes[i] = visit(round[i]);
                }
            });
            for (std::size_t i = 0; i < round.size(); ++i) {
                if (outcomes[i].skipped) queue_.push(round[i]);
                merge(outcomes[i]);
            }
            report();
        }
        if (statistics_.interrupted) {
            for (RankedPlan& plan : first) {
                if (!keeps(plan.plan)) insert(std::move(plan));
            }
        }
        if (statistics_.interrupted && best_.empty()) descend();
        return finish();
    }

  private:
    [[nodiscard]] double elapsed() const {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    }
    [[nodiscard]] bool keeps(const ParallelPlan& plan) const {
        const auto same = [&](const RankedPlan& p) { return p.plan == plan; };
        return std::any_of(best_.plans().begin(), best_.plans().end(), [&](const RankedPlan& p) {
            return same(p) || std::any_of(p.alike.begin(), p.alike.end(), same);
        });
    }
    [[nodiscard]] bool wanted(const Node& node) const { return best_.wants(node.time_s, node.memory); }

    // Whether a plan of one of these schedules, of no less time and memory, would be the best of its kind.
    [[nodiscard]] bool wants_kind(const Node& node, std::span<const std::uint16_t> schedules,
                                  std::uint16_t zero, double time_s, double memory) const {
        return std::any_of(schedules.begin(), schedules.end(), [&](std::uint16_t schedule) {
            return best_.wants(time_s, memory, tree_.kind(node, schedule, zero));
        });
    }
    // The same of a leaf, or of some ZeRO choice of a chunking's schedule.
    [[nodiscard]] bool wants_leaf(const Node& leaf, double time_s, double memory) const {
        return wants_kind(leaf, tree_.schedules_of(leaf), leaf.zero, time_s, memory);
    }
    [[nodiscard]] bool wants_schedule(const Node& node, std::uint16_t schedule,
                                      std::span<const double> memories) const {
        Node below = node;
        below.schedule = schedule;
        const std::vector<std::uint16_t> schedules = tree_.schedules_of(below);
        for (std::uint16_t zero = 0; zero < memories.size(); ++zero) {
            if (wants_kind(below, schedules, zero, node.time_s, memories[zero])) return true;
        }
        return false;
    }
    // Of a node below a chunking, lower bounds by ZeRO choice, where plans are ranked by memory too.
    [[nodiscard]] std::vector<double> memories(const Node& node) const {
        const std::vector<ZeroChoice>& zeros = tree_.choices(node).zeros;
        std::vector<double> result(zeros.size(), node.memory);
        if (request_.objective == Objective::Time || request_.objective == Objective::Money) return result;
        for (std::size_t z = 0; z < zeros.size(); ++z)
            result[z] = std::max(result[z], bounds_[node.mesh].memory(tree_.chunk(node), zeros[z]));
        return result;
    }
    [[nodiscard]] bool wants_some_kind(const Node& node) const {
        if (node.level == Node::Level::Mesh) return true;
        const bool leaf = node.level == Node::Level::Leaf || node.level == Node::Level::Ready;
        if (leaf) return wants_leaf(node, node.time_s, node.memory);
        const std::vector<double> by_zero = memories(node);
        for (std::uint16_t schedule = 0; schedule < tree_.schedules(node).size(); ++schedule) {
            if (wants_schedule(node, schedule, by_zero)) return true;
        }
        return false;
    }

    void open_meshes() {
        const std::size_t count = space_.meshes().size();
        bounds_.resize(count);
        std::vector<OpenedMesh> opened(count);
        workers_.for_each(count, [&](std::size_t i) {
            if (!must_stop()) opened[i] = open_mesh(i);
        });
        for (const OpenedMesh& mesh : opened)
            enter(mesh);
    }

    struct OpenedMesh {
        Node node;
        ConfigurationCount configurations;
    };

    // Runs on any thread, once a mesh.
    OpenedMesh open_mesh(std::size_t i) {
        const MeshChoice& mesh = space_.meshes()[i];
        opened_[i] = 1;
        OpenedMesh opened;
        for (int group = 0; group < node_groups(); ++group) {
            const auto shape = tree_.shape(mesh, group);
            if (group == 0) opened.configurations = counter_.below(mesh, *shape);
            if (opened.configurations.plans == 0) return opened;
            bounds_[i].add({environment_, *shape, mesh, request_.base, group});
            if (tree_.may_gather())
                bounds_[i].add({environment_, *tree_.shape(mesh, group, true), mesh, request_.base, group});
        }
        Node& n = opened.node;
        n.mesh = static_cast<std::uint32_t>(i);
        n.time_s = to_seconds(bounds_[i].step_time(can_hide(mesh))).value;
        n.memory = bounds_[i].memory();
        n.key = best_.key(n.time_s, n.memory);
        return opened;
    }

    void enter(const OpenedMesh& mesh) {
        if (mesh.configurations.plans == 0) return;
        statistics_.configurations += mesh.configurations.plans;
        statistics_.uniform_only += static_cast<std::uint32_t>(mesh.configurations.uniform_only);
        if (mesh.node.memory > capacity_) {
            statistics_.pruned["memory"] += mesh.configurations.plans;
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
            tree_.prepare(node.mesh);
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
            if (!is_wanted || !wants_some_kind(node)) continue;
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
                open_partitions(node, outcome);
                break;
            case Node::Level::Stages:
                open_schedules(node, outcome);
                break;
            case Node::Level::Leaf:
                open_leaf(node, outcome);
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

    void push(Outcome& outcome, Node node, Node::Level level, double time_s, double memory) const {
        node.level = level;
        node.time_s = std::max(node.time_s, time_s);
        node.memory = std::max(node.memory, memory);
        node.key = best_.key(node.time_s, node.memory);
        outcome.children.push_back(node);
    }

    void open_chunks(const Node& parent, Outcome& outcome) const {
        const ClusterBounds& bounds = bounds_[parent.mesh];
        const SearchTree::Choices& c = tree_.choices(parent);
        std::shared_ptr<const ShapeCost> shape;  // where one is needed
        for (std::size_t k = 0; k < c.chunks.size(); ++k) {
            Node node = parent;
            node.chunk = static_cast<std::uint16_t>(k);
            double memory = std::numeric_limits<double>::infinity();
            for (const ZeroChoice& zero : c.zeros)
                memory = std::min(memory, bounds.memory(c.chunks[k], zero));
            if (memory > capacity_) {
                if (!shape) shape = tree_.shape(tree_.mesh(parent), 0);
                outcome.pruned["memory"] += counter_.below(tree_.mesh(parent), c.chunks[k], *shape).plans;
                continue;
            }
            const bool hides = c.hides[static_cast<std::size_t>(c.chunks[k].virtual_stages)] != 0;
            push(outcome, node, Node::Level::Chunk, to_seconds(bounds.step_time(c.chunks[k], hides)).value,
                 memory);
        }
    }

    // The partitions of each placement of stages. Costing their stages takes longest of all that is done
    // below a chunking: it waits for their turn by sums over their layers.
    void open_partitions(const Node& parent, Outcome& outcome) const {
        const auto& candidates = tree_.schedules(parent);
        struct Placed {
            std::vector<std::uint16_t> ranks;
            std::uint16_t schedule = 0;  // the first of them
            std::shared_ptr<const SearchTree::Partitions> partitions;
            std::vector<SimTime> bounds;  // by partition, over the schedules that are wanted
        };
        std::vector<Placed> placements;
        std::optional<LayerBounds> layers;
        if (node_groups() == 1 && !tree_.may_gather())
            layers.emplace(environment_.graph, *tree_.shape(tree_.mesh(parent), 0), tree_.chunk(parent));
        const MeshChoice& mesh = space_.meshes()[parent.mesh];
        ParallelPlan plan =
            space_.make_plan(mesh, tree_.chunk(parent), *candidates.front().generator, ZeroChoice{});
        const std::vector<double> by_zero = memories(parent);
        Node node = parent;
        for (std::uint16_t s = 0; s < candidates.size(); ++s) {
            plan.schedule = candidates[s].info->name;
            std::vector<std::uint16_t> ranks = rank_of_stage(*candidates[s].generator, schedule_shape(plan));
            node.schedule = s;
            auto placed = std::find_if(placements.begin(), placements.end(),
                                       [&](const Placed& p) { return p.ranks == ranks; });
            if (placed == placements.end()) {
                auto partitions = tree_.partitions(node, ranks);
                const std::vector<SimTime> bounds(partitions->size(), kNever);
                placements.push_back({std::move(ranks), s, std::move(partitions), bounds});
                placed = std::prev(placements.end());
            }
            if (node_groups() > 1 && space_.has_partitions(mesh, tree_.chunk(parent))) {
                outcome.found.plans += static_cast<std::int64_t>((placed->partitions->size() - 1) *
                                                                 tree_.choices(parent).zeros.size());
                ++outcome.found.uniform_only;
            }
            if (tree_.schedules_of(node).front() != s || !wants_schedule(parent, s, by_zero)) continue;
            for (std::size_t p = 0; p < placed->partitions->size(); ++p) {
                const SimTime bound = layers ? layers->step_time((*placed->partitions)[p], placed->ranks,
                                                                 *candidates[s].info, plan.microbatches)
                                             : 0;
                placed->bounds[p] = std::min(placed->bounds[p], bound);
            }
        }
        for (const Placed& placed : placements) {
            node.schedule = placed.schedule;
            for (std::size_t p = 0; p < placed.partitions->size(); ++p) {
                node.partition = static_cast<std::uint16_t>(p);
                node.time_s = std::max(parent.time_s, to_seconds(placed.bounds[p]).value);
                if (placed.bounds[p] != kNever && wanted(node))
                    push(outcome, node, Node::Level::Stages, node.time_s, node.memory);
            }
        }
    }

    // The schedules of a placement share its stages' costs.
    void open_schedules(const Node& parent, Outcome& outcome) const {
        const auto& candidates = tree_.schedules(parent);
        ParallelPlan plan = tree_.plan(parent);
        plan.zero_stage = plan.zero_shard = 0;
        const std::vector<std::uint16_t> ranks =
            rank_of_stage(*tree_.schedule(parent).generator, schedule_shape(plan));
        const PlanCost costs(environment_, plan, ranks, simulator_.shapes());
        const std::vector<double> by_zero = memories(parent);
        for (std::uint16_t s = parent.schedule; s < candidates.size(); ++s) {
            Node node = parent;
            node.schedule = s;
            plan.schedule = candidates[s].info->name;
            if (rank_of_stage(*candidates[s].generator, schedule_shape(plan)) != ranks) continue;
            if (tree_.schedules_of(node).front() != s || !wants_schedule(parent, s, by_zero)) continue;
            // Holds for every ZeRO stage: 3's gathers only add to it, unless layers compute less then.
            const SimTime bound = leaf_step_time_bound(plan, costs, ranks, *candidates[s].info, {}, false);
            if (!tree_.may_gather()) node.time_s = std::max(parent.time_s, to_seconds(bound).value);
            if (wanted(node)) open_zeros(node, plan, costs, ranks, by_zero, outcome);
        }
    }

    // The leaves of one schedule and partition that fit.
    void open_zeros(const Node& parent, const ParallelPlan& schedule_plan, const PlanCost& costs,
                    std::span<const std::uint16_t> ranks, std::span<const double> by_zero,
                    Outcome& outcome) const {
        const SearchTree::Choices& c = tree_.choices(parent);
        ParallelPlan plan = schedule_plan;
        const std::optional<SearchTree::LeastMemory> least = tree_.memory(parent, plan, costs, ranks);
        for (std::size_t z = 0; z < c.zeros.size(); ++z) {
            Node node = parent;
            node.zero = static_cast<std::uint16_t>(z);
            plan.zero_stage = c.zeros[z].stage;
            plan.zero_shard = c.zeros[z].shard;
            const bool known = least && !(tree_.may_gather() && plan.zero_stage >= 2);
            const double memory =
                known ? least->key(plan) : bounds_[parent.mesh].memory(tree_.chunk(parent), c.zeros[z]);
            if (known ? std::isinf(memory) : memory > capacity_) {
                outcome.pruned["memory"] += static_cast<std::int64_t>(tree_.schedules_of(parent).size());
            } else if (wants_leaf(node, parent.time_s, std::max(memory, by_zero[z]))) {
                push(outcome, node, Node::Level::Leaf, parent.time_s, std::max(memory, by_zero[z]));
            }
        }
    }

    // A leaf's exact bounds cost microseconds: they are asked for when the leaf's turn comes.
    void open_leaf(const Node& parent, Outcome& outcome) const {
        const auto wanted = [&](double time_s, double memory) { return wants_leaf(parent, time_s, memory); };
        for (const SearchTree::Ready& ready : tree_.ready(parent, wanted)) {
            if (std::isinf(ready.memory)) {
                ++outcome.pruned["memory"];
                continue;
            }
            Node node = parent;
            node.schedule = ready.schedule;
            push(outcome, node, Node::Level::Ready, ready.time_s, ready.memory);
        }
    }

    void evaluate(const Node& node, Outcome& outcome) const {
        outcome.plan = tree_.plan(node);
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
        statistics_.configurations += outcome.found.plans;
        statistics_.uniform_only -= static_cast<std::uint32_t>(outcome.found.uniform_only);
        for (const auto& [rule, count] : outcome.pruned)
            statistics_.pruned[rule] += count;
        for (const Node& child : outcome.children)
            queue_.push(child);
        if (!outcome.simulated) return;
        insert({std::move(outcome.plan), outcome.evaluation, false, {}});
    }

    void insert(RankedPlan plan) {
        ++statistics_.simulated;
        best_.insert(std::move(plan));
    }

    void report() {
        if (!request_.progress) return;
        SearchProgress p;
        p.configurations = statistics_.configurations;
        p.simulated = statistics_.simulated;
        p.best_s = best_.first_s();
        // By memory, the queue says nothing of times.
        if (request_.objective != Objective::Memory) {
            p.bound_s = queue_.empty() ? p.best_s : queue_.top().time_s;
            if (p.best_s > 0) p.bound_s = std::min(p.bound_s, p.best_s);
        }
        p.best = &best_.plans();
        request_.progress(p);
    }

    PlanAnswer finish() {
        PlanAnswer answer;
        statistics_.proven_optimal = !statistics_.interrupted;
        std::int64_t others = statistics_.simulated;
        for (const auto& [rule, count] : statistics_.pruned)
            others += count;
        statistics_.pruned[statistics_.interrupted ? std::string(kNotReached) : "bound"] +=
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
    Workers workers_;
    std::chrono::steady_clock::time_point start_;
    std::priority_queue<Node, std::vector<Node>, Later> queue_;
    std::vector<ClusterBounds> bounds_;  // by mesh
    std::vector<char> opened_;           // by mesh
    SearchTree tree_;
    double capacity_ = 0;                   // usable, of the largest device
    mutable ConfigurationCounter counter_;  // thread-safe
    BestPlans best_;
    SearchStatistics statistics_;
};

}  // namespace

PlanAnswer best_first_search(const Simulator& simulator, const SearchSpace& space,
                             const PlanRequest& request) {
    return BestFirst(simulator, space, request).run();
}

}  // namespace tw
