#include <array>

#include "base/check.hpp"
#include "plan/schedule/passes/passes.hpp"
#include "plan/schedule/passes/program_edit.hpp"

namespace tw {
namespace {

bool finishes_weight_gradient(const Instruction& instruction) {
    return instruction.opcode == Opcode::Backward || instruction.opcode == Opcode::BackwardWeight ||
           instruction.opcode == Opcode::OverlapForwardBackward;
}

std::uint16_t backward_stage(const Instruction& instruction) {
    return instruction.opcode == Opcode::OverlapForwardBackward ? instruction.stage2 : instruction.stage;
}

}  // namespace

void synchronise_gradients(const LoweringOptions& options, Schedule& schedule) {
    if (options.grad_sync == LoweringOptions::GradSync::None) return;
    TW_CHECK(options.buckets.empty() || options.buckets.size() == static_cast<std::size_t>(schedule.stages));
    for (int rank = 0; rank < schedule.ranks(); ++rank) {
        ProgramEdit edit(schedule.programs[static_cast<std::size_t>(rank)]);
        // Backwards in program order; the last of each stage, found from the end.
        std::vector<std::uint32_t> backwards;
        std::vector<char> seen(static_cast<std::size_t>(schedule.stages), 0);
        std::uint32_t last_compute = 0;
        std::size_t unseen = schedule.stages_of_rank(rank).size();
        for (std::size_t i = edit.size(); i-- > 0 && (unseen > 0 || options.sync_every_microbatch);) {
            const Instruction& instruction = edit.at(i);
            if (is_compute(instruction.opcode))
                last_compute = std::max(last_compute, static_cast<std::uint32_t>(i));
            if (!finishes_weight_gradient(instruction)) continue;
            const bool last_chunk = instruction.part == 0 || seen[backward_stage(instruction)] == 0;
            if (seen[backward_stage(instruction)] != 0 && !(options.sync_every_microbatch && last_chunk))
                continue;
            if (seen[backward_stage(instruction)] == 0) --unseen;
            seen[backward_stage(instruction)] = 1;
            backwards.push_back(static_cast<std::uint32_t>(i));
        }
        for (auto it = backwards.rbegin(); it != backwards.rend(); ++it) {
            const std::uint32_t at = *it;
            const Instruction& backward = edit.at(at);
            const std::uint16_t stage = backward_stage(backward);
            const int buckets = options.buckets.empty() ? 1 : options.buckets[stage];
            for (int bucket = 0; bucket < buckets; ++bucket) {
                Instruction sync;
                const bool all_reduce =
                    options.grad_sync == LoweringOptions::GradSync::AllReduce && !options.parameter_server;
                sync.opcode = all_reduce ? Opcode::AllReduce : Opcode::ReduceScatter;
                sync.stream = Stream::Dp;
                sync.stage = stage;
                if (options.sync_every_microbatch) {
                    sync.microbatch = backward.opcode == Opcode::OverlapForwardBackward ? backward.microbatch2
                                                                                        : backward.microbatch;
                }
                sync.part = static_cast<std::uint32_t>(bucket);
                set_classes(schedule, sync);
                if (!options.overlap_grad_sync && !options.sync_every_microbatch) {
                    edit.append(sync, std::array{last_compute});
                    continue;
                }
                // Chunk k of a split backward is k - last places before its last one.
                const std::uint32_t chunks_after =
                    backward.part == 0 ? 0 : backward.part - 1 - static_cast<std::uint32_t>(bucket);
                const std::uint32_t ready = at - chunks_after;
                TW_CHECK(backward_stage(edit.at(ready)) == stage);
                const auto done = edit.insert(ready + 1, sync, {ready});
                // Without overlap the next compute waits.
                if (!options.overlap_grad_sync) {
                    for (std::size_t next = at + 1; next < edit.size(); ++next) {
                        if (!is_compute(edit.at(next).opcode)) continue;
                        edit.add_wait(static_cast<std::uint32_t>(next), done);
                        break;
                    }
                }
            }
        }
        edit.apply();
    }
}

}  // namespace tw
