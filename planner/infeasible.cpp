#include "planner/infeasible.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "plan/check_plan.hpp"
#include "plan/schedule/generator.hpp"
#include "plan/stage_partition.hpp"
#include "planner/space.hpp"

namespace tw {
namespace {

// The plans looked at, one after the other.
class Sample {
  public:
    Sample(const Environment& environment, const PlanRequest& request)
        : graph_(environment.graph),
          cluster_(environment.cluster),
          fix_(request.constraints),
          request_(request) {
        world_ = environment.cluster.devices();
        for (const NodeGroup& group : environment.cluster.groups)
            node_ = std::max(node_, group.type.devices);
    }

    template <class Visit>
    void visit(Visit&& visit) const {
        for (const int tp : divisors_of(world_)) {
            if (!fix_.tp.allows(tp) || (tp > node_ && fix_.tp.any())) continue;
            for (const int pp : divisors_of(world_ / tp)) {
                if (!fix_.pp.allows(pp) || pp > std::max<std::int64_t>(1, graph_.size())) continue;
                for (const int cp : divisors_of(world_ / tp / pp)) {
                    if (fix_.cp.any() ? cp > 1 : !fix_.cp.allows(cp)) continue;
                    const int dp = world_ / (tp * pp * cp);
                    if (!fix_.dp.allows(dp)) continue;
                    for (const int ep : fix_.ep.some(1)) {
                        for (const int etp : fix_.etp.some(1))
                            visit_mesh({dp, pp, tp, cp, ep, etp}, visit);
                    }
                }
            }
        }
    }

  private:
    template <class Visit>
    void visit_mesh(const DeviceMesh& mesh, Visit&& visit) const {
        const GeneratorInfo schedule =
            (*find_schedule(fix_.schedule.any() ? "1f1b" : fix_.schedule.words.front()))->info();
        const std::vector<int> sizes = fix_.mbs.any() ? std::vector<int>{1, 2, 4, 8} : fix_.mbs.some(1);
        const std::vector<RecomputeMode> modes = fix_.recompute.any()
                                                     ? std::vector{RecomputeMode::None, RecomputeMode::Full}
                                                     : fix_.recompute.words;
        for (const int vpp : fix_.vpp.some(own_virtual_stages(schedule))) {
            if (std::int64_t{mesh.pp} * vpp > std::max(1, graph_.size())) continue;
            for (const int mbs : sizes) {
                for (const RecomputeMode mode : modes) {
                    ParallelPlan made = plan(mesh, schedule, vpp, mbs, mode);
                    if (fix_.allows(made)) visit(std::move(made));
                }
            }
        }
    }

    [[nodiscard]] ParallelPlan plan(const DeviceMesh& mesh, const GeneratorInfo& schedule, int vpp, int mbs,
                                    RecomputeMode mode) const {
        ParallelPlan plan = request_.base;
        plan.mesh = mesh;
        plan.schedule = schedule.name;
        plan.semantics = schedule.semantics;
        plan.virtual_stages = vpp;
        plan.microbatch = mbs;
        plan.global_batch = request_.global_batch;
        plan.microbatches = std::max<std::int64_t>(1, request_.global_batch / (std::int64_t{mbs} * mesh.dp));
        plan.seq_len = request_.seq_len > 0 ? request_.seq_len : graph_.default_seq_len;
        plan.sequence_parallel = mesh.tp > 1 && !(fix_.sp.allows(0) && !fix_.sp.allows(1));
        plan.zero_stage = fix_.zero.some(0).front();
        plan.zero_shard = plan.zero_stage > 0 ? fix_.zero_shard.some(0).front() : 0;
        plan.recompute = mode;
        if (mode == RecomputeMode::Modules)
            plan.recompute_modules = fix_.modules.any() ? fix_.modules : usual_modules(graph_);
        plan.stages = uniform_partition(graph_, mesh.pp * vpp, mode);
        const int blocks = mode == RecomputeMode::Full ? fix_.full_blocks.some(-1).front() : -1;
        for (StageSpec& stage : plan.stages)
            stage.recompute_layers = blocks;
        assign_node_groups(cluster_, plan);
        return plan;
    }

    const LayerGraph& graph_;
    const Cluster& cluster_;
    const PlanConstraints& fix_;
    const PlanRequest& request_;
    int world_ = 1, node_ = 1;
};

// What of this plan can be changed to need less, where the constraints allow it.
std::string needs_less(const ParallelPlan& plan, const PlanConstraints& fix) {
    std::vector<std::string_view> ways;
    if (plan.recompute != RecomputeMode::Full && fix.recompute.allows(RecomputeMode::Full))
        ways.emplace_back("more recomputation");
    bool higher = false;
    for (int stage = plan.zero_stage + 1; stage <= 3; ++stage)
        higher = higher || fix.zero.allows(stage);
    if (higher && plan.mesh.dp * plan.mesh.cp > 1) ways.emplace_back("a higher ZeRO stage");
    bool smaller = false;
    for (std::int64_t mbs = 1; mbs < plan.microbatch; ++mbs)
        smaller = smaller || fix.mbs.allows(mbs);
    if (smaller) ways.emplace_back("a smaller microbatch");
    if (ways.empty()) return {};
    const std::string_view last = ways.back();
    ways.pop_back();
    return fmt::format("{}{}{} needs less", fmt::join(ways, ", "), ways.empty() ? "" : " or ", last);
}

}  // namespace

std::vector<InfeasiblePlan> infeasible_plans(const Simulator& simulator, const PlanRequest& request,
                                             std::size_t most, const std::atomic<bool>* stop) {
    const Environment& environment = simulator.environment();
    std::vector<InfeasiblePlan> found;
    Sample(environment, request).visit([&](ParallelPlan plan) {
        if (stop != nullptr && stop->load(std::memory_order_relaxed)) return;
        Errors errors = check_plan(environment.graph, environment.cluster, plan, request.target).errors;
        if (!errors.empty()) {
            found.push_back({std::move(plan), 0, std::move(errors)});
            return;
        }
        // Longer ones are not simulated by the search either.
        if (plan.microbatches > kMaxSearchedComputes / plan.mesh.pp) return;
        const auto evaluation = simulator.evaluate(plan, /*only_if_it_fits=*/true);
        if (evaluation && evaluation->fits) return;
        if (!evaluation) {
            found.push_back({std::move(plan), 0, evaluation.errors()});
            return;
        }
        Error error{ErrorCode::Infeasible,
                    needs_memory(evaluation->required_bytes, environment.usable_memory()), "memory",
                    needs_less(plan, request.constraints)};
        found.push_back({std::move(plan), evaluation->required_bytes, {std::move(error)}});
    });
    // Of those that only memory forbids the nearest to fit come first; as many of those that rules forbid.
    const auto rules = std::stable_partition(
        found.begin(), found.end(), [](const InfeasiblePlan& plan) { return plan.peak_device_bytes > 0; });
    std::stable_sort(found.begin(), rules, [](const InfeasiblePlan& a, const InfeasiblePlan& b) {
        return a.peak_device_bytes < b.peak_device_bytes;
    });
    std::stable_sort(rules, found.end(), [](const InfeasiblePlan& a, const InfeasiblePlan& b) {
        return a.errors.size() < b.errors.size();
    });
    const auto of_memory = static_cast<std::size_t>(rules - found.begin());
    const std::size_t of_rules = found.size() - of_memory;
    const std::size_t kept_memory = std::min(of_memory, most - std::min(of_rules, most / 2));
    const std::size_t kept_rules = std::min(of_rules, most - kept_memory);
    found.erase(rules + static_cast<std::ptrdiff_t>(kept_rules), found.end());
    found.erase(found.begin() + static_cast<std::ptrdiff_t>(kept_memory), rules);
    return found;
}

std::string needs_memory(double needed_bytes, double usable_bytes) {
    return fmt::format("memory: needs {} a device, there are {}", format_bytes(needed_bytes),
                       format_bytes(usable_bytes));
}

}  // namespace tw
