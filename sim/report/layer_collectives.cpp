#include "sim/report/layer_collectives.hpp"

#include <algorithm>

#include "base/units.hpp"
#include "plan/sharded_layers.hpp"

namespace tw {
namespace {

struct Inside {
    SimTime gathers = 0, reductions = 0;
};

Inside inside(const PlanCost& costs, const Instruction& in, int chunks, bool gathers_again) {
    const StageCostSet& stage = costs.stage(in.stage);
    const auto time = [](double seconds) { return to_sim_time(Seconds(std::max(0.0, seconds))); };
    const double gathers = stage.forward.dp.total_s;  // a backward that gathers again does the same
    const double again = gathers_again ? gathers : 0;
    switch (in.opcode) {
        case Opcode::Forward:
            return {time(gathers), 0};
        case Opcode::Backward:
            return {time(again) / chunks, time(stage.backward.dp.total_s - again) / chunks};
        case Opcode::BackwardInput:
            return {time(stage.backward_input.dp.total_s), 0};
        case Opcode::BackwardWeight:
            return {0, time(stage.backward_weight.dp.total_s) / chunks};
        case Opcode::OverlapForwardBackward: {
            const StageCostSet& other = costs.stage(in.stage2);
            const double its = gathers_again ? other.forward.dp.total_s : 0;
            return {time(gathers + its), time(other.backward.dp.total_s - its)};
        }
        default:
            return {};
    }
}

TraceEvent part_of(const TraceEvent& whole, Opcode opcode, SimTime start, SimTime end) {
    TraceEvent part = whole;
    part.instruction.opcode = opcode;
    part.instruction.stream = Stream::Dp;
    part.instruction.part = 0;
    part.index |= kInsideAnother;
    part.arrival = part.start = start;
    part.end = end;
    part.waited = 0;
    return part;
}

}  // namespace

void add_layer_collectives(const ParallelPlan& plan, const PlanCost& costs, Trace& trace) {
    const ShardedLayers sharded = sharded_layers(plan);
    if (!sharded.any() || costs.shape(0).executor) return;
    for (RankTrace& rank : trace.ranks) {
        std::vector<int> chunks(static_cast<std::size_t>(costs.stages()), 1);
        for (const TraceEvent& event : rank.events) {
            if (is_compute(event.instruction.opcode))
                chunks[event.instruction.stage] =
                    std::max(chunks[event.instruction.stage], static_cast<int>(event.instruction.part));
        }
        std::vector<TraceEvent> all;
        for (const TraceEvent& event : rank.events) {
            const Instruction& in = event.instruction;
            const Inside of = inside(costs, in, in.part > 0 ? chunks[in.stage] : 1, sharded.gathers_backward);
            const SimTime gathered = std::min(event.end, event.start + of.gathers);
            if (of.gathers > 0) all.push_back(part_of(event, Opcode::Unshard, event.start, gathered));
            all.push_back(event);
            const SimTime reducing = std::max(gathered, event.end - of.reductions);
            if (of.reductions > 0 && reducing < event.end)
                all.push_back(part_of(event, Opcode::ReduceScatter, reducing, event.end));
        }
        rank.events = std::move(all);
    }
}

}  // namespace tw
