// The waits of a schedule as one graph under rendezvous semantics, and its deadlock where there is one.
//
// A matched send and receive is one event that needs both ends; a collective over pipeline ranks needs all of
// them. A batch group begins when all its members may and ends when all have; a lane is a FIFO; an
// instruction starts after its explicit waits. The same graph is what the simulator's engine relaxes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/schedule/schedule.hpp"

namespace tw {

// One instruction of one rank.
struct InstructionRef {
    std::uint32_t rank = 0;
    std::uint32_t index = 0;
    friend bool operator==(const InstructionRef&, const InstructionRef&) = default;
};

// Sets of instructions that happen together: a send and its receive, the entries of one collective.
using Meetings = std::vector<std::vector<InstructionRef>>;

// Instructions that wait for each other in a circle, each for the next; nothing where the schedule runs
// through.
std::optional<std::vector<InstructionRef>> find_deadlock(const Schedule& schedule, const Meetings& meetings);

}  // namespace tw
