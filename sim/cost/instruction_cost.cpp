// PlanCost: from the costs of stages to those of a schedule's instructions.
#include <algorithm>

#include "plan/frameworks/framework.hpp"
#include "sim/collectives/multiprocessors.hpp"
#include "sim/cost/plan_cost.hpp"

namespace tw {

std::vector<int> backward_chunks(const Schedule& schedule) {
    std::vector<int> chunks(static_cast<std::size_t>(schedule.stages), 1);
    for (const DurationKey& key : schedule.duration_classes) {
        if (!is_backward(key.opcode)) continue;
        chunks[key.stage] = std::max(chunks[key.stage], static_cast<int>(key.part));
    }
    return chunks;
}

PlanCost::InstructionCost PlanCost::cost(const DurationKey& key, const std::vector<int>& chunks) const {
    const StageCostSet& c = stage(key.stage);
    const int parts = chunks[key.stage];
    const FrameworkDefaults& framework = framework_;
    const double dispatch_s = dispatch_seconds(environment_, framework,
                                               plan_.stages[static_cast<std::size_t>(key.stage)].node_group);
    const SimTime dispatch = sim_time(dispatch_s);
    const auto phase = [](const PhaseCost& p, int share) {
        return InstructionCost{p.device_time() / share, p.host_time() / share,
                               p.host_to_device_time() / share};
    };
    const auto chunk = [&](const PhaseCost& p) {
        InstructionCost cost = phase(p, key.part > 0 ? parts : 1);
        if (key.part > 1) {  // bucket k is reduced beside chunk k + 2
            const SimTime taken = sim_time(c.gradient_sync.taken_s / parts);
            cost.duration += taken;
            cost.host_path += taken;
        }
        return cost;
    };
    const auto wire = [&](double seconds) {
        const SimTime d = sim_time(seconds);
        return InstructionCost{d, dispatch, dispatch + d};
    };
    const auto kernel = wire;
    const auto between_stages = [&](double seconds) {
        const SimTime d = sim_time(seconds);
        const SimTime host = sim_time(framework.host_extras.transfer * dispatch_s);
        return InstructionCost{d, host, host + d};
    };
    switch (key.opcode) {
        case Opcode::Forward:
            return phase(c.forward, 1);
        case Opcode::Backward:
            return chunk(c.backward);
        case Opcode::BackwardInput:
            return phase(c.backward_input, 1);
        case Opcode::BackwardWeight:
            return chunk(c.backward_weight);
        case Opcode::OverlapForwardBackward: {
            // Each pass's expert all-to-alls hide behind the other's kernels (DeepSeek-AI 2024,
            // section 3.2.1; Megatron's combined 1F1B overlaps these alone); everything else is done one
            // after the other.
            const StageCostSet& b = stage(key.stage2);
            const double hidden = std::min(c.forward.ep.blocking_s, b.backward.kernel_s) +
                                  std::min(b.backward.ep.blocking_s, c.forward.kernel_s);
            const NodeGroup& nodes =
                environment_.node_group(plan_.stages[static_cast<std::size_t>(key.stage)].node_group);
            const double taken = hidden > 0 ? hidden * multiprocessor_share(CollectiveKind::AllToAll,
                                                                            placement_.group({Axis::Ep}),
                                                                            nodes.type, nodes.device.sms)
                                            : 0;
            const SimTime d = c.forward.device_time() + b.backward.device_time() - sim_time(hidden - taken);
            const SimTime host = c.forward.host_time() + b.backward.host_time();
            return {d, host, std::max(d, host)};
        }
        case Opcode::SendActivation:
        case Opcode::RecvGrad:
            return between_stages(key.opcode == Opcode::RecvGrad ? stage(key.stage2).send_gradient.seconds
                                                                 : c.send_activation.seconds);
        case Opcode::RecvActivation:
            return between_stages(stage(key.stage2).send_activation.seconds);
        case Opcode::SendGrad:
            return between_stages(c.send_gradient.seconds);
        case Opcode::AllReduce:
            // Among pipeline ranks: a tied table's, or of the replicas of PipeDream's stage.
            if (key.group > 0 && plan_.stages[key.stage].replicas == 1) return wire(tied_.seconds);
            return wire(c.gradient_sync.seconds / parts);
        case Opcode::ReduceScatter:
            return wire(c.gradient_sync.seconds / parts);
        case Opcode::AllGather:
            return wire(waited_gather(key.stage));
        case Opcode::Broadcast:
            return wire(c.parameter_gather.seconds);
        case Opcode::GradNorm:
            return wire(norm_.seconds);
        case Opcode::OptimizerStep: {
            const SimTime host = sim_time(c.step_dispatches * dispatch_s);
            const SimTime d = sim_time(c.optimizer_s + c.average.seconds);
            return {d, host, host + d};
        }
        case Opcode::StashWeights:
            return kernel(c.stash_s);
        case Opcode::Offload:
        case Opcode::Reload:
            return wire(c.offload_s);
        case Opcode::AllToAll:
        case Opcode::Unshard:
        case Opcode::Reshard:
        case Opcode::Free:
        case Opcode::Wait:
            return {};
    }
    return {};
}

SimTime PlanCost::least_period(const Schedule& schedule) const {
    if (plan_.gradient_sync != "ps-async") return 0;
    double longest = 0;
    for (const RankProgram& program : schedule.programs) {
        double served = 0;  // all of a push counts with its first bucket
        for (const Instruction& i : program.instructions)
            if (i.opcode == Opcode::ReduceScatter && i.part == 0) served += stage(i.stage).sync.server_s;
        longest = std::max(longest, served / schedule.steps);
    }
    return sim_time(longest);
}

CostTable PlanCost::table(const Schedule& schedule, const CompiledSchedule& compiled) const {
    CostTable table(compiled);
    table.least_period = least_period(schedule);
    const bool host = environment_.dispatch_s > 0;
    if (host) table.enable_host();
    const std::vector<int> chunks = backward_chunks(schedule);
    std::vector<InstructionCost> costs;
    for (const DurationKey& key : schedule.duration_classes)
        costs.push_back(cost(key, chunks));
    for (int r = 0; r < compiled.ranks; ++r) {
        for (std::size_t k = 0; k < costs.size(); ++k) {
            const std::uint32_t slot = compiled.slot_of(r, static_cast<int>(k));
            table.duration[slot] = costs[k].duration;
            if (!host) continue;
            table.dispatch[slot] = costs[k].dispatch;
            table.host_path[slot] = costs[k].host_path;
        }
    }
    return table;
}

}  // namespace tw
