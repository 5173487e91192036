// Small transformers whose training steps are timed kernel by kernel.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "plan/plan_json.hpp"

namespace tw {

struct TrainingModel {
    bool llama = false;
    std::int64_t hidden = 256, heads = 8, kv_heads = 8, head_dim = 32, ffn = 1024, vocab = 512, seq = 128,
                 microbatch = 8;
    Precision precision = Precision::Fp32;
    int layers = 2;

    [[nodiscard]] std::string name() const;  // "gpt h256 8x32 f1024 v512, 8x128"
};

// In the order in which they are worth timing.
std::span<const TrainingModel> training_models(bool host);

// One rank, one microbatch a step.
Result<PlanDocument> training_document(const TrainingModel& model);

}  // namespace tw
