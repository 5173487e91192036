// Text form of instructions and schedules.
//
// One instruction is PyTorch's token, read as a whole: stage, kind, microbatch ("2F0", "3SEND_F1",
// "0UNSHARD",
// "(2F0;3B1)OVERLAP_F_B"). "2BW0" is an error, not 2B.
//
// A dump of a schedule starts with its version, "trainwright-schedule 1", then one line a fact ("stages 4"),
// then for each rank a line "rank 0" and one line an instruction: its token, the fields that a token does not
// carry as key=value where they are not zero, and its waits as indices in the rank.
// parse_schedule(format_schedule(s)) == s, field by field.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "plan/schedule/schedule.hpp"

namespace tw {

// Opcode, stages and microbatches; the stream that the opcode runs on; everything else as default.
Result<Instruction> parse_token(std::string_view token);

// The stream of an opcode where nothing else is said.
Stream default_stream(Opcode opcode);

inline constexpr int kScheduleTextVersion = 1;
std::string format_schedule(const Schedule& schedule);
// Every error of the text with its line; check_schedule says whether what was read can run.
Result<Schedule> parse_schedule(std::string_view text);

}  // namespace tw
