#include "sim/report/trace_labels.hpp"

#include <fmt/format.h>

namespace tw {
namespace {

double bytes_of(const DurationKey& key, const PlanCost& costs, int parts, bool replicated) {
    const StageCostSet& stage = costs.stage(key.stage);
    switch (key.opcode) {
        case Opcode::SendActivation:
            return stage.send_activation.bytes;
        case Opcode::RecvActivation:
            return costs.stage(key.stage2).send_activation.bytes;
        case Opcode::SendGrad:
            return stage.send_gradient.bytes;
        case Opcode::RecvGrad:
            return costs.stage(key.stage2).send_gradient.bytes;
        case Opcode::AllReduce:
            return key.group > 0 && !replicated ? costs.tied_embeddings().bytes
                                                : stage.gradient_sync.bytes / parts;
        case Opcode::ReduceScatter:
            return stage.gradient_sync.bytes / parts;
        case Opcode::AllGather:
        case Opcode::Broadcast:
            return stage.parameter_gather.bytes;
        default:
            return 0;
    }
}

}  // namespace

std::vector<std::string> stage_labels(const ParallelPlan& plan) {
    std::vector<std::string> labels;
    for (const StageSpec& stage : plan.stages)
        labels.push_back(fmt::format("layers {}-{}", stage.first_layer, stage.last_layer - 1));
    return labels;
}

std::vector<double> size_class_bytes(const PlanCost& costs, const Schedule& schedule) {
    const std::vector<int> chunks = backward_chunks(schedule);
    std::vector<double> bytes;
    for (const DurationKey& key : schedule.size_classes)
        bytes.push_back(bytes.empty()
                            ? 0
                            : bytes_of(key, costs, chunks[key.stage],
                                       schedule.replicas_of_stage[key.stage] > 1));  // [0] is unused
    return bytes;
}

}  // namespace tw
