#include "sim/engine/unit_costs.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "plan/schedule/lower.hpp"
#include "sim/memory/memory_profile.hpp"

namespace tw {

CostTable unit_cost_table(const Schedule& schedule, const CompiledSchedule& compiled,
                          const UnitStageCosts& costs) {
    CostTable table(compiled);
    const SimTime dispatch = to_sim_time(costs.dispatch);
    if (dispatch > 0) table.enable_host();
    for (int r = 0; r < compiled.ranks; ++r) {
        for (std::size_t k = 0; k < schedule.duration_classes.size(); ++k) {
            SimTime& d = table.duration[compiled.slot_of(r, static_cast<int>(k))];
            const SimTime f = to_sim_time(costs.forward), b = to_sim_time(costs.backward_input),
                          w = to_sim_time(costs.backward_weight);
            switch (schedule.duration_classes[k].opcode) {
                case Opcode::Forward:
                    d = f;
                    break;
                case Opcode::Backward:
                    d = b + w;
                    break;
                case Opcode::BackwardInput:
                    d = b;
                    break;
                case Opcode::BackwardWeight:
                    d = w;
                    break;
                case Opcode::OverlapForwardBackward:
                    d = f + b + w;
                    break;
                case Opcode::SendActivation:
                case Opcode::RecvActivation:
                case Opcode::SendGrad:
                case Opcode::RecvGrad:
                    d = to_sim_time(costs.transfer);
                    break;
                default:
                    break;
            }
            if (dispatch > 0 && is_compute(schedule.duration_classes[k].opcode)) {
                const std::uint32_t slot = compiled.slot_of(r, static_cast<int>(k));
                table.dispatch[slot] = dispatch;
                table.host_path[slot] = dispatch + d;
            }
        }
    }
    return table;
}

namespace {

// Two steps last at most as long as all of their instructions one after the other; that sum has to stay
// within what SimTime holds.
Status check_length(const Schedule& schedule, const CompiledSchedule& compiled, const CostTable& table) {
    constexpr double kLongest = 4e6;  // s; SimTime holds 9.2e6
    double sum = 0;
    for (int r = 0; r < compiled.ranks; ++r) {
        for (const Instruction& in :
             schedule.programs[static_cast<std::size_t>(r % compiled.pipeline_ranks)].instructions)
            sum += 2 * to_seconds(table.duration[compiled.slot_of(r, in.duration_class)]).value +
                   2 * to_seconds(table.dispatch.empty()
                                      ? 0
                                      : table.dispatch[compiled.slot_of(r, in.duration_class)])
                           .value;
    }
    if (sum <= kLongest) return ok();
    return Error{ErrorCode::Usage,
                 fmt::format("the passes of two steps add up to {:.0f} days, more than {:.0f}", sum / 86400,
                             kLongest / 86400),
                 "schedule",
                 "shorter times or fewer microbatches: the shape is the same in any unit of time"};
}

}  // namespace

Result<ScheduleSummary> run_order_alone(const ComputeOrder& order, std::string_view name,
                                        const UnitStageCosts& costs) {
    LoweringOptions options;
    options.grad_sync = LoweringOptions::GradSync::None;
    return run_lowered_alone(lower(order, std::string(name), options), name, costs);
}

Result<ScheduleSummary> run_lowered_alone(Schedule schedule, std::string_view name,
                                          const UnitStageCosts& costs) {
    ScheduleSummary summary;
    summary.schedule = std::move(schedule);
    auto compiled = compile_schedule(summary.schedule);
    if (!compiled) return compiled.errors();
    const CostTable table = unit_cost_table(summary.schedule, *compiled, costs);
    if (const Status fits = check_length(summary.schedule, *compiled, table); !fits) return fits.errors();
    EngineWorkspace workspace;
    summary.times = run_engine(summary.schedule, *compiled, table, workspace);
    summary.trace = trace_engine(summary.schedule, *compiled, table, 2);
    summary.trace.title = std::string(name);
    const std::vector<SimTime> busy = busy_times(summary.schedule, *compiled, table);
    const std::vector<RankMemoryProfile> memory = memory_profile(summary.schedule);
    double idle = 0;
    for (std::size_t r = 0; r < busy.size(); ++r) {
        RankSummary rank;
        rank.busy = busy[r];
        rank.idle = summary.times.period - busy[r];
        rank.peak_in_flight = memory[r].peak_in_flight;
        rank.weight_versions = memory[r].weight_versions;
        idle += static_cast<double>(rank.idle);
        summary.ranks.push_back(rank);
    }
    summary.bubble_fraction =
        idle / (static_cast<double>(summary.times.period) * static_cast<double>(busy.size()));
    return summary;
}

Result<ScheduleSummary> run_schedule_alone(std::string_view name, const ScheduleShape& shape,
                                           const UnitStageCosts& costs) {
    StageCosts stage_costs;
    const auto stages = static_cast<std::size_t>(shape.ranks * shape.virtual_stages);
    stage_costs.forward.assign(stages, to_sim_time(costs.forward));
    stage_costs.backward_input.assign(stages, to_sim_time(costs.backward_input));
    stage_costs.backward_weight.assign(stages, to_sim_time(costs.backward_weight));
    stage_costs.transfer = to_sim_time(costs.transfer);
    stage_costs.activation_bytes.assign(stages, 1.0);
    stage_costs.weight_grad_bytes.assign(stages, 1.0);
    auto order = generate_order(name, shape, &stage_costs);
    if (!order) return order.errors();
    return run_order_alone(*order, name, costs);
}

}  // namespace tw
