#include "sim/simulator.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include <fmt/format.h>

#include "plan/check_plan.hpp"
#include "plan/lower_plan.hpp"
#include "plan/plan_order.hpp"
#include "plan/schedule/placement.hpp"
#include "sim/memory/ledger.hpp"
#include "sim/report/make_report.hpp"

namespace tw {

StageCosts generator_costs(const Environment& environment, const ParallelPlan& plan, const PlanCost& costs,
                           std::span<const std::uint16_t> rank_of_stage, const GeneratorInfo& info) {
    StageCosts result = costs.stage_costs();
    if (info.uses_memory_limit)
        result.memory_limit_bytes = activation_limits(environment, plan, costs, rank_of_stage);
    return result;
}

Result<Simulator::Prepared> Simulator::order(const ParallelPlan& plan) const {
    const auto generator = find_schedule(plan.schedule);
    if (!generator) return generator.errors();
    const ScheduleShape shape = schedule_shape(plan);
    if (Errors errors = (*generator)->check(shape); !errors.empty()) return errors;

    Prepared prepared;
    const std::vector<std::uint16_t> ranks = rank_of_stage(**generator, shape);
    prepared.costs = std::make_unique<PlanCost>(*environment_, plan, ranks, shapes_);
    // SimTime holds 106 days; a rank that works longer than 10 on one step is no plan, nor are stages that
    // take 40 one after the other.
    constexpr double kLongestStep = 864000.0, kLongestStages = 4 * kLongestStep;
    double stages_s = 0;
    for (int s = 0; s < prepared.costs->stages(); ++s) {
        const StageCostSet& stage = prepared.costs->stage(s);
        const double work =
            to_seconds(stage.forward.device_time()).value + to_seconds(stage.backward.device_time()).value;
        const double transfers =
            stage.gradient_sync.seconds + stage.send_activation.seconds + stage.send_gradient.seconds;
        const double step = (work + transfers) * static_cast<double>(plan.microbatches) * plan.virtual_stages;
        if (step > kLongestStep) {
            return Error{ErrorCode::Usage,
                         fmt::format("one step would keep a device busy for {:.0f} days", step / 86400.0),
                         summary(plan), "a smaller global batch or shorter sequences"};
        }
        stages_s += step / plan.virtual_stages;
    }
    if (stages_s > kLongestStages) {
        return Error{ErrorCode::Usage,
                     fmt::format("the stages of one step add up to {:.0f} days", stages_s / 86400.0),
                     summary(plan), "a smaller global batch or shorter sequences"};
    }
    if (!plan.order.empty()) {  // a few plans that were read, not searched: not worth a place in the cache
        auto order = plan_order(plan);
        if (!order) return order.errors();
        prepared.ordered = ordered_schedule(plan.schedule, std::move(*order));
        return prepared;
    }
    const GeneratorInfo info = (*generator)->info();
    StageCosts costs;
    if (info.uses_costs) costs = generator_costs(*environment_, plan, *prepared.costs, ranks, info);
    auto ordered = schedules_.order(plan.schedule, shape, info.uses_costs ? &costs : nullptr);
    if (!ordered) return ordered.errors();
    prepared.ordered = std::move(*ordered);
    return prepared;
}

Status Simulator::lower(const ParallelPlan& plan, Prepared& prepared) const {
    LoweringOptions options = lowering_options(environment_->graph, plan, prepared.costs->parameters());
    options.collectives_on_compute = prepared.costs->shape(0).executor;
    auto lowered = schedules_.lowered(prepared.ordered, options);
    if (!lowered) return lowered.errors();
    prepared.lowered = std::move(*lowered);
    return ok();
}

Result<Simulator::Prepared> Simulator::prepare(const ParallelPlan& plan) const {
    auto prepared = order(plan);
    if (!prepared) return prepared;
    if (Status lowered = lower(plan, *prepared); !lowered) return lowered.errors();
    return prepared;
}

namespace {

// What no curve holds: gaps between kernels, the framework's own bookkeeping, the data it waits for. Calculon
// with efficiencies measured kernel by kernel predicts Megatron's step times to 3.65 % on average (Isaev et
// al. 2023, section 4.1); 1.25 times the mean error. How much of it every plan shares is not known: half of
// the variance.
constexpr double kFrameworkSigma = 0.046;

}  // namespace

Uncertainty step_uncertainty(const ParallelPlan& plan, const PlanCost& costs, const Schedule& schedule,
                             SimTime step_time) {
    std::vector<Uncertainty> by_rank(static_cast<std::size_t>(schedule.ranks()));
    std::vector<double> busy(by_rank.size(), 0), host(by_rank.size(), 0), dispatch(by_rank.size(), 0);
    const std::vector<int> chunks = backward_chunks(schedule);
    for (int s = 0; s < costs.stages(); ++s) {
        const StageCostSet& c = costs.stage(s);
        const auto r = static_cast<std::size_t>(schedule.rank_of_stage[static_cast<std::size_t>(s)]);
        const auto m = static_cast<double>(plan.microbatches);
        by_rank[r].add(c.forward.uncertainty, m);
        by_rank[r].add(c.backward.uncertainty, m);
        by_rank[r].add(ErrorSource::Update, c.optimizer_sigma_s);
        host[r] += m * to_seconds(c.forward.host_time() + c.backward.host_time()).value;
        dispatch[r] += m * (c.forward.dispatch_s + c.backward.dispatch_s);
        // Of an overlapped synchronisation the last chunk is left to wait for.
        const double shown = plan.overlap.grad_reduce       ? 1.0 / chunks[static_cast<std::size_t>(s)]
                             : syncs_every_microbatch(plan) ? m
                                                            : 1.0;
        by_rank[r].add(c.gradient_sync.source, c.gradient_sync.sigma_s * shown);
        by_rank[r].add(c.average.source, c.average.sigma_s);
        // Of a gather beside the forward, what the forward waits for.
        const double waited =
            c.parameter_gather.seconds > 0 ? costs.waited_gather(s) / c.parameter_gather.seconds : 1.0;
        by_rank[r].add(c.parameter_gather.source, c.parameter_gather.sigma_s * waited);
        busy[r] += m * to_seconds(c.forward.device_time() + c.backward.device_time()).value + c.optimizer_s +
                   c.average.seconds;
    }
    Uncertainty result;
    double longest = 0;
    for (std::size_t r = 0; r < busy.size(); ++r) {
        const double length = std::max(busy[r], host[r]);
        if (length <= longest) continue;
        longest = length;
        // What a host that is slower by one standard deviation would add: not to what it waits for the
        // device.
        by_rank[r].add(ErrorSource::Host,
                       std::max(0.0, host[r] + dispatch[r] * costs.dispatch_sigma() - length));
        const double framework = kFrameworkSigma * length / std::sqrt(2.0);
        by_rank[r].add(ErrorSource::Framework, framework, framework);
        result = by_rank[r];
        result.scale(to_seconds(step_time).value / length);
    }
    return result;
}

bool same_kernels(const ParallelPlan& a, const ParallelPlan& b) {
    const auto shape = [](const ParallelPlan& p) {
        return std::tuple(p.mesh.tp, p.mesh.cp, p.mesh.ep, p.mesh.etp, p.microbatch, p.sequence_parallel,
                          p.attention, p.precision.compute);
    };
    return shape(a) == shape(b);
}

Result<Evaluation> Simulator::evaluate(const ParallelPlan& plan, bool only_if_it_fits) const {
    auto prepared = order(plan);
    if (!prepared) return prepared.errors();
    Evaluation e;
    const auto remember = [&](std::span<const RankMemoryProfile> profiles) {
        const MemoryTotals memory =
            memory_totals(plan, memory_base(*environment_, plan, *prepared->costs,
                                            prepared->ordered->order.rank_of_stage, profiles));
        e.peak_allocated_bytes = memory.allocated;
        e.peak_reserved_bytes = memory.reserved;
        e.peak_device_bytes = memory.device;
        e.required_bytes = memory.required;
        e.fits = memory.fits;
    };
    // Known before lowering, unless passes stash weights or offload activations.
    const bool final = prepared->ordered->order.boundary != StepBoundary::None && !plan.offload_activations;
    if (final) remember(prepared->ordered->memory);
    if (only_if_it_fits && !e.fits) return e;
    if (Status lowered = lower(plan, *prepared); !lowered) return lowered.errors();
    const LoweredSchedule& lowered = *prepared->lowered;
    if (!final) remember(lowered.memory);
    if (only_if_it_fits && !e.fits) return e;
    thread_local EngineWorkspace workspace;
    e.step_time = run_engine(lowered.schedule, lowered.compiled,
                             prepared->costs->table(lowered.schedule, lowered.compiled), workspace)
                      .period;
    e.uncertainty = step_uncertainty(plan, *prepared->costs, lowered.schedule, e.step_time);
    e.sigma_s = e.uncertainty.sigma();
    return e;
}

Result<SimulationReport> Simulator::simulate(const ParallelPlan& plan, const SimulateOptions& options) const {
    const PlanCheck check = check_plan(environment_->graph, environment_->cluster, plan);
    if (!check.errors.empty()) return check.errors;
    auto prepared = prepare(plan);
    if (!prepared) return prepared.errors();
    SimulationReport report = make_report(*environment_, plan, *prepared->costs, *prepared->lowered, options);
    if ((*find_schedule(plan.schedule))->info().uses_costs && plan.order.empty())
        report.plan.order = order_rows(prepared->ordered->order);
    report.warnings.insert(report.warnings.begin(), check.warnings.begin(), check.warnings.end());
    return report;
}

}  // namespace tw
