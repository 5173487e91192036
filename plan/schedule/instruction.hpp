// The instruction set that the simulator and the executor both interpret. Flat and trivially copyable; no
// durations and no sizes, only classes, so that a compiled order is reused over thousands of cost
// assignments.
//
// Notation is PyTorch's (torch.distributed.pipelining, _Action): "2F0" is Forward of stage 2, microbatch 0; I
// is BackwardInput, W BackwardWeight, B the full Backward; "3SEND_F1" sends stage 3's activation of
// microbatch 1.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace tw {

enum class Opcode : std::uint8_t {
    Forward,
    Backward,                // input and weight gradients in one
    BackwardInput,           // zero bubble's B
    BackwardWeight,          // zero bubble's W
    OverlapForwardBackward,  // forward of (stage, microbatch) beside backward of (stage2, microbatch2):
                             // DualPipeV
    SendActivation,          // to stage + 1; `stage` is the sender's
    RecvActivation,          // from stage - 1; `stage` is the receiver's
    SendGrad,                // to stage - 1; `stage` is the sender's
    RecvGrad,                // from stage + 1; `stage` is the receiver's
    AllReduce,               // gradients of `stage`, or tied embeddings (group of two ranks)
    ReduceScatter,           // gradients of `stage` (ZeRO)
    AllGather,               // parameters of `stage` (ZeRO)
    AllToAll,
    Broadcast,
    Unshard,       // ZeRO-3: gathers a stage's parameters before use
    Reshard,       // frees them again (no communication)
    StashWeights,  // PipeDream: keeps a copy of the weights for `weight_version`
    Offload,       // device to host
    Reload,        // host to device
    GradNorm,      // global norm: a barrier over its group
    OptimizerStep,
    Free,
    Wait,  // the host waits for the listed instructions
};

// Streams of one rank. Each (stream, communicator) pair is a FIFO lane: its instructions start in program
// order, one at a time. Lanes are ordered among each other only by explicit waits.
enum class Stream : std::uint8_t { Compute, Tp, Dp, P2p, Host, HostToDevice, DeviceToHost };

inline constexpr std::int32_t kNoMicrobatch = -1;

struct Instruction {
    Opcode opcode = Opcode::Forward;
    Stream stream = Stream::Compute;
    std::uint16_t stage = 0;  // virtual stage, in model order
    std::int32_t microbatch = kNoMicrobatch;
    std::uint16_t stage2 = 0;  // OverlapForwardBackward: the backward's stage
    std::uint16_t peer = 0;    // sends and receives: the other pipeline rank
    std::int32_t microbatch2 = kNoMicrobatch;
    std::uint16_t communicator = 0;  // lane within the stream
    std::uint16_t batch_group =
        0;                    // sends and receives of one batched call share a number > 0, unique in the rank
    std::uint16_t group = 0;  // collectives: index into Schedule::groups
    std::uint16_t duration_class = 0;  // index into Schedule::duration_classes
    std::uint16_t size_class = 0;      // index into Schedule::size_classes (0: nothing is allocated or moved)
    std::uint16_t weight_version =
        0;  // asynchronous schedules: which version this uses or makes, modulo those kept
    // Collectives: bucket number, from 0. Backward and BackwardWeight: 0 whole, else chunk 1.. of the last
    // one of a stage, which is split so that bucket k - 1 starts when chunk k is done
    // (LoweringOptions::buckets).
    std::uint32_t part = 0;

    friend bool operator==(const Instruction&, const Instruction&) = default;
};
static_assert(std::is_trivially_copyable_v<Instruction> && sizeof(Instruction) <= 36);

constexpr bool is_compute(Opcode op) {
    return op <= Opcode::OverlapForwardBackward;
}
constexpr bool is_backward(Opcode op) {
    return op >= Opcode::Backward && op <= Opcode::BackwardWeight;
}
constexpr bool is_send(Opcode op) {
    return op == Opcode::SendActivation || op == Opcode::SendGrad;
}
constexpr bool is_receive(Opcode op) {
    return op == Opcode::RecvActivation || op == Opcode::RecvGrad;
}
constexpr bool is_transfer(Opcode op) {
    return is_send(op) || is_receive(op);
}
constexpr bool is_collective(Opcode op) {
    return (op >= Opcode::AllReduce && op <= Opcode::Unshard) || op == Opcode::GradNorm;
}

std::string_view to_string(Opcode opcode);  // "forward", "send_activation": snake case, as in documents
std::string_view to_string(Stream stream);
std::string_view token_of(
    Opcode opcode);  // "F", "SEND_F": PyTorch's, ours in the same style where it has none
std::string to_string(const Instruction& instruction);  // "2F0"; schedule/text.hpp parses it back

}  // namespace tw
