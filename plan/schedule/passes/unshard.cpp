#include "plan/schedule/passes/passes.hpp"
#include "plan/schedule/passes/program_edit.hpp"
#include "plan/schedule/passes/prototypes.hpp"

namespace tw {

// A gather for compute k may start when compute k - 2 is done (and its parameters are freed): one stage is
// prefetched beside the one in use, FSDP's rate limiter (Zhao et al. 2023, arXiv 2304.11277, section 3.4).
// Chunks of one backward share a gather.
void unshard_parameters(const LoweringOptions& options, Schedule& schedule) {
    if (!options.unshard) return;
    Prototypes prototypes(schedule);
    for (RankProgram& program : schedule.programs) {
        ProgramEdit edit(program);
        std::vector<ProgramEdit::Ref> freed;  // the Reshard of each compute so far
        for (std::size_t i = 0; i < edit.size(); ++i) {
            const Instruction& compute = edit.at(i);
            if (!is_compute(compute.opcode)) continue;
            const bool continues = compute.part > 1;
            if (!continues) {
                std::vector<ProgramEdit::Ref> waits;
                if (freed.size() >= 2) waits.push_back(freed[freed.size() - 2]);
                const bool both =
                    compute.opcode == Opcode::OverlapForwardBackward && compute.stage2 != compute.stage;
                edit.add_wait(static_cast<std::uint32_t>(i),
                              edit.insert(i, prototypes.of(Opcode::Unshard, compute.stage), waits));
                if (both) {
                    edit.add_wait(static_cast<std::uint32_t>(i),
                                  edit.insert(i, prototypes.of(Opcode::Unshard, compute.stage2), waits));
                }
            }
            const bool more = i + 1 < edit.size() && is_compute(edit.at(i + 1).opcode) &&
                              edit.at(i + 1).part > compute.part && edit.at(i + 1).part > 1;
            if (more) continue;
            const auto done = static_cast<ProgramEdit::Ref>(i);
            ProgramEdit::Ref last = edit.insert(i + 1, prototypes.of(Opcode::Reshard, compute.stage), {done});
            if (compute.opcode == Opcode::OverlapForwardBackward && compute.stage2 != compute.stage) {
                last = edit.insert(i + 1, prototypes.of(Opcode::Reshard, compute.stage2), {done});
            }
            freed.push_back(last);
        }
        edit.apply();
    }
}

}  // namespace tw
