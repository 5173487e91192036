#include "sim/report/make_report.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "plan/trace/analyze.hpp"
#include "plan/trace/rendezvous.hpp"
#include "sim/memory/ledger.hpp"
#include "sim/report/flop_convention.hpp"
#include "sim/report/fullest_rank.hpp"
#include "sim/report/layer_collectives.hpp"
#include "sim/report/trace_labels.hpp"
#include "sim/simulator.hpp"

namespace tw {
namespace {

double seconds(SimTime t) {
    return to_seconds(t).value;
}

// The period with the durations of the classes that `drop` names set to zero, of a host that dispatches in no
// time. Without a host at all the next step would not wait for a value that the host reads, the gradients'
// norm: another order, not a faster host.
template <class Drop>
SimTime period_without(const LoweredSchedule& lowered, CostTable table, Drop&& drop) {
    for (int r = 0; r < lowered.compiled.ranks; ++r) {
        for (std::size_t k = 0; k < lowered.schedule.duration_classes.size(); ++k) {
            if (!drop(lowered.schedule.duration_classes[k])) continue;
            if (lowered.schedule.duration_classes[k].opcode == Opcode::ReduceScatter) table.least_period = 0;
            table.duration[lowered.compiled.slot_of(r, static_cast<int>(k))] = 0;
        }
    }
    if (!table.dispatch.empty()) {
        std::fill(table.dispatch.begin(), table.dispatch.end(), 0);
        table.host_path = table.duration;
    }
    EngineWorkspace workspace;
    return run_engine(lowered.schedule, lowered.compiled, table, workspace).period;
}

void add_communication(SimulationReport& report, std::string kind, double total, double exposed, double bytes,
                       std::string_view algorithm) {
    if (total <= 0) return;
    // Differences of sums of rounded picoseconds are no exposure.
    const double rounding = 1e-9 * report.step_time_s;
    exposed = exposed < rounding ? 0.0 : std::min(exposed, total);
    report.communication.push_back({std::move(kind), total, exposed, bytes, std::string(algorithm)});
}

struct RankTotals {
    double forward = 0, backward = 0, recompute = 0, optimizer = 0;
    double slowed = 0, stash = 0;
    double average = 0;     // of parameters, behind the update (local SGD)
    double offload = 0;     // passes wait for activations on their way
    double on_compute = 0;  // collectives of the stage's gradients and parameters that run where it computes
    PhaseCost::Communication tp, cp, ep, dp;
    double exposed_overlap = 0;
    double transfers_s = 0, transfer_bytes = 0, sync_s = 0, sync_bytes = 0;
    std::string_view transfer_algorithm, sync_algorithm;
    // Of the compute stream, but for the collectives that compute waits for.
    [[nodiscard]] double kernels() const {
        return forward + backward + recompute + optimizer + slowed + stash + average + offload + on_compute;
    }
};

// How often a step runs each part of a stage. Zero-bubble orders split all backwards, DualPipeV some;
// PipeDream updates after every backward.
struct PhaseCounts {
    double forward = 0, backward = 0, backward_input = 0, backward_weight = 0;
    double later_chunks = 0;  // of cut backwards, beside which gradients are reduced
    double updates = 0, stashes = 0;
    double reductions = 0, gathers = 0;  // of all of the stage's gradients, of its parameters
};

// By stage, of one rank's program.
std::vector<PhaseCounts> phase_counts(const Schedule& schedule, const RankProgram& program,
                                      const std::vector<int>& chunks) {
    std::vector<PhaseCounts> counts(static_cast<std::size_t>(schedule.stages));
    const double once = 1.0 / schedule.steps;
    for (const Instruction& i : program.instructions) {
        PhaseCounts& stage = counts[i.stage];
        if (is_backward(i.opcode) && i.part > 1) {  // a further chunk of a backward that was counted
            stage.later_chunks += once;
            continue;
        }
        switch (i.opcode) {
            case Opcode::OverlapForwardBackward:
                counts[i.stage2].backward += once;
                [[fallthrough]];
            case Opcode::Forward:
                stage.forward += once;
                break;
            case Opcode::Backward:
                stage.backward += once;
                break;
            case Opcode::BackwardInput:
                stage.backward_input += once;
                break;
            case Opcode::BackwardWeight:
                stage.backward_weight += once;
                break;
            case Opcode::OptimizerStep:
                stage.updates += once;
                break;
            case Opcode::StashWeights:
                stage.stashes += once;
                break;
            case Opcode::AllReduce:
            case Opcode::ReduceScatter:
                // A group of pipeline ranks: a tied table's, or the replicas of a stage that never flushes.
                if (i.group == 0 || schedule.boundary == StepBoundary::None)
                    stage.reductions += once / chunks[i.stage];
                break;
            case Opcode::AllGather:
            case Opcode::Broadcast:
                stage.gathers += once;
                break;
            default:
                break;
        }
    }
    return counts;
}

std::vector<RankTotals> rank_totals(const PlanCost& costs, const Schedule& schedule,
                                    const CompiledSchedule& compiled, const CostTable& table) {
    const std::vector<int> chunks = backward_chunks(schedule);
    std::vector<RankTotals> ranks(static_cast<std::size_t>(schedule.ranks()));
    for (int r = 0; r < schedule.ranks(); ++r) {
        RankTotals& t = ranks[static_cast<std::size_t>(r)];
        const RankProgram& program = schedule.programs[static_cast<std::size_t>(r)];
        for (const Instruction& i : program.instructions) {
            if (i.stream == Stream::Compute && is_collective(i.opcode))
                t.on_compute +=
                    seconds(table.duration[compiled.slot_of(r, i.duration_class)]) / schedule.steps;
        }
        const std::vector<PhaseCounts> counts = phase_counts(schedule, program, chunks);
        for (const std::uint16_t s : schedule.stages_of_rank(r)) {
            const StageCostSet& c = costs.stage(s);
            const PhaseCounts& n = counts[s];
            const auto add_phase = [&](const PhaseCost& p, double times) {
                t.tp.add(p.tp, times);
                t.cp.add(p.cp, times);
                t.ep.add(p.ep, times);
                t.dp.add(p.dp, times);
                t.offload += times * p.offload_wait_s;
                t.exposed_overlap += times * p.exposed_overlap_s();
            };
            const auto add_backward = [&](const PhaseCost& p, double times) {
                t.recompute += times * p.recompute_s;
                t.backward += times * (p.kernel_s - p.recompute_s);
                add_phase(p, times);
            };
            t.forward += n.forward * c.forward.kernel_s;
            t.optimizer += n.updates * c.optimizer_s;
            t.slowed += n.later_chunks * c.gradient_sync.taken_s / chunks[s];
            t.stash += n.stashes * c.stash_s;
            t.average += n.updates * c.average.seconds;
            add_phase(c.forward, n.forward);
            add_backward(c.backward, n.backward);
            add_backward(c.backward_input, n.backward_input);
            add_backward(c.backward_weight, n.backward_weight);
            for (const TransferCost* x : {&c.send_activation, &c.send_gradient}) {
                t.transfers_s += n.forward * x->seconds;
                t.transfer_bytes += n.forward * x->bytes;
                if (x->seconds > 0) t.transfer_algorithm = x->algorithm;
            }
            t.sync_s += n.reductions * c.gradient_sync.seconds + n.gathers * c.parameter_gather.seconds;
            t.sync_bytes += n.reductions * c.gradient_sync.bytes + n.gathers * c.parameter_gather.bytes;
            t.sync_s += n.updates * c.average.seconds;
            t.sync_bytes += n.updates * c.average.bytes;
            if (c.gradient_sync.seconds > 0) t.sync_algorithm = c.gradient_sync.algorithm;
            if (c.average.seconds > 0) t.sync_algorithm = c.average.algorithm;
        }
    }
    return ranks;
}

}  // namespace

SimulationReport make_report(const Environment& environment, const ParallelPlan& plan, const PlanCost& costs,
                             const LoweredSchedule& lowered, const SimulateOptions& options) {
    const Schedule& schedule = lowered.schedule;
    const LayerGraph& graph = environment.graph;
    const CostTable table = costs.table(schedule, lowered.compiled);
    EngineWorkspace workspace;
    const StepTimes times = run_engine(schedule, lowered.compiled, table, workspace);

    SimulationReport report;
    report.plan = plan;
    report.boundary = schedule.boundary;
    report.step_time_s = seconds(times.period);
    report.uncertainty = step_uncertainty(plan, costs, schedule, times.period);
    report.step_time_sigma_s = report.uncertainty.sigma();
    report.makespan_s = seconds(times.makespan);
    if (!times.steady)
        report.warnings.emplace_back(
            "the last two periods differ between ranks: the step time is the longest of the last period");
    report.samples_per_s = static_cast<double>(plan.global_batch) / report.step_time_s;
    report.tokens_per_s =
        report.samples_per_s * (graph.counts_tokens ? static_cast<double>(plan.seq_len) : 1.0);
    if (!graph.counts_tokens) report.rate_unit = "images/s";

    report.model_flops = step_model_flops(graph, plan, FlopConvention::Causal).value();
    report.flop_convention = flop_convention_text(FlopConvention::Causal, graph);
    double recomputed_flops = 0;
    for (int s = 0; s < costs.stages(); ++s)
        recomputed_flops += costs.stage(s).backward.recompute_flops;
    report.hardware_flops = report.model_flops + recomputed_flops * static_cast<double>(plan.microbatches) *
                                                     plan.mesh.dp * plan.mesh.tp * plan.mesh.cp;
    const double peak = environment.peak(plan.precision.compute).value;
    if (peak > 0) {
        report.mfu = report.model_flops / report.step_time_s / peak;
        report.hfu = report.hardware_flops / report.step_time_s / peak;
    }

    const auto without = [&](auto&& drop) { return seconds(period_without(lowered, table, drop)); };
    const double no_host =
        table.dispatch.empty() ? report.step_time_s : without([](const DurationKey&) { return false; });
    const double host_s = std::max(0.0, report.step_time_s - no_host);
    const double exposed_pp =
        std::max(0.0, no_host - without([](const DurationKey& k) { return is_transfer(k.opcode); }));
    double exposed_offload = 0;
    if (plan.offload_activations) {
        exposed_offload = std::max(0.0, no_host - without([](const DurationKey& k) {
                                            return k.opcode == Opcode::Offload || k.opcode == Opcode::Reload;
                                        }));
    }
    const double exposed_dp =
        std::max(0.0, no_host - without([](const DurationKey& k) { return is_collective(k.opcode); }));

    const std::vector<SimTime> busy = busy_times(schedule, lowered.compiled, table);
    const std::vector<RankTotals> totals = rank_totals(costs, schedule, lowered.compiled, table);
    double idle_sum = 0;
    for (int r = 0; r < schedule.ranks(); ++r) {
        const RankTotals& t = totals[static_cast<std::size_t>(r)];
        RankReport rank;
        rank.rank = r;
        rank.busy_s = std::min(seconds(busy[static_cast<std::size_t>(r)]), report.step_time_s);
        rank.idle_s = report.step_time_s - rank.busy_s;
        rank.bubble_fraction = rank.idle_s / report.step_time_s;
        idle_sum += rank.bubble_fraction;
        rank.peak_in_flight = lowered.memory[static_cast<std::size_t>(r)].peak_in_flight;
        rank.weight_versions = lowered.memory[static_cast<std::size_t>(r)].weight_versions;
        TimeBreakdown& b = rank.breakdown;
        b.forward = t.forward;
        b.backward = t.backward;
        b.recompute = t.recompute;
        b.optimizer = t.optimizer;
        b.slowed = t.slowed;
        b.stash = t.stash;
        // Overlapping collectives that compute still waits for are shared out by their total time.
        const double overlapped = t.tp.total_s - t.tp.blocking_s + t.cp.total_s - t.cp.blocking_s +
                                  t.ep.total_s - t.ep.blocking_s + t.dp.total_s - t.dp.blocking_s;
        const auto exposed = [&](const PhaseCost::Communication& c) {
            return c.blocking_s +
                   (overlapped > 0 ? t.exposed_overlap * (c.total_s - c.blocking_s) / overlapped : 0.0);
        };
        b.exposed_tp = exposed(t.tp);
        b.exposed_cp = exposed(t.cp);
        b.exposed_ep = exposed(t.ep);
        // Expert collectives that hid behind the other pass's kernels (overlapped forward and backward).
        const double parts = t.kernels() + b.exposed_tp + b.exposed_cp + b.exposed_ep + exposed(t.dp);
        b.exposed_ep -= std::clamp(parts - rank.busy_s, 0.0, b.exposed_ep);
        double idle = rank.idle_s;
        const auto take = [&](double wanted) {
            const double taken = std::min(idle, wanted);
            idle -= taken;
            return taken;
        };
        b.exposed_dp =
            exposed(t.dp) + t.average + t.on_compute + take(std::max(0.0, exposed_dp - t.on_compute));
        b.host = take(host_s);
        b.exposed_pp = take(exposed_pp);
        b.exposed_offload = t.offload + take(exposed_offload);
        b.bubble = idle;
        report.ranks.push_back(rank);
    }
    report.bubble_fraction = idle_sum / schedule.ranks();

    const auto most = [&](auto&& time) {
        return static_cast<std::size_t>(
            std::max_element(totals.begin(), totals.end(),
                             [&](const RankTotals& a, const RankTotals& b) { return time(a) < time(b); }) -
            totals.begin());
    };
    const auto layers = [&](const char* kind, PhaseCost::Communication RankTotals::*of,
                            double TimeBreakdown::*exposed) {
        const std::size_t r = most([&](const RankTotals& t) { return (t.*of).total_s; });
        const PhaseCost::Communication& c = totals[r].*of;
        add_communication(report, kind, c.total_s, report.ranks[r].breakdown.*exposed, c.bytes, c.algorithm);
    };
    layers("tp", &RankTotals::tp, &TimeBreakdown::exposed_tp);
    layers("cp", &RankTotals::cp, &TimeBreakdown::exposed_cp);
    layers("ep", &RankTotals::ep, &TimeBreakdown::exposed_ep);
    const RankTotals& sends = totals[most([](const RankTotals& t) { return t.transfers_s; })];
    add_communication(report, "pp", sends.transfers_s, exposed_pp, sends.transfer_bytes,
                      sends.transfer_algorithm);
    const auto gradients = [](const RankTotals& t) { return t.sync_s + t.dp.total_s; };
    const std::size_t syncs = most(gradients);
    add_communication(report, "dp", gradients(totals[syncs]), report.ranks[syncs].breakdown.exposed_dp,
                      totals[syncs].sync_bytes + totals[syncs].dp.bytes,
                      totals[syncs].dp.total_s > totals[syncs].sync_s ? totals[syncs].dp.algorithm
                                                                      : totals[syncs].sync_algorithm);

    report.gradient_sync = gradient_sync_report(plan, costs, schedule);
    report.memory = memory_ledger(environment, plan, costs, lowered);
    bool fits_devices = true;
    for (const StageMemory& m : report.memory) {
        report.peak_allocated_bytes = std::max(report.peak_allocated_bytes, m.peak_allocated_bytes);
        report.peak_reserved_bytes = std::max(report.peak_reserved_bytes, m.peak_reserved_bytes);
        report.peak_device_bytes = std::max(report.peak_device_bytes, m.device_bytes);
        report.fits &= m.fits();
        fits_devices &= m.required_bytes <= m.capacity_bytes;
    }
    for (const StageMemory& m : report.memory) {
        if (m.fits_host()) continue;
        report.warnings.push_back(
            fmt::format("does not fit the host: {} offloaded by each device, {} its share",
                        format_bytes(m.host_bytes, ByteUnit::Binary, 4),
                        format_bytes(m.host_capacity_bytes, ByteUnit::Binary, 4)));
        break;
    }
    if (!fits_devices) {
        const StageMemory& fullest = *fullest_rank(report);
        report.warnings.push_back(fmt::format("does not fit: {} needed, {} on the device",
                                              format_bytes(fullest.required_bytes, ByteUnit::Binary, 4),
                                              format_bytes(fullest.capacity_bytes, ByteUnit::Binary, 4)));
    }
    bool out_of_range = false;
    for (int s = 0; s < costs.stages(); ++s) {
        const StageCostSet& c = costs.stage(s);
        out_of_range |= c.forward.out_of_range || c.backward.out_of_range || c.gradient_sync.out_of_range ||
                        c.average.out_of_range;
    }
    if (out_of_range)
        report.warnings.emplace_back("some shapes lie outside the range that the profile was measured in");
    if (const std::string warning = implausible_mfu(report.mfu);
        !warning.empty() && graph.measured_on.empty())
        report.warnings.push_back(warning);
    for (const NodeGroup& g : environment.cluster.groups) {
        const double devices = static_cast<double>(g.type.devices) * g.nodes;
        report.energy_j += devices * g.device.tdp_w * report.step_time_s;
        report.usd_per_step += devices * g.type.usd_per_device_hour * report.step_time_s / 3600.0;
    }
    if (environment.executor) {
        report.not_executable = environment.executor(graph, plan);
    } else {
        report.not_executable = {"no executor was asked"};
    }
    if (graph.vocab > 0) {
        report.vocabulary = graph.vocab;
        report.padded_vocabulary = padded_vocab(graph.vocab, plan.vocab_divisor, plan.mesh.tp);
    }
    if (options.trace || options.critical_path) {
        report.trace = trace_engine(schedule, lowered.compiled, table, 2);
        report.critical_path =
            describe(report.trace, critical_path(report.trace, match_rendezvous(report.trace)));
        if (!options.trace) report.trace = {};
    }
    if (options.trace) {
        report.trace.title = summary(plan);
        report.trace.stage_labels = stage_labels(plan);
        report.trace.size_class_bytes = size_class_bytes(costs, schedule);
        add_memory_curves(environment, plan, costs, schedule, report.trace);
        add_layer_collectives(plan, costs, report.trace);
    }
    return report;
}

}  // namespace tw
