#include "sim/scenario/shared_cores.hpp"

#include <algorithm>
#include <array>

#include "plan/frameworks/executor_work.hpp"
#include "plan/stage_program/stage_program.hpp"
#include "sim/cost/crowd_wait.hpp"
#include "sim/engine/event_engine.hpp"

namespace tw {
namespace {

// Tensor-parallel collectives of a stage's pass, by opcode.
int collectives_in(const Environment& environment, const ParallelPlan& plan, const StageSpec& stage,
                   Opcode opcode) {
    const std::vector<ExecutorLayer> layers =
        executor_layers(environment.graph, plan.work_shape(environment.graph));
    int count = 0;
    for (const StageSegment& segment : stage_segments(environment.graph, stage)) {
        visit_layer_ops(layers[static_cast<std::size_t>(segment.layer_class)].work, segment.recompute, opcode,
                        [&](const Op& op, bool) {
                            if (std::holds_alternative<CollectiveOp>(op.body)) count += segment.count;
                        });
    }
    return count;
}

bool loads_a_core(Opcode opcode) {
    return is_compute(opcode) || opcode == Opcode::OptimizerStep || opcode == Opcode::StashWeights;
}

}  // namespace

Result<double> shared_core_step(const Simulator& simulator, const ParallelPlan& plan, int cores) {
    auto prepared = simulator.prepare(plan);
    if (!prepared) return prepared.errors();
    const LoweredSchedule& lowered = *prepared->lowered;
    CostTable table = prepared->costs->table(lowered.schedule, lowered.compiled);
    // A program stands for all its replicas, which compute together.
    const double replicas = plan.mesh.dp * plan.mesh.tp * plan.mesh.cp;
    const double share = cores / replicas;
    FlowTable flows(lowered.compiled, {share});
    const std::array<int, 1> link = {0};
    const int world = plan.mesh.dp * plan.mesh.tp * plan.mesh.cp * plan.mesh.pp;
    const CrowdWait waits = world > cores ? crowd_wait(simulator.environment().profile(0)) : CrowdWait{};
    for (int r = 0; r < lowered.compiled.ranks; ++r) {
        for (std::size_t k = 0; k < lowered.schedule.duration_classes.size(); ++k) {
            const DurationKey& key = lowered.schedule.duration_classes[k];
            const std::uint32_t slot = lowered.compiled.slot_of(r, static_cast<int>(k));
            SimTime& duration = table.duration[slot];
            // A step's own collectives come behind whole passes.
            const bool of_all = key.opcode == Opcode::GradNorm || plan.mesh.dp * plan.mesh.cp == world;
            if ((is_collective(key.opcode) || key.opcode == Opcode::GradNorm) && duration > 0)
                duration += to_sim_time(Seconds(of_all ? waits.long_s : waits.half_long_s));
            if (is_receive(key.opcode) && duration > 0) duration += to_sim_time(Seconds(waits.message_s));
            if (!loads_a_core(key.opcode)) continue;
            // Replicas that are more than the cores slow even a program that computes alone.
            if (share < 1) duration = static_cast<SimTime>(static_cast<double>(duration) / share);
            SimTime waited = 0;
            if (plan.mesh.tp > 1 && is_compute(key.opcode)) {
                const StageSpec& stage = plan.stages[key.stage];
                const int count = collectives_in(simulator.environment(), plan, stage, key.opcode);
                const double each = to_seconds(duration).value / std::max(1, count);
                waited = to_sim_time(Seconds(count * waits.collective_s(each, plan.mesh.tp == world)));
                duration += waited;
            }
            flows.add(slot, link, std::min(1.0, share), waited);
        }
    }
    constexpr int kSteps = 4;
    const bool endless = lowered.compiled.boundary == StepBoundary::None;
    const std::vector<StepCosts> steps(endless ? 1 : kSteps, StepCosts{&table, {}});
    EventEngine engine(lowered.compiled, &flows);
    EventRun run;
    engine.run(steps, run);
    const std::vector<SimTime>& ends = run.times.step_end;
    if (ends.size() < 2) return to_seconds(run.times.makespan).value;
    return to_seconds(ends.back() - ends.front()).value / static_cast<double>(ends.size() - 1);
}

}  // namespace tw
