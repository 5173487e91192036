// The scenario document: schema "trainwright/scenario", version 1. Every member is optional.
//
// {"schema": "trainwright/scenario", "version": 1,
//  "slow_ranks": [{"rank": 17, "time_factor": 1.3}, {"node": 3, "time_factor": 1.1}],
//  "delays": [{"rank": 1, "phase": "backward", "seconds": 0.2}],
//  "slow_nics": [{"node": 2, "rate_factor": 0.5}, {"node": 4, "nic": 1, "rate_factor": 0.1}],
//  "dead_nics": [{"node": 5, "nic": 0}],
//  "jitter": {"seed": 7, "compute_sigma": 0.02, "communication_sigma": 0.05},
//  "steps": 10, "contention": true, "all_ranks": false}
#pragma once

#include <string_view>

#include "base/json.hpp"
#include "sim/scenario/scenario.hpp"

namespace tw {

inline constexpr int kScenarioVersion = 1;
inline constexpr int kMaxScenarioSteps = 1000;

// All errors at once, with JSON pointers after `name`. Whether ranks and nodes exist is simulate_scenario's
// to say.
Result<Scenario> scenario_from_json(const Json& json, std::string_view name);
Result<Scenario> read_scenario(std::string_view path);
Json scenario_to_json(const Scenario& scenario);
Json scenario_result_to_json(const ScenarioResult& result);  // schema "trainwright/scenario-result"

}  // namespace tw
