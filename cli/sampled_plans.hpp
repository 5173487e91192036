// Plans drawn at random, to hold predictions against runs: small models, every synchronous schedule, tensor
// and data parallelism, ZeRO, recomputation, microbatches. The seed is the hash of the profile that predicts
// them, so that nobody chose them and the same profile draws them again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan_json.hpp"

namespace tw::cli {

struct PlanDraw {
    int plans = 20;
    std::vector<int> ranks = {1, 2};  // powers of two; a plan has one of these many, in turn
    std::uint64_t seed = 1;
    double longest_step_s = 0.6;  // predicted; longer ones are drawn again
};

// Legal ones that the executor runs, each with its cluster: N ranks on one node of the profile document at
// `profile_path`, also where they are more than it has cores.
Result<std::vector<PlanDocument>> draw_plans(const PlanDraw& draw, const std::string& profile_path);

// FNV-1a, 64 bits.
std::uint64_t hash_text(std::string_view text);

}  // namespace tw::cli
