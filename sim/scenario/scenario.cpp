#include "sim/scenario/scenario.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "plan/check_plan.hpp"
#include "plan/gradient_sync/gradient_sync.hpp"
#include "sim/cost/shape_cost.hpp"
#include "sim/scenario/asynchronous.hpp"
#include "sim/scenario/durations.hpp"
#include "sim/scenario/plan_flows.hpp"
#include "sim/scenario/slow_network.hpp"
#include "sim/scenario/waits.hpp"

namespace tw {
namespace {

// A rank stands out where the others idle for its sake at least this share of a clean step.
constexpr double kNotableShare = 0.01;
// Ranks whose waits are within this share of the spread of all waits are equally late at collectives.
constexpr double kLateShare = 0.1;

// Nodes times steps that are simulated at once: 20 bytes each.
constexpr std::int64_t kMaxNodeSteps = 200'000'000;
// Instructions of all programs together: compiling takes about 120 bytes each.
constexpr std::int64_t kMaxInstructions = 60'000'000;

double seconds(SimTime t) {
    return to_seconds(t).value;
}

// One run of a plan: healthy machines, or a scenario's.
struct Machines {
    std::vector<double> step_s;
    double mean_step_s = 0;
    std::vector<SimTime> busy, waits;  // by program and member, sums over the measured steps
    int measured = 1;
    EventCounts counts;
    // No step is shorter.
    void at_least(double least_s) {
        for (double& step : step_s)
            step = std::max(step, least_s);
        mean_step_s = std::max(mean_step_s, least_s);
    }
    [[nodiscard]] double mean(const std::vector<SimTime>& sums, std::size_t i) const {
        return seconds(sums[i]) / measured;
    }
};

// Programs that were simulated together, and how long a step of theirs took.
struct Part {
    Expansion expansion;
    Machines machines;
    double step_s = 0;
};

// Do replicas wait for no other one?
bool steps_apart(const ParallelPlan& plan) {
    const auto sync = find_gradient_sync(plan.gradient_sync);
    return sync && (*sync)->info().semantics == Semantics::Asynchronous;
}

// Steps before the period settles: one behind a barrier, as deep as the pipeline where ranks go on by
// themselves.
int warm_up(const CompiledSchedule& c) {
    if (c.boundary == StepBoundary::None) return 0;
    return c.boundary == StepBoundary::Barrier ? 1 : std::min(c.pipeline_ranks + 1, 16);
}

Machines run_machines(const Schedule& schedule, const CompiledSchedule& compiled, const CostTable& table,
                      const FlowTable* flows, const ScenarioDurations& durations, int steps, bool alike) {
    const bool endless = compiled.boundary == StepBoundary::None;
    const int first = warm_up(compiled);
    const int total = endless ? 1 : first + steps;
    std::vector<std::vector<SimTime>> nodes(static_cast<std::size_t>(alike ? 1 : total));
    std::vector<StepCosts> costs;
    Machines result;
    MemberTimes measured;
    for (int s = 0; s < total; ++s) {
        std::vector<SimTime>& here = nodes[alike ? 0 : static_cast<std::size_t>(s)];
        MemberTimes times;
        if (s == 0 || !alike) durations.fill(s, here, s < first && !alike ? times : measured);
        costs.push_back({&table, here});
    }
    EventEngine engine(compiled, flows);
    EventRun run;
    engine.run(costs, run);
    result.counts = run.counts;

    const std::vector<SimTime>& ends = run.times.step_end;
    if (endless) {  // without the start-up and the drain, as run_engine measures the period
        const std::size_t last = ends.size() >= 4 ? ends.size() - 2 : ends.size() - 1;
        for (std::size_t s = ends.size() >= 4 ? 2 : 1; s <= last; ++s)
            result.step_s.push_back(seconds(ends[s] - ends[s - 1]));
        result.measured = compiled.steps;
    } else {
        for (std::size_t s = static_cast<std::size_t>(first); s < ends.size(); ++s)
            result.step_s.push_back(seconds(ends[s] - ends[s - 1]));
        result.measured = steps;
    }
    result.mean_step_s = std::accumulate(result.step_s.begin(), result.step_s.end(), 0.0) /
                         static_cast<double>(result.step_s.size());
    const auto members = static_cast<std::size_t>(durations.member_count());
    const int repeats = alike && !endless ? steps : 1;
    result.busy = measured.busy;
    result.waits = measured.lockstep;
    for (std::size_t i = 0; i < result.busy.size(); ++i) {
        result.busy[i] *= repeats;
        result.waits[i] *= repeats;
    }
    for (int s = first; s < total; ++s) {
        const std::vector<SimTime> waits =
            collective_waits(schedule, compiled, run.step(static_cast<std::size_t>(s)));
        for (std::size_t i = 0; i < result.waits.size(); ++i)
            result.waits[i] += waits[i / members];
    }
    return result;
}

// SimTime holds 106 days: a run of every step as the slowest rank and the slowest interface make it, with
// draws of jitter 3.5 deviations out, stays within 23 of them; the rest is for what shares a link.
Status check_length(double clean_step_s, int steps, const Scenario& scenario) {
    constexpr double kLongestRun = 2e6, kFarDraw = 3.5;
    double factor = 1, rate = 1, delays_s = 0;
    for (const Scenario::SlowRank& slow : scenario.slow_ranks)
        factor = std::max(factor, slow.time_factor);
    for (const Scenario::SlowNic& slow : scenario.slow_nics)
        rate = std::min(rate, slow.rate_factor);
    for (const Scenario::Delay& delay : scenario.delays)
        delays_s += delay.seconds;
    const double sigma = std::max(scenario.jitter.compute_sigma, scenario.jitter.communication_sigma);
    const double jitter = std::exp(kFarDraw * std::sqrt(std::log1p(sigma * sigma)));
    const double run_s = steps * (clean_step_s * factor / rate * jitter + delays_s);
    if (run_s <= kLongestRun) return ok();
    return Error{ErrorCode::Usage,
                 fmt::format("{} steps may take {:.0f} days, at most {:.0f} are simulated", steps,
                             run_s / 86400, kLongestRun / 86400),
                 "scenario", "fewer steps, or less that slows them"};
}

std::vector<int> conditions_of(const RankConditions& ranks, const NicTable& nics) {
    std::map<std::tuple<double, SimTime, SimTime, int, double>, int> known = {{{1, 0, 0, 0, 1}, 0}};
    std::vector<int> conditions;
    for (std::size_t r = 0; r < ranks.time_factor.size(); ++r) {
        const int rank = static_cast<int>(r);
        const std::tuple key{ranks.time_factor[r], ranks.forward_delay[r], ranks.backward_delay[r],
                             nics.role(rank), nics.rate_of(rank)};
        conditions.push_back(known.try_emplace(key, static_cast<int>(known.size())).first->second);
    }
    return conditions;
}

bool any_rewired(const RankConditions& ranks, const NicTable& nics) {
    for (std::size_t r = 0; r < ranks.time_factor.size(); ++r) {
        const int rank = static_cast<int>(r);
        if (nics.role(rank) != 0 || nics.rate_of(rank) != 1) return true;
    }
    return false;
}

// The rank that all others wait for: latest at collectives; of equally late ones (a replica's whole pipeline
// is late where one of its stages is slow) the one that idles least. Waits and idle times are those beyond
// the clean run's, so that a pipeline's own bubbles name nobody. A rank counts as often as there are replicas
// that fare like it.
void name_straggler(ScenarioResult& result) {
    const std::vector<ScenarioRank>& ranks = result.ranks;
    if (ranks.size() < 2) return;
    const auto by_wait = [](const ScenarioRank& a, const ScenarioRank& b) {
        return a.excess_wait_s < b.excess_wait_s;
    };
    const auto [least, most] = std::minmax_element(ranks.begin(), ranks.end(), by_wait);
    const double late = least->excess_wait_s + kLateShare * (most->excess_wait_s - least->excess_wait_s);
    const ScenarioRank* found = nullptr;
    std::vector<std::pair<double, int>> idle;
    int all = 0;
    for (const ScenarioRank& rank : ranks) {
        idle.emplace_back(rank.excess_idle_s, rank.alike);
        all += rank.alike;
        if (rank.excess_wait_s <= late && (found == nullptr || rank.excess_idle_s < found->excess_idle_s))
            found = &rank;
    }
    std::sort(idle.begin(), idle.end());
    std::size_t middle = 0;
    for (int before = idle[0].second; before <= all / 2; before += idle[middle].second)
        ++middle;
    const double median = idle[middle].first;
    if (median - found->excess_idle_s < kNotableShare * result.clean_step_s) return;
    result.straggler = found->rank;
    result.straggler_delay_s = median - found->excess_idle_s;
}

}  // namespace

Result<ScenarioResult> simulate_scenario(const Simulator& simulator, const ParallelPlan& plan,
                                         const Scenario& scenario) {
    const Environment& environment = simulator.environment();
    PlanCheck check = check_plan(environment.graph, environment.cluster, plan);
    if (!check.errors.empty()) return check.errors;
    auto prepared = simulator.prepare(plan);
    if (!prepared) return prepared.errors();
    const Schedule& schedule = prepared->lowered->schedule;
    const RankPlacement placement = place_plan(environment.cluster, plan);
    const Topology topology(environment.cluster);

    // PipeDream's replicated stages make more pipeline ranks than the mesh has.
    const int world = schedule.ranks() * plan.mesh.tp * plan.mesh.cp * plan.mesh.dp;
    if (world > topology.ranks()) {
        return Error{ErrorCode::Usage,
                     "the plan uses " + std::to_string(world) + " devices, the cluster has " +
                         std::to_string(topology.ranks()),
                     "cluster", ""};
    }
    Errors errors;
    const RankConditions ranks(environment.cluster, world, scenario, errors);
    const NicTable nics(environment.cluster, topology, scenario, errors);
    if (!scenario.contention && !(scenario.slow_nics.empty() && scenario.dead_nics.empty())) {
        errors.push_back({ErrorCode::Usage,
                          "slow_nics and dead_nics change no transfer and no gradient without contention",
                          "scenario", "\"contention\": true, or neither of them"});
    }
    if (!errors.empty()) return errors;

    const Scenario healthy;
    Errors none;
    const RankConditions healthy_ranks(environment.cluster, world, healthy, none);
    const NicTable healthy_nics(environment.cluster, topology, healthy, none);
    const auto run = [&](const CompiledSchedule& compiled, const Expansion& expansion,
                         const RankConditions& conditions, const NicTable& network, const Scenario& what,
                         int steps) {
        CostTable table = prepared->costs->table(schedule, compiled);
        slow_stage_collectives(environment, plan, *prepared->costs, schedule, compiled, network, expansion,
                               table);
        const ScenarioDurations durations(schedule, compiled, table, expansion, conditions, what);
        std::optional<FlowTable> flows;
        if (scenario.contention) {
            flows.emplace(plan_flows(environment, plan, *prepared->costs, schedule, compiled, table, topology,
                                     network, expansion));
        }
        return run_machines(schedule, compiled, table, flows ? &*flows : nullptr, durations, steps,
                            !what.jitter.any());
    };

    ScenarioResult result;
    EngineWorkspace workspace;
    const CompiledSchedule& alone = prepared->lowered->compiled;
    result.nominal_step_s =
        seconds(run_engine(schedule, alone, prepared->costs->table(schedule, alone), workspace).period);
    const Expansion one(plan, placement, schedule.ranks(),
                        std::vector<int>(static_cast<std::size_t>(world), 0), false, false);
    const double least_s = seconds(prepared->costs->least_period(schedule));
    Machines clean = run(alone, one, healthy_ranks, healthy_nics, healthy, 1);
    clean.at_least(least_s);
    result.clean_step_s = clean.mean_step_s;

    const Expansion expansion(plan, placement, schedule.ranks(), conditions_of(ranks, nics),
                              scenario.all_ranks || scenario.jitter.any(),
                              scenario.all_ranks || any_rewired(ranks, nics));
    std::optional<CompiledSchedule> expanded;
    const std::int64_t instructions =
        static_cast<std::int64_t>(schedule.instruction_count()) * expansion.replication().count();
    if (instructions > kMaxInstructions) {
        return Error{ErrorCode::Usage,
                     std::to_string(expansion.programs()) + " programs of together " +
                         std::to_string(instructions) + " instructions do not fit in memory",
                     "scenario",
                     "at most " + std::to_string(kMaxInstructions) + "; fewer microbatches, or no all_ranks"};
    }
    const bool apart = steps_apart(plan) && expansion.data_replicas() > 1;
    const Replication together = apart ? expansion.only(0).replication() : expansion.replication();
    if (together.count() > 1) {
        auto compiled = compile_schedule(schedule, together);
        if (!compiled) return compiled.errors();
        expanded = std::move(*compiled);
    }
    const CompiledSchedule& compiled = expanded ? *expanded : alone;
    const auto most_steps =
        kMaxNodeSteps / static_cast<std::int64_t>(compiled.time_entries()) - warm_up(compiled);
    if (scenario.steps > most_steps) {
        return Error{ErrorCode::Usage,
                     std::to_string(scenario.steps) + " steps of " + std::to_string(expansion.programs()) +
                         " programs do not fit in memory",
                     "scenario",
                     most_steps > 0 ? "at most " + std::to_string(most_steps) + " steps" : "a smaller plan"};
    }
    const int simulated = std::max(alone.steps, warm_up(alone) + scenario.steps);
    if (const Status length = check_length(clean.mean_step_s, simulated, scenario); !length)
        return length.errors();
    const bool healthy_too = ranks.healthy() && scenario.slow_nics.empty() && scenario.dead_nics.empty() &&
                             !scenario.jitter.any() && !scenario.all_ranks && scenario.steps == 1;
    std::vector<Part> parts;
    if (apart) {
        const int bound = plan.gradient_sync_options.staleness;
        std::vector<std::vector<double>> own;
        std::vector<int> alike;
        for (int i = 0; i < expansion.data_replicas(); ++i) {
            Part part{expansion.only(i), {}, 0};
            part.machines = run(compiled, part.expansion, ranks, nics, scenario, scenario.steps);
            own.push_back(part.machines.step_s);
            alike.push_back(part.expansion.alike(0));
            part.machines.at_least(least_s);
            part.step_s = part.machines.mean_step_s;
            parts.push_back(std::move(part));
        }
        result.step_s = asynchronous_steps(own, alike, bound, least_s);
        result.mean_step_s = std::accumulate(result.step_s.begin(), result.step_s.end(), 0.0) /
                             static_cast<double>(result.step_s.size());
        for (Part& part : parts)  // within a bound the fast ones wait
            part.step_s = bound < 0 ? part.step_s : result.mean_step_s;
    } else {
        Machines real = healthy_too ? clean : run(compiled, expansion, ranks, nics, scenario, scenario.steps);
        real.at_least(least_s);
        result.step_s = real.step_s;
        result.mean_step_s = real.mean_step_s;
        parts.push_back({expansion, std::move(real), result.mean_step_s});
    }
    result.max_step_s = *std::max_element(result.step_s.begin(), result.step_s.end());
    result.slowdown = result.mean_step_s / result.clean_step_s;
    result.symmetry = expansion.describe();
    result.programs = expansion.programs();
    const auto clean_members = clean.busy.size() / static_cast<std::size_t>(alone.ranks);
    EventCounts counts;
    for (const Part& part : parts) {
        const Machines& real = part.machines;
        counts.flows += real.counts.flows;
        counts.slowed += real.counts.slowed;
        result.events += real.counts.events();
        const auto members = real.busy.size() / static_cast<std::size_t>(compiled.ranks);
        for (std::size_t i = 0; i < real.busy.size(); ++i) {
            const int program = static_cast<int>(i / members);
            const std::size_t reference =
                static_cast<std::size_t>(program % compiled.pipeline_ranks) * clean_members;
            ScenarioRank rank;
            rank.rank = part.expansion.member_of(program, static_cast<int>(i % members));
            rank.pipeline_rank = program % compiled.pipeline_ranks;
            rank.alike = part.expansion.alike(program);
            rank.busy_s = real.mean(real.busy, i);
            rank.idle_s = part.step_s - rank.busy_s;
            rank.wait_s = real.mean(real.waits, i);
            rank.excess_wait_s = rank.wait_s - clean.mean(clean.waits, reference);
            rank.excess_idle_s = rank.idle_s - (result.clean_step_s - clean.mean(clean.busy, reference));
            result.ranks.push_back(rank);
        }
    }
    result.slowed_share =
        counts.flows > 0 ? static_cast<double>(counts.slowed) / static_cast<double>(counts.flows) : 0;
    std::sort(result.ranks.begin(), result.ranks.end(),
              [](const ScenarioRank& a, const ScenarioRank& b) { return a.rank < b.rank; });
    name_straggler(result);
    return result;
}

}  // namespace tw
