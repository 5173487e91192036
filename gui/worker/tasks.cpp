#include "gui/worker/tasks.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/si_format.hpp"
#include "gui/view/trace_model.hpp"
#include "models/hardware/profile_json.hpp"
#include "plan/check_plan.hpp"
#include "plan/stage_partition.hpp"
#include "planner/explain/breakdown.hpp"
#include "planner/explain/hardware_changes.hpp"
#include "planner/explain/plan_changes.hpp"
#include "planner/infeasible.hpp"

namespace tw::gui {
namespace {

bool stopped(StopFlag stop) {
    return stop != nullptr && stop->load(std::memory_order_relaxed);
}

double seconds(const Evaluation& evaluation) {
    return to_seconds(evaluation.step_time).value;
}

PlanEntry entry_of(const StudyPtr& study, const RankedPlan& ranked) {
    PlanEntry entry;
    entry.study = study;
    entry.plan = ranked.plan;
    entry.evaluation = ranked.evaluation;
    entry.tied = ranked.tied;
    entry.near_identical = static_cast<int>(ranked.alike.size());
    return entry;
}

std::vector<PlanEntry> entries_of(const StudyPtr& study, const std::vector<RankedPlan>& plans) {
    std::vector<PlanEntry> entries;
    entries.reserve(plans.size());
    for (const RankedPlan& ranked : plans)
        entries.push_back(entry_of(study, ranked));
    return entries;
}

// Passes on what changed, not too often.
class Reporter {
  public:
    Reporter(const StudyPtr& study, const SearchHooks& hooks) : study_(study), hooks_(hooks) {}

    void operator()(const SearchProgress& progress) {
        constexpr double kEvery_s = 0.05;
        const double now = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
        if (now - last_ < kEvery_s) return;
        last_ = now;
        if (hooks_.progress) hooks_.progress(progress, now);
        if (!hooks_.best || progress.best == nullptr) return;
        // The list changes where a better plan comes in: the sum of times tells lists apart cheaply.
        auto sum = static_cast<double>(progress.best->size());
        for (const RankedPlan& plan : *progress.best)
            sum += seconds(plan.evaluation) + plan.evaluation.peak_device_bytes;
        if (sum == seen_) return;
        seen_ = sum;
        hooks_.best(entries_of(study_, *progress.best), false);
    }

  private:
    const StudyPtr& study_;
    const SearchHooks& hooks_;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
    double last_ = -1, seen_ = -1;
};

}  // namespace

Result<Simulated> simulate_plan(const Study& study, const ParallelPlan& plan) {
    SimulateOptions options;
    options.trace = true;
    auto report = study.simulator->simulate(plan, options);
    if (!report) return report.errors();
    const auto shared = std::make_shared<const SimulationReport>(std::move(*report));
    return Simulated{shared, make_trace_model(std::shared_ptr<const Trace>(shared, &shared->trace))};
}

Result<std::shared_ptr<const SimulationReport>> report_plan(const Study& study, const ParallelPlan& plan) {
    auto report = study.simulator->simulate(plan);
    if (!report) return report.errors();
    return std::make_shared<const SimulationReport>(std::move(*report));
}

Result<FoundPlans> search_plans(const StudyPtr& study, const Setup& setup, StopFlag stop,
                                const SearchHooks& hooks) {
    auto request = make_request(*study, setup);
    if (!request) return request.errors();
    request->stop = stop;
    Reporter reporter(study, hooks);
    request->progress = [&reporter](const SearchProgress& progress) { reporter(progress); };
    auto answer = find_plans(study->environment, *request);
    if (!answer) return answer.errors();
    FoundPlans found;
    found.statistics = std::move(answer->search);
    found.missing = std::move(answer->missing);
    found.plans = entries_of(study, answer->plans);
    if (hooks.best) hooks.best(found.plans, true);
    // The trade-off between time and memory, for the scatter: plans that are slower and need less.
    if (request->objective == Objective::Time && !found.plans.empty() && !found.statistics.interrupted) {
        request->objective = Objective::Pareto;
        // Long where little can be pruned: ended after so many rounds, which do not depend on threads.
        constexpr int kRounds = 100;
        std::atomic<bool> enough{false};
        int rounds = 0;
        request->stop = &enough;
        request->progress = [&](const SearchProgress&) {
            if (++rounds >= kRounds || stopped(stop)) enough = true;
        };
        const auto front = find_plans(study->environment, *request);
        for (std::size_t i = 0; front && i < front->plans.size(); ++i) {
            // The search for the trade-off may end early: what a plan that was found beats is none of it.
            const Evaluation& e = front->plans[i].evaluation;
            const bool beaten = std::ranges::any_of(found.plans, [&](const PlanEntry& entry) {
                return entry.plan == front->plans[i].plan ||
                       (entry.evaluation.step_time <= e.step_time &&
                        entry.evaluation.peak_device_bytes <= e.peak_device_bytes);
            });
            constexpr double kSlowest = 3;  // times the best: nobody trades that much
            const double step = seconds(e);
            if (beaten || step > kSlowest * found.plans.front().step_s()) continue;
            found.plans.push_back(entry_of(study, front->plans[i]));
            found.plans.back().front = true;
        }
        request->objective = Objective::Time;
        request->progress = nullptr;
        request->stop = stop;
    }
    for (PlanEntry& entry : found.plans) {
        if (stopped(stop)) break;
        if (auto report = report_plan(*study, entry.plan)) entry.report = *report;
    }
    if (stopped(stop)) return found;
    constexpr std::size_t kInfeasible = 60;
    for (InfeasiblePlan& plan : infeasible_plans(*study->simulator, *request, kInfeasible, stop)) {
        PlanEntry entry;
        entry.origin = PlanOrigin::Infeasible;
        entry.study = study;
        entry.plan = std::move(plan.plan);
        entry.evaluation.peak_device_bytes = plan.peak_device_bytes;
        entry.evaluation.fits = false;
        entry.errors = std::move(plan.errors);
        found.infeasible.push_back(std::move(entry));
    }
    return found;
}

Result<Explanation> explain_plan(const Study& study, const SimulationReport& base, StopFlag stop,
                                 const std::function<void(double share)>& progress) {
    const Environment& environment = *study.environment;
    Explanation out;
    const auto more = hardware_changes(environment, 1.1), twice = hardware_changes(environment, 2);
    const auto changes = single_changes(*study.simulator, base.plan, framework_of(base.plan));
    const auto total = static_cast<double>(more.size() + twice.size() + changes.size());
    double done = 0;
    const auto hardware = [&](const std::vector<HardwareChange>& list,
                              std::vector<Alternative>& to) -> Status {
        for (const HardwareChange& change : list) {
            if (stopped(stop)) return ok();
            const auto evaluation = Simulator(change.environment).evaluate(base.plan);
            if (!evaluation) return evaluation.errors();
            const double step = seconds(*evaluation);
            to.push_back({change.what, std::nullopt, step, step / base.step_time_s - 1,
                          evaluation->peak_device_bytes, evaluation->fits, false, ""});
            if (progress) progress(++done / total);
        }
        std::stable_sort(to.begin(), to.end(),
                         [](const Alternative& a, const Alternative& b) { return a.step_s < b.step_s; });
        return ok();
    };
    if (const Status status = hardware(more, out.sensitivities); !status) return status.errors();
    if (const Status status = hardware(twice, out.doubled); !status) return status.errors();
    for (const PlanChange& change : changes) {
        if (stopped(stop)) return out;
        const auto other = study.simulator->simulate(change.plan);
        if (progress) progress(++done / total);
        if (!other) continue;  // a cost-driven order that cannot be made
        Alternative a{change.what,
                      change.plan,
                      other->step_time_s,
                      other->step_time_s / base.step_time_s - 1,
                      other->peak_device_bytes,
                      other->fits,
                      false,
                      main_difference(base, *other)};
        a.tied =
            std::abs(other->step_time_s - base.step_time_s) <
            sigma_of_difference(other->uncertainty, base.uncertainty, same_kernels(change.plan, base.plan));
        out.neighbours.push_back(std::move(a));
    }
    std::stable_sort(out.neighbours.begin(), out.neighbours.end(),
                     [](const Alternative& a, const Alternative& b) {
                         return a.fits != b.fits ? a.fits : a.step_s < b.step_s;
                     });
    return out;
}

std::string to_string(const WhatIf& change) {
    std::string text;
    const auto say = [&](std::string what) { text += (text.empty() ? "" : ", ") + std::move(what); };
    if (change.lost_nodes > 0)
        say(fmt::format("{} node{} fewer", change.lost_nodes, change.lost_nodes == 1 ? "" : "s"));
    if (change.nics != 1) say(format_exact(change.nics) + "x NICs");
    if (change.nic_speed != 1) say(format_exact(change.nic_speed) + "x NIC rate");
    if (change.link_speed != 1) say(format_exact(change.link_speed) + "x links inside a node");
    if (change.memory != 1) say(format_exact(change.memory) + "x device memory");
    if (change.compute != 1) say(format_exact(change.compute) + "x matrix products");
    if (change.price != 1) say(format_exact(change.price) + "x price");
    return text.empty() ? "nothing changed" : text;
}

namespace {

Result<Cluster> changed_cluster(Cluster cluster, const WhatIf& change) {
    int lose = change.lost_nodes;
    for (auto group = cluster.groups.rbegin(); group != cluster.groups.rend() && lose > 0; ++group) {
        const int here = std::min(lose, group->nodes);
        group->nodes -= here;
        lose -= here;
    }
    std::erase_if(cluster.groups, [](const NodeGroup& group) { return group.nodes == 0; });
    if (cluster.groups.empty() || lose > 0)
        return Error{ErrorCode::Usage, fmt::format("{} nodes are all there are", change.lost_nodes),
                     "lose nodes", "fewer than the cluster has"};
    for (NodeGroup& group : cluster.groups) {
        group.type.nics = std::max(group.type.nics > 0 ? 1 : 0,
                                   static_cast<int>(std::lround(group.type.nics * change.nics)));
        group.type.nic_bandwidth.value *= change.nic_speed;
        group.type.usd_per_device_hour *= change.price;
    }
    return cluster;
}

// Figures that the profile's curves follow, one after the other.
std::shared_ptr<const Environment> changed_environment(std::shared_ptr<const Environment> environment,
                                                       const WhatIf& change) {
    const std::pair<double, std::string_view> factors[] = {{change.compute, "matrix products"},
                                                           {change.memory, "device memory"},
                                                           {change.link_speed, "links inside"}};
    for (const auto& [factor, name] : factors) {
        if (factor == 1) continue;
        for (const HardwareChange& one : hardware_changes(*environment, factor)) {
            const bool larger = name != "device memory" || one.what.ends_with("as large");
            if (one.what.starts_with(name) && larger) {
                environment = one.environment;
                break;
            }
        }
    }
    return environment;
}

}  // namespace

Result<WhatIfAnswer> what_if(const Study& study, const ParallelPlan& plan, const WhatIf& change) {
    auto cluster = changed_cluster(study.document.cluster, change);
    if (!cluster) return cluster.errors();
    WhatIfAnswer answer;
    answer.plan = plan;
    if (cluster->devices() != plan.mesh.devices()) {
        ParallelPlan& p = answer.plan;
        const int devices = cluster->devices();
        int dp = devices / (p.mesh.tp * p.mesh.pp * p.mesh.cp);
        while (dp > 0 && p.global_batch % (std::int64_t{dp} * p.microbatch) != 0)
            --dp;
        if (dp == 0)
            return Error{
                ErrorCode::Infeasible,
                fmt::format("no dp of {} devices / (tp {} x pp {} x cp {}) divides the global batch of {}",
                            devices, p.mesh.tp, p.mesh.pp, p.mesh.cp, p.global_batch),
                "dp", "search anew on the smaller cluster"};
        p.mesh.dp = dp;
        p.microbatches = p.global_batch / (std::int64_t{dp} * p.microbatch);
        p.order.clear();
        if (p.zero_shard > dp * p.mesh.cp) p.zero_shard = 0;
        answer.notes.push_back(fmt::format("dp {} -> {}, {} -> {} microbatches", plan.mesh.dp, dp,
                                           plan.microbatches, p.microbatches));
        if (p.mesh.devices() < devices) {
            answer.notes.push_back(fmt::format("{} of {} devices idle", devices - p.mesh.devices(), devices));
            // The plan is simulated on the nodes that it uses.
            const int per_node = cluster->groups.front().type.devices;
            if (cluster->uniform() && p.mesh.devices() % per_node == 0)
                cluster->groups.front().nodes = p.mesh.devices() / per_node;
        }
    }
    assign_node_groups(*cluster, answer.plan);
    auto other = with_cluster(study, std::move(*cluster));
    if (!other) return other.errors();
    auto changed = std::make_shared<Study>(**other);
    changed->environment = changed_environment(changed->environment, change);
    changed->document.cluster = changed->environment->cluster;
    changed->simulator = std::make_shared<const Simulator>(changed->environment);
    auto report = report_plan(*changed, answer.plan);
    if (!report) return report.errors();
    answer.study = changed;
    answer.report = *report;
    return answer;
}

Result<Cluster> self_contained_cluster(const Study& study) {
    Cluster cluster = study.document.cluster;
    const std::vector<HardwareProfile>& profiles = study.environment->profiles;
    const auto loaded = make_environment(study.document.graph, cluster);
    if (loaded && (*loaded)->profiles == profiles) return cluster;
    if (!std::ranges::all_of(profiles, [&](const HardwareProfile& p) { return p == profiles.front(); }))
        return Error{ErrorCode::Usage,
                     "the changed curves of several kinds of devices do not go into one document", "cluster",
                     "change the NICs, or nodes of one kind"};
    cluster.profile = encode_profile(profiles.front()).dump();
    return cluster;
}

Errors check_entry(const Study& study, const ParallelPlan& plan) {
    return check_plan(study.document.graph, study.document.cluster, plan).errors;
}

}  // namespace tw::gui
