#include <map>
#include <utility>

#include "plan/schedule/passes/passes.hpp"
#include "plan/schedule/passes/program_edit.hpp"
#include "plan/schedule/passes/prototypes.hpp"

namespace tw {
namespace {

Instruction copy_of(Prototypes& prototypes, Opcode opcode, std::uint16_t stage, std::int32_t microbatch) {
    Instruction instruction = prototypes.of(opcode, stage);
    instruction.microbatch = microbatch;
    return instruction;
}

}  // namespace

// Activations leave after their forward and come back one compute before the first backward that needs them.
void offload_activations(const LoweringOptions& options, Schedule& schedule) {
    if (!options.offload_activations) return;
    Prototypes prototypes(schedule);
    for (RankProgram& program : schedule.programs) {
        ProgramEdit edit(program);
        std::map<std::pair<std::uint16_t, std::int32_t>, ProgramEdit::Ref> away;
        std::vector<std::uint32_t> computes;  // indices so far
        for (std::size_t i = 0; i < edit.size(); ++i) {
            const Instruction& compute = edit.at(i);
            if (!is_compute(compute.opcode)) continue;
            const auto here = static_cast<std::uint32_t>(i);
            const bool overlap = compute.opcode == Opcode::OverlapForwardBackward;
            if (overlap || is_backward(compute.opcode)) {
                const std::uint16_t stage = overlap ? compute.stage2 : compute.stage;
                const std::int32_t microbatch = overlap ? compute.microbatch2 : compute.microbatch;
                const auto found = away.find({stage, microbatch});
                if (found != away.end()) {
                    std::vector<ProgramEdit::Ref> waits{found->second};
                    if (computes.size() >= 2) waits.push_back(computes[computes.size() - 2]);
                    edit.add_wait(
                        here, edit.insert(i, copy_of(prototypes, Opcode::Reload, stage, microbatch), waits));
                    away.erase(found);
                }
            }
            if (overlap || compute.opcode == Opcode::Forward) {
                away[{compute.stage, compute.microbatch}] = edit.insert(
                    i + 1, copy_of(prototypes, Opcode::Offload, compute.stage, compute.microbatch), {here});
            }
            computes.push_back(here);
        }
        edit.apply();
    }
}

}  // namespace tw
