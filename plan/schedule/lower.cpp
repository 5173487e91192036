#include "plan/schedule/lower.hpp"

#include <algorithm>
#include <optional>

#include "base/check.hpp"
#include "plan/schedule/passes/passes.hpp"
#include "plan/schedule/steady_phase.hpp"

namespace tw {

void set_classes(Schedule& schedule, Instruction& instruction) {
    DurationKey key{instruction.opcode, instruction.stage, instruction.stage2, instruction.part,
                    instruction.group};
    switch (instruction.opcode) {
        case Opcode::SendActivation:
        case Opcode::RecvGrad:
            key.stage2 = static_cast<std::uint16_t>(instruction.stage + 1);
            break;
        case Opcode::RecvActivation:
        case Opcode::SendGrad:
            key.stage2 = static_cast<std::uint16_t>(instruction.stage - 1);
            break;
        default:
            break;
    }
    instruction.duration_class = schedule.duration_class(key);
    if (instruction.opcode == Opcode::Wait || instruction.opcode == Opcode::GradNorm) return;
    instruction.size_class = schedule.size_class(key);
}

std::uint16_t group_of_ranks(Schedule& schedule, std::vector<std::uint16_t> ranks) {
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    if (ranks.size() < 2) return 0;
    const auto found = std::find(schedule.groups.begin() + 1, schedule.groups.end(), ranks);
    const auto index = static_cast<std::uint16_t>(found - schedule.groups.begin());
    if (found == schedule.groups.end()) schedule.groups.push_back(std::move(ranks));
    return index;
}

std::optional<Schedule> lower_each(const ComputeOrder& order, const std::string& generator,
                                   const LoweringOptions& options) {
    Schedule schedule;
    schedule.generator = generator;
    schedule.stages = order.stages;
    schedule.microbatches = order.microbatches;
    schedule.steps = order.steps;
    schedule.boundary = order.boundary;
    schedule.semantics = order.semantics;
    schedule.rank_of_stage = order.rank_of_stage;
    schedule.replicas_of_stage = order.replicas_of_stage;
    schedule.groups.emplace_back();
    schedule.size_classes.add_unused();

    const bool calls = options.p2p_calls != LoweringOptions::P2pCalls::Posted;
    if (!calls || !place_blocking_transfers(order, options, schedule)) {
        schedule.programs.clear();
        schedule.senders.clear();
        if (!place_transfers(order, options, schedule)) return std::nullopt;
    }
    split_last_backward(order, options, schedule);
    unshard_parameters(options, schedule);
    offload_activations(options, schedule);
    if (order.boundary == StepBoundary::None) {
        update_asynchronously(order, options, schedule);
    } else {
        synchronise_gradients(options, schedule);
        finish_step(options, schedule);
    }
    return schedule;
}

Schedule lower(const ComputeOrder& order, const std::string& generator, const LoweringOptions& options) {
    if (const std::optional<ShortOrder> cut = shorten(order)) {
        std::optional<Schedule> schedule = lower_each(cut->order, generator, options);
        if (schedule && lengthen(*cut, *schedule)) return std::move(*schedule);
    }
    std::optional<Schedule> schedule = lower_each(order, generator, options);
    TW_CHECK_MSG(schedule.has_value(), "the order waits for itself; check_order names where");
    return std::move(*schedule);
}

}  // namespace tw
