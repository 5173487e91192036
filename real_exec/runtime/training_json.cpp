#include "real_exec/runtime/training.hpp"

namespace tw {
namespace {

Json step_to_json(const StepResult& step) {
    Json json;
    json["step"] = step.step;
    json["loss"] = step.loss;
    json["grad_norm"] = step.grad_norm >= 0 ? Json(step.grad_norm) : Json(nullptr);
    json["learning_rate"] = step.learning_rate;
    json["step_time_s"] = step.step_time_s;
    json["tokens_per_s"] = step.tokens_per_s;
    json["exposed_communication_s"] = step.exposed_communication_s;
    json["allocated_bytes"] = step.allocated_bytes;
    json["peak_allocated_bytes"] = step.peak_allocated_bytes;
    if (step.loss_scale > 0) {
        json["loss_scale"] = step.loss_scale;
        json["skipped"] = step.skipped;
        json["skipped_steps"] = step.skipped_steps;
    }
    return json;
}

Json rank_result_to_json(const RankResult& rank) {
    Json json;
    json["rank"] = rank.rank;
    json["name"] = rank.name;
    json["peak_allocated_bytes"] = rank.peak_allocated_bytes;
    Json uses = Json::object();
    for (int use = 0; use < kMemoryUses; ++use) {
        uses[std::string(to_string(static_cast<MemoryUse>(use)))] =
            rank.peak_by_use[static_cast<std::size_t>(use)];
    }
    json["peak_by_use_bytes"] = uses;
    json["peak_resident_bytes"] = rank.peak_resident_bytes;
    json["waited_s"] = rank.waited_s;
    json["clock_offset_s"] = rank.clock_offset_s;
    json["clock_uncertainty_s"] = rank.clock_uncertainty_s;
    return json;
}

}  // namespace

std::string step_to_json_line(const StepResult& step) {
    return step_to_json(step).dump() + "\n";
}

Json train_result_to_json(const TrainResult& result) {
    Json json;
    json["backend"] = result.backend;
    json["first_step"] = result.first_step;
    json["steps"] = Json::array();
    for (const StepResult& step : result.steps)
        json["steps"].push_back(step_to_json(step));
    json["ranks"] = Json::array();
    for (const RankResult& rank : result.ranks)
        json["ranks"].push_back(rank_result_to_json(rank));
    json["notes"] = result.notes;
    json["interrupted"] = result.interrupted;
    return json;
}

}  // namespace tw
