#include <utility>

#include "plan/schedule/passes/passes.hpp"
#include "plan/schedule/passes/program_edit.hpp"

namespace tw {

// Chunks stand one after the other on the compute stream; what waited for the whole waits for the last chunk,
// except that nothing changes for the first chunk's own waits. The input gradient leaves with the last chunk.
void split_last_backward(const ComputeOrder& order, const LoweringOptions& options, Schedule& schedule) {
    if (options.buckets.empty() || !options.overlap_grad_sync || order.boundary == StepBoundary::None) return;
    if (options.grad_sync == LoweringOptions::GradSync::None) return;
    for (int rank = 0; rank < schedule.ranks(); ++rank) {
        RankProgram& program = schedule.programs[static_cast<std::size_t>(rank)];
        std::vector<char> seen(static_cast<std::size_t>(schedule.stages), 0);
        std::size_t unseen = schedule.stages_of_rank(rank).size();
        ProgramEdit edit(program);
        for (std::size_t i = edit.size(); i-- > 0 && unseen > 0;) {
            const Instruction& instruction = edit.at(i);
            if (instruction.opcode != Opcode::Backward && instruction.opcode != Opcode::BackwardWeight)
                continue;
            if (std::exchange(seen[instruction.stage], char{1}) != 0) continue;
            --unseen;
            const int chunks = options.buckets[instruction.stage];
            if (chunks < 2) continue;
            // The existing instruction becomes the last chunk, so that waits for it stay right.
            const std::vector<std::uint32_t> waits(program.waits_of(i).begin(), program.waits_of(i).end());
            for (int chunk = 1; chunk < chunks; ++chunk) {
                Instruction part = instruction;
                part.part = static_cast<std::uint32_t>(chunk);
                set_classes(schedule, part);
                edit.insert(i, part, waits);
            }
            edit.at(i).part = static_cast<std::uint32_t>(chunks);
            set_classes(schedule, edit.at(i));
        }
        edit.apply();
    }
}

}  // namespace tw
