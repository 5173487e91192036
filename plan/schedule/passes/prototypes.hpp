// Instructions with their classes filled in, made once for each opcode and stage: a pass that adds thousands
// of them does not search the class tables for each.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plan/schedule/passes/passes.hpp"
#include "plan/schedule/text.hpp"

namespace tw {

class Prototypes {
  public:
    explicit Prototypes(Schedule& schedule) : schedule_(&schedule) {}

    // On the opcode's own stream; collectives of a group > 0 have a lane of their own (communicator = group).
    const Instruction& of(Opcode opcode, std::uint16_t stage, std::uint16_t stage2 = 0,
                          std::uint16_t group = 0) {
        auto& row = table_[static_cast<std::size_t>(opcode)];
        if (row.empty()) row.resize(static_cast<std::size_t>(schedule_->stages));
        Entry& entry = row[stage];
        if (!entry.made || entry.instruction.stage2 != stage2 || entry.instruction.group != group) {
            entry.made = true;
            entry.instruction = Instruction{};
            entry.instruction.opcode = opcode;
            entry.instruction.stream = default_stream(opcode);
            entry.instruction.communicator = group;
            entry.instruction.stage = stage;
            entry.instruction.stage2 = stage2;
            entry.instruction.group = group;
            set_classes(*schedule_, entry.instruction);
        }
        return entry.instruction;
    }

  private:
    struct Entry {
        bool made = false;
        Instruction instruction;
    };

    Schedule* schedule_;
    std::array<std::vector<Entry>, static_cast<std::size_t>(Opcode::Wait) + 1> table_;
};

}  // namespace tw
