#include <algorithm>
#include <array>

#include "plan/schedule/passes/passes.hpp"
#include "plan/schedule/passes/program_edit.hpp"
#include "plan/schedule/passes/prototypes.hpp"

namespace tw {
namespace {

// The last compute and the rank's last `count` gradient collectives, found from the end of the program.
std::vector<ProgramEdit::Ref> gradients_ready(const ProgramEdit& edit, std::size_t count) {
    std::vector<ProgramEdit::Ref> waits;
    bool computed = false;
    for (std::size_t i = edit.size(); i-- > 0 && !(computed && count == 0);) {
        const Opcode opcode = edit.at(i).opcode;
        const bool gradient = opcode == Opcode::AllReduce || opcode == Opcode::ReduceScatter;
        if (!(gradient && count > 0) && (computed || !is_compute(opcode))) continue;
        if (gradient) {
            --count;
        } else {
            computed = true;
        }
        waits.push_back(static_cast<std::uint32_t>(i));
    }
    std::reverse(waits.begin(), waits.end());
    return waits;
}

std::size_t gradient_collectives(const LoweringOptions& options, std::span<const std::uint16_t> stages) {
    if (options.grad_sync == LoweringOptions::GradSync::None) return 0;
    std::size_t count = 0;
    for (const std::uint16_t stage : stages) {
        count += options.buckets.empty() ? 1 : static_cast<std::size_t>(options.buckets[stage]);
    }
    return count;
}

// Updated parameters of a stage. Overlapped, the gather belongs to the next step's beginning: it stands at
// the start of the program and the stage's first forward waits for it.
void gather_at_start(Prototypes& prototypes, ProgramEdit& edit, std::uint16_t stage) {
    const auto gather = edit.insert(0, prototypes.of(Opcode::AllGather, stage));
    for (std::size_t i = 0; i < edit.size(); ++i) {
        if (is_compute(edit.at(i).opcode) && edit.at(i).stage == stage) {
            edit.add_wait(static_cast<std::uint32_t>(i), gather);
            return;
        }
    }
}

}  // namespace

void finish_step(const LoweringOptions& options, Schedule& schedule) {
    const int ranks = schedule.ranks();
    const auto last_stage = static_cast<std::size_t>(schedule.stages - 1);
    const std::uint16_t first_rank = schedule.rank_of_stage[0];
    const std::uint16_t last_rank = schedule.rank_of_stage[last_stage];
    const std::uint16_t tied =
        options.tied_embeddings ? group_of_ranks(schedule, {first_rank, last_rank}) : std::uint16_t{0};
    std::uint16_t all_ranks = 0;
    if (options.grad_norm && schedule.boundary == StepBoundary::Barrier) {
        std::vector<std::uint16_t> everyone;
        for (int r = 0; r < ranks; ++r)
            everyone.push_back(static_cast<std::uint16_t>(r));
        all_ranks = group_of_ranks(schedule, everyone);
    }
    Prototypes prototypes(schedule);
    for (int r = 0; r < ranks; ++r) {
        ProgramEdit edit(schedule.programs[static_cast<std::size_t>(r)]);
        const std::vector<std::uint16_t> stages = schedule.stages_of_rank(r);
        std::vector<ProgramEdit::Ref> ready = gradients_ready(edit, gradient_collectives(options, stages));
        if (tied != 0 && (r == first_rank || r == last_rank)) {
            ready.push_back(edit.append(prototypes.of(Opcode::AllReduce, 0, 0, tied), ready));
        }
        if (options.grad_norm) {
            const auto norm = edit.append(prototypes.of(Opcode::GradNorm, 0, 0, all_ranks), ready);
            ready.assign(1, norm);
        }
        for (const std::uint16_t stage : stages) {
            const auto done = edit.append(prototypes.of(Opcode::OptimizerStep, stage), ready);
            if (options.parameter_server && options.grad_sync != LoweringOptions::GradSync::None) {
                // The server took the step; its parameters come back.
                edit.append(prototypes.of(Opcode::Broadcast, stage), std::array{done});
                continue;
            }
            if (!options.gather_params_after_step) continue;
            if (options.overlap_param_gather) {
                gather_at_start(prototypes, edit, stage);
            } else {
                edit.append(prototypes.of(Opcode::AllGather, stage), std::array{done});
            }
        }
        edit.apply();
    }
}

}  // namespace tw
