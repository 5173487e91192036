#include "plan/gradient_sync/schedule_staleness.hpp"

#include <algorithm>

namespace tw {

std::vector<int> schedule_staleness(const Schedule& schedule) {
    std::vector<int> staleness(static_cast<std::size_t>(schedule.stages), 0);
    if (schedule.boundary != StepBoundary::None) return staleness;
    for (const RankProgram& program : schedule.programs) {
        // Versions are counted modulo those that the rank keeps of the stage.
        std::vector<int> kept(staleness.size(), 1), latest(staleness.size(), 0);
        for (const Instruction& i : program.instructions)
            kept[i.stage] = std::max(kept[i.stage], i.weight_version + 1);
        for (const Instruction& i : program.instructions) {
            if (i.opcode == Opcode::OptimizerStep) latest[i.stage] = i.weight_version;
            if (!is_backward(i.opcode)) continue;
            const int behind = (latest[i.stage] - i.weight_version + kept[i.stage]) % kept[i.stage];
            staleness[i.stage] = std::max(staleness[i.stage], behind);
        }
    }
    return staleness;
}

}  // namespace tw
