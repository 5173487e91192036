#include "plan/schedule/instruction.hpp"

#include <array>

#include "base/check.hpp"

namespace tw {
namespace {

constexpr std::array<std::string_view, 23> kOpcodeNames = {"forward",
                                                           "backward",
                                                           "backward_input",
                                                           "backward_weight",
                                                           "overlap_forward_backward",
                                                           "send_activation",
                                                           "recv_activation",
                                                           "send_grad",
                                                           "recv_grad",
                                                           "all_reduce",
                                                           "reduce_scatter",
                                                           "all_gather",
                                                           "all_to_all",
                                                           "broadcast",
                                                           "unshard",
                                                           "reshard",
                                                           "stash_weights",
                                                           "offload",
                                                           "reload",
                                                           "grad_norm",
                                                           "optimizer_step",
                                                           "free",
                                                           "wait"};
static_assert(kOpcodeNames.size() == static_cast<std::size_t>(Opcode::Wait) + 1);

constexpr std::array<std::string_view, 7> kStreamNames = {
    "compute", "tp", "dp", "p2p", "host", "host_to_device", "device_to_host"};
static_assert(kStreamNames.size() == static_cast<std::size_t>(Stream::DeviceToHost) + 1);

// PyTorch's token of an opcode; ours, in the same style, where PyTorch has none.
constexpr std::array<std::string_view, 23> kTokens = {"F",
                                                      "B",
                                                      "I",
                                                      "W",
                                                      "OVERLAP_F_B",
                                                      "SEND_F",
                                                      "RECV_F",
                                                      "SEND_B",
                                                      "RECV_B",
                                                      "REDUCE_GRAD",
                                                      "REDUCE_SCATTER",
                                                      "ALL_GATHER",
                                                      "ALL_TO_ALL",
                                                      "BROADCAST",
                                                      "UNSHARD",
                                                      "RESHARD",
                                                      "STASH",
                                                      "OFFLOAD",
                                                      "RELOAD",
                                                      "GRAD_NORM",
                                                      "STEP",
                                                      "FREE",
                                                      "WAIT"};
static_assert(kTokens.size() == kOpcodeNames.size());

void append_action(std::string& out, std::uint16_t stage, std::string_view token, std::int32_t microbatch) {
    out += std::to_string(stage);
    out += token;
    if (microbatch != kNoMicrobatch) out += std::to_string(microbatch);
}

}  // namespace

std::string_view to_string(Opcode opcode) {
    const auto i = static_cast<std::size_t>(opcode);
    TW_CHECK(i < kOpcodeNames.size());
    return kOpcodeNames[i];
}

std::string_view to_string(Stream stream) {
    const auto i = static_cast<std::size_t>(stream);
    TW_CHECK(i < kStreamNames.size());
    return kStreamNames[i];
}

std::string_view token_of(Opcode opcode) {
    const auto i = static_cast<std::size_t>(opcode);
    TW_CHECK(i < kTokens.size());
    return kTokens[i];
}

std::string to_string(const Instruction& instruction) {
    std::string out;
    if (instruction.opcode == Opcode::OverlapForwardBackward) {
        out += '(';
        append_action(out, instruction.stage, "F", instruction.microbatch);
        out += ';';
        append_action(out, instruction.stage2, "B", instruction.microbatch2);
        out += ')';
        out += token_of(instruction.opcode);
        return out;
    }
    append_action(out, instruction.stage, token_of(instruction.opcode), instruction.microbatch);
    return out;
}

}  // namespace tw
