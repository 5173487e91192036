#include "plan/trace/event_text.hpp"

#include <fmt/format.h>

namespace tw {
namespace {

std::string numbered(std::string_view what, const Instruction& i) {
    std::string out(what);
    if (i.microbatch != kNoMicrobatch) out += fmt::format(" mb{}", i.microbatch);
    return out + fmt::format(" s{}", i.stage);
}

std::string parted(std::string_view what, const Instruction& i) {
    std::string out = numbered(what, i);
    if (i.part > 0) out += fmt::format(" part {}", i.part);
    return out;
}

}  // namespace

Work work_of(const Instruction& instruction) {
    switch (instruction.opcode) {
        case Opcode::Forward:
            return Work::Forward;
        case Opcode::Backward:
        case Opcode::BackwardInput:
            return Work::Backward;
        case Opcode::BackwardWeight:
            return Work::BackwardWeight;
        case Opcode::OverlapForwardBackward:
            return Work::ForwardBackward;
        case Opcode::OptimizerStep:
            return Work::Optimizer;
        case Opcode::StashWeights:
        case Opcode::Reshard:
        case Opcode::Free:
            return Work::Memory;
        case Opcode::SendActivation:
        case Opcode::RecvActivation:
        case Opcode::SendGrad:
        case Opcode::RecvGrad:
            return Work::PipelineTransfer;
        case Opcode::AllToAll:
            return Work::ExpertParallel;
        case Opcode::Offload:
        case Opcode::Reload:
            return Work::Offload;
        case Opcode::Wait:
            return Work::Host;
        case Opcode::AllReduce:
        case Opcode::ReduceScatter:
        case Opcode::AllGather:
        case Opcode::Broadcast:
        case Opcode::Unshard:
        case Opcode::GradNorm:
            break;
    }
    return instruction.stream == Stream::Tp ? Work::TensorParallel : Work::DataParallel;
}

std::string_view title(Work work) {
    switch (work) {
        case Work::Forward:
            return "forward";
        case Work::Backward:
            return "backward";
        case Work::BackwardWeight:
            return "backward, weights";
        case Work::ForwardBackward:
            return "forward beside backward";
        case Work::Optimizer:
            return "optimizer";
        case Work::Memory:
            return "copies on the device";
        case Work::PipelineTransfer:
            return "pipeline transfer";
        case Work::DataParallel:
            return "data parallel";
        case Work::TensorParallel:
            return "tensor parallel";
        case Work::ExpertParallel:
            return "expert parallel";
        case Work::Offload:
            return "offload";
        case Work::Host:
            return "host";
    }
    return {};
}

std::string_view short_name(Work work) {
    switch (work) {
        case Work::Forward:
            return "forward";
        case Work::Backward:
            return "backward";
        case Work::BackwardWeight:
            return "backward_weight";
        case Work::ForwardBackward:
            return "overlap_forward_backward";
        case Work::Optimizer:
            return "optimizer";
        case Work::Memory:
            return "memory";
        case Work::PipelineTransfer:
            return "pp";
        case Work::DataParallel:
            return "dp";
        case Work::TensorParallel:
            return "tp";
        case Work::ExpertParallel:
            return "ep";
        case Work::Offload:
            return "offload";
        case Work::Host:
            return "host";
    }
    return {};
}

std::string event_name(const Instruction& i) {
    switch (i.opcode) {
        case Opcode::Forward:
            return numbered("F", i);
        case Opcode::Backward:
            return numbered("B", i);
        case Opcode::BackwardInput:
            return numbered("I", i);
        case Opcode::BackwardWeight:
            return numbered("W", i);
        case Opcode::OverlapForwardBackward:
            return fmt::format("{} | B mb{} s{}", numbered("F", i), i.microbatch2, i.stage2);
        case Opcode::SendActivation:
            return numbered("send activation", i);
        case Opcode::RecvActivation:
            return numbered("receive activation", i);
        case Opcode::SendGrad:
            return numbered("send gradient", i);
        case Opcode::RecvGrad:
            return numbered("receive gradient", i);
        case Opcode::AllReduce:
            return parted("all-reduce", i);
        case Opcode::ReduceScatter:
            return parted("reduce-scatter", i);
        case Opcode::AllGather:
            return parted("all-gather", i);
        case Opcode::AllToAll:
            return parted("all-to-all", i);
        case Opcode::Broadcast:
            return parted("broadcast", i);
        case Opcode::Unshard:
            return parted("unshard", i);
        case Opcode::Reshard:
            return numbered("reshard", i);
        case Opcode::StashWeights:
            return numbered("stash weights", i);
        case Opcode::Offload:
            return numbered("offload", i);
        case Opcode::Reload:
            return numbered("reload", i);
        case Opcode::GradNorm:
            return "gradient norm";
        case Opcode::OptimizerStep:
            return numbered("optimizer step", i);
        case Opcode::Free:
            return numbered("free", i);
        case Opcode::Wait:
            return "wait";
    }
    return {};
}

std::string lane_name(Stream stream, std::uint16_t communicator) {
    std::string out(to_string(stream));
    if (communicator > 0) out += fmt::format(" {}", communicator);
    return out;
}

}  // namespace tw
