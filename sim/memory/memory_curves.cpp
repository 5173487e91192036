// The ledger over time: add_memory_curves.
#include <algorithm>
#include <limits>

#include "sim/memory/ledger.hpp"

namespace tw {

void add_memory_curves(const Environment& environment, const ParallelPlan& plan, const PlanCost& costs,
                       const Schedule& schedule, Trace& trace) {
    const Footprints sizes = footprints(environment, plan, costs);
    trace.memory_categories = {
        "parameters",  "gradients",   "master weights",  "optimizer states",     "communication buffers",
        "activations", "temporaries", "stashed weights", "outside the allocator"};
    const MemoryBase base =
        memory_base(environment, plan, costs, schedule.rank_of_stage, memory_profile(schedule));
    double smallest = std::numeric_limits<double>::infinity();
    for (const RankFootprint& footprint : base.ranks)
        smallest = std::min(smallest, footprint.capacity);
    trace.memory_capacity_bytes = static_cast<std::int64_t>(smallest);
    for (RankTrace& rank : trace.ranks) {
        const auto r = rank.rank % schedule.ranks();
        const RankProgram& program = schedule.programs[static_cast<std::size_t>(r)];
        const RankFootprint& footprint = base.ranks[static_cast<std::size_t>(r)];
        const RankMemory n = rank_memory(plan, footprint);
        if (footprint.capacity > smallest)
            rank.memory_capacity_bytes = static_cast<std::int64_t>(footprint.capacity);
        double gradients = n.early_gradients ? n.states.gradients : 0;
        const std::vector<std::uint32_t> last = last_chunks(program, schedule.stages);
        double activations = 0, stash = 0;
        std::vector<int> owed(static_cast<std::size_t>(schedule.stages), 0);  // weight gradients to come
        std::vector<int> held(static_cast<std::size_t>(schedule.stages), 0);
        std::vector<char> again(static_cast<std::size_t>(schedule.stages),
                                0);  // has run a backward in the step
        const auto sample = [&](SimTime t, double transient) {
            MemorySample now;
            now.time = t;
            for (const double bytes : {n.states.parameters + n.quantised_weights, gradients, n.states.master,
                                       n.states.optimizer, n.buckets + footprint.sync_buffers, activations,
                                       transient, stash, n.required - n.allocated})
                now.bytes.push_back(static_cast<std::int64_t>(bytes));
            rank.memory.push_back(std::move(now));
        };
        sample(0, 0);  // model states are there before the first pass
        std::int32_t step = -1;
        for (const TraceEvent& event : rank.events) {
            const Instruction& in = event.instruction;
            if (schedule.boundary != StepBoundary::None && event.step != step) {
                activations = stash = 0;
                if (!n.early_gradients) gradients = 0;
                std::fill(owed.begin(), owed.end(), 0);
                std::fill(held.begin(), held.end(), 0);
                std::fill(again.begin(), again.end(), 0);
                step = event.step;
            }
            if (in.opcode == Opcode::OptimizerStep && (n.step > 0 || gradients < n.states.gradients)) {
                gradients = n.states.gradients;
                sample(event.start, n.step);
                sample(event.end, 0);
            }
            const MemoryEffect effect = memory_effect(in.opcode, in.part == 0 || in.part == last[in.stage]);
            if (!effect.any()) continue;
            const StageFootprint& f = sizes.stages[in.stage];
            const auto apply = [&](const MemoryEffect::Counts& delta) {
                activations += delta.held * f.activations + delta.held_for_weight * f.held_for_weight;
                held[in.stage] += delta.held;
                const bool before = owed[in.stage] > 0;
                owed[in.stage] = std::max(0, owed[in.stage] + delta.held_for_weight);
                activations += ((owed[in.stage] > 0 ? 1 : 0) - (before ? 1 : 0)) * f.gradients_for_weight;
                stash = std::max(0.0, stash + delta.stashed * sizes.parameter_bytes[in.stage]);
            };
            apply(effect.before);
            const double sharded = is_compute(in.opcode) ? n.gathered : 0;
            const bool backward = is_backward(in.opcode) || in.opcode == Opcode::OverlapForwardBackward;
            const double unsharded = backward ? n.unsharded_gradients : 0;
            sample(event.start, sharded + unsharded +
                                    transient_bytes(in.opcode, f, sizes.stages[in.stage2], owed[in.stage] > 0,
                                                    again[in.stage] != 0, held[in.stage]));
            apply(effect.after);
            if (effect.ends_backward) again[effect.after2_held != 0 ? in.stage2 : in.stage] = 1;
            activations += effect.after2_held * sizes.stages[in.stage2].activations;
            held[in.stage2] += effect.after2_held;
            sample(event.end, 0);
        }
        std::stable_sort(rank.memory.begin(), rank.memory.end(),
                         [](const auto& a, const auto& b) { return a.time < b.time; });
    }
}

}  // namespace tw
