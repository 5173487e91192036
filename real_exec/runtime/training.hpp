// Training: one rank's whole run of a plan, from memory and initial values (or a checkpoint) to the last
// step, its trace and its figures.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "plan/plan_json.hpp"
#include "plan/trace/trace.hpp"
#include "real_exec/backend/backend.hpp"
#include "real_exec/comm/communicator.hpp"
#include "real_exec/runtime/train_options.hpp"

namespace tw {

struct StepResult {
    std::int64_t step = 0;
    double loss = 0;        // mean over the targets of the global batch
    double grad_norm = -1;  // before clipping; < 0: the schedule never knows it
    double learning_rate = 0;
    double step_time_s = 0;   // from the end of the step before to the end of this one, the slowest rank's
    double tokens_per_s = 0;  // samples where the model counts images
    double exposed_communication_s = 0;  // that ranks waited, mean
    double loss_scale = 0;               // of fp16; 0: none
    bool skipped = false;                // fp16: the gradient overflowed, nothing was updated
    std::int64_t skipped_steps = 0;      // of this run so far, this one among them
    // Of tensors, the rank's that has most: at the step's end, and the most so far.
    std::int64_t allocated_bytes = 0, peak_allocated_bytes = 0;
};

struct RankResult {
    int rank = 0;
    std::string name;  // "PP0 DP1 TP0"
    std::int64_t peak_allocated_bytes = 0;
    std::array<std::int64_t, kMemoryUses> peak_by_use{};
    std::int64_t peak_resident_bytes = 0;  // Backend::system_bytes; 0: not known
    double waited_s = 0;                   // a step, mean, without the first
    double clock_offset_s = 0, clock_uncertainty_s = 0;
};

struct TrainResult {
    std::string backend;
    std::int64_t first_step = 0;
    std::vector<StepResult> steps;
    std::vector<RankResult> ranks;
    std::vector<std::string> notes;  // stragglers, checkpoints that were refused
    bool interrupted = false;        // by TrainOptions::stop, before the last step
};

// What a run's options ask of a plan that it cannot do, with the option as context; empty: nothing.
Errors unsupported_options(const PlanDocument& document, const TrainOptions& options);

// Whether a run is to end by itself when it is interrupted: it has something to leave behind.
bool ends_when_asked(const TrainOptions& options);

// "rank 3: …", unless the message says so itself.
std::string of_rank(int rank, const std::string& message);

// Called on rank 0 when the figures of a step have arrived.
using OnStep = std::function<void(const StepResult& step)>;

// All ranks of the transport call it together. The result is whole on rank 0; the trace is written there. An
// error of one of several ranks is not returned: it ends all of them (Transport::abort) with its exit code,
// after its message has been written.
Result<TrainResult> train(const PlanDocument& document, const TrainOptions& options, Transport& transport,
                          Backend& backend, const OnStep& on_step = {});

// training_json.cpp: {"steps": [...], "ranks": [...], ...} without the document's head.
Json train_result_to_json(const TrainResult& result);
std::string step_to_json_line(const StepResult& step);

}  // namespace tw
