#include <charconv>
#include <limits>
#include <optional>

#include "base/nearest.hpp"
#include "plan/schedule/text.hpp"

namespace tw {
namespace {

Error bad_token(std::string_view token, std::string message, std::string hint = {}) {
    return {ErrorCode::Unreadable, std::move(message), "'" + std::string(token) + "'", std::move(hint)};
}

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

// Digits alone, without a sign and within `high`.
std::optional<std::int64_t> number(std::string_view digits, std::int64_t high) {
    std::int64_t value = 0;
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (digits.empty() || code != std::errc() || end != digits.data() + digits.size() ||
        !is_digit(digits[0])) {
        return std::nullopt;
    }
    return value > high ? std::nullopt : std::optional(value);
}

bool needs_microbatch(Opcode opcode) {
    return is_compute(opcode) || is_transfer(opcode);
}

// "2F0" or "0UNSHARD", not an overlap.
Result<Instruction> parse_simple(std::string_view token) {
    std::size_t kind_begin = 0;
    while (kind_begin < token.size() && is_digit(token[kind_begin]))
        ++kind_begin;
    std::size_t kind_end = token.size();
    while (kind_end > kind_begin && is_digit(token[kind_end - 1]))
        --kind_end;
    const std::string_view kind = token.substr(kind_begin, kind_end - kind_begin);
    const auto stage = number(token.substr(0, kind_begin), std::numeric_limits<std::uint16_t>::max());
    if (!stage) return bad_token(token, "an instruction starts with its stage, 0 to 65535");

    Instruction instruction;
    std::vector<std::string> kinds;
    bool known = false;
    for (int i = 0; i <= static_cast<int>(Opcode::Wait); ++i) {
        const auto opcode = static_cast<Opcode>(i);
        if (opcode == Opcode::OverlapForwardBackward) continue;
        kinds.emplace_back(token_of(opcode));
        if (kind == token_of(opcode)) {
            instruction.opcode = opcode;
            known = true;
        }
    }
    if (!known) {
        return bad_token(token, "unknown instruction kind '" + std::string(kind) + "'",
                         unknown_name_hint(kind, kinds));
    }
    instruction.stage = static_cast<std::uint16_t>(*stage);
    instruction.stream = default_stream(instruction.opcode);
    if (kind_end < token.size()) {
        const auto microbatch = number(token.substr(kind_end), std::numeric_limits<std::int32_t>::max());
        if (!microbatch) return bad_token(token, "the microbatch is out of range");
        instruction.microbatch = static_cast<std::int32_t>(*microbatch);
    } else if (needs_microbatch(instruction.opcode)) {
        return bad_token(token, "the microbatch is missing", std::string(token) + "0");
    }
    return instruction;
}

}  // namespace

Stream default_stream(Opcode opcode) {
    if (is_compute(opcode)) return Stream::Compute;
    if (is_transfer(opcode)) return Stream::P2p;
    if (is_collective(opcode)) return Stream::Dp;
    switch (opcode) {
        case Opcode::Offload:
            return Stream::DeviceToHost;
        case Opcode::Reload:
            return Stream::HostToDevice;
        case Opcode::Wait:
            return Stream::Host;
        default:
            return Stream::Compute;
    }
}

Result<Instruction> parse_token(std::string_view token) {
    if (!token.starts_with('(')) return parse_simple(token);
    const std::string tail = ")" + std::string(token_of(Opcode::OverlapForwardBackward));
    const std::size_t middle = token.find(';');
    if (!token.ends_with(tail) || middle == std::string_view::npos) {
        return bad_token(token, "an overlap is written (2F0;3B1)OVERLAP_F_B");
    }
    const auto forward = parse_simple(token.substr(1, middle - 1));
    if (!forward) return forward.errors();
    const auto backward = parse_simple(token.substr(middle + 1, token.size() - tail.size() - middle - 1));
    if (!backward) return backward.errors();
    if (forward->opcode != Opcode::Forward || backward->opcode != Opcode::Backward) {
        return bad_token(token, "an overlap is one forward and one whole backward, in this order");
    }
    Instruction instruction = *forward;
    instruction.opcode = Opcode::OverlapForwardBackward;
    instruction.stage2 = backward->stage;
    instruction.microbatch2 = backward->microbatch;
    return instruction;
}

}  // namespace tw
