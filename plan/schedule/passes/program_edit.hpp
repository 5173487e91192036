// Edits one rank's program: instructions put before existing ones, waits added, and all indices renumbered at
// once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/schedule/schedule.hpp"

namespace tw {

class ProgramEdit {
  public:
    // Names an existing instruction by its index before the edit, or one that insert() returned.
    using Ref = std::uint32_t;

    explicit ProgramEdit(RankProgram& program) : program_(&program) {}

    // Puts an instruction before existing index `before` (size(): at the end), after those inserted there
    // already.
    Ref insert(std::size_t before, const Instruction& instruction, std::span<const Ref> waits = {});
    Ref insert(std::size_t before, const Instruction& instruction, std::initializer_list<Ref> waits) {
        return insert(before, instruction, std::span<const Ref>(waits.begin(), waits.size()));
    }
    Ref append(const Instruction& instruction, std::span<const Ref> waits = {}) {
        return insert(size(), instruction, waits);
    }
    // `existing` (an index before the edit) waits for `on` as well.
    void add_wait(std::uint32_t existing, Ref on) { added_waits_.push_back({existing, on}); }

    [[nodiscard]] std::size_t size() const { return program_->instructions.size(); }
    [[nodiscard]] const Instruction& at(std::size_t i) const { return program_->instructions[i]; }
    [[nodiscard]] Instruction& at(std::size_t i) { return program_->instructions[i]; }

    // Rewrites the program. CHECKs that every wait is for an earlier instruction. Call once.
    void apply();

  private:
    struct Insertion {
        std::size_t before = 0;
        Instruction instruction;
        std::uint32_t waits_begin = 0, waits_end = 0;
    };
    struct AddedWait {
        std::uint32_t existing = 0;
        Ref on = 0;
    };
    static constexpr Ref kInserted = 0x80000000U;

    RankProgram* program_;
    std::vector<Insertion> insertions_;
    std::vector<Ref> insertion_waits_;
    std::vector<AddedWait> added_waits_;
};

}  // namespace tw
