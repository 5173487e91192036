// What a run writes to a checkpoint and how it goes on from one: weights in fp32, optimizer states, and how
// many updates there were. Neither layout nor compute type is part of it.
#pragma once

#include <string>
#include <vector>

#include "real_exec/checkpoint/checkpoint.hpp"
#include "real_exec/runtime/executor.hpp"

namespace tw {

// Hands this rank's share of the state to the writer; every element of the model comes from one rank.
Status save_checkpoint(CheckpointWriter& writer, Executor& executor, const PlanDocument& document,
                       const TrainOptions& options, const Dataset& dataset, std::int64_t steps_done);

struct Resumed {
    std::int64_t step = 0;
    std::vector<std::string> refused;  // checkpoints that are damaged
};
// The newest whole checkpoint of options.resume_folder into all states of this rank.
Result<Resumed> resume_from_checkpoint(Executor& executor, const TrainOptions& options,
                                       const PlanDocument& document, const Dataset& dataset,
                                       Backend& backend);

// The model's weights from safetensors under Hugging Face's names (with or without the name of the inner
// model in front), whatever the layout. Errors: a tensor that is not there, or has another shape.
Status start_from_weights(Executor& executor, const std::string& path, Backend& backend);

}  // namespace tw
