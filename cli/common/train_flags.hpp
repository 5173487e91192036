// The options of a training run, shared by `trainwright run` and by the ranks that it starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/common/command.hpp"
#include "plan/parallel_plan.hpp"
#include "real_exec/runtime/train_options.hpp"

namespace tw::cli {

struct TrainFlags {
    std::string plan;
    TrainOptions train;
    SyncOptions sync;  // as typed; take_sync_options makes the run's of them
    std::string decay = "constant";
    std::string backend = "cpu";    // or "cuda"
    std::string transport = "mpi";  // or "nccl"; mpi: device tensors travel through the host
    std::int64_t seed = 1;
    std::string inject;
    std::int64_t attempt = 0;  // of the run: restarts count
};

// `for_rank` adds what only a rank is told: --result, --attempt, --quiet.
void define_train_flags(Command& command, TrainFlags& flags, bool for_rank);
// With seed, decay and faults filled in; all usage errors at once.
Result<TrainOptions> train_options(const TrainFlags& flags);
// The plan's gradient_sync_options, with what was given on the command line in their place, as the run's.
void take_sync_options(const Command& command, const ParallelPlan& plan, TrainFlags& flags);
// Options that were typed and that a run of this plan has no use for.
Errors without_effect(const Command& command, const TrainFlags& flags, const ParallelPlan& plan);
// Faults of ranks that a run of `world` ranks does not have, and of steps that it does not reach.
Errors absent_faults(const std::vector<Fault>& faults, int world, std::int64_t steps);
// The same options as words for a rank.
std::vector<std::string> train_words(const TrainFlags& flags);

}  // namespace tw::cli
