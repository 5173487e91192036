// What a report says of the gradient synchronisation of a plan that does not simply sum: parameter servers,
// local steps, compression, weight versions.
#pragma once

#include <string>
#include <vector>

#include "base/json.hpp"
#include "plan/gradient_sync/staleness.hpp"
#include "plan/schedule/schedule.hpp"

namespace tw {

struct ParallelPlan;
class PlanCost;

// Bytes and seconds are of one step, of the rank that sends most; method is empty where neither method nor
// schedule differs from sums behind a flush, of which the report's communication says all.
struct GradientSyncReport {
    std::string method, title, source;  // registry name, words, paper (plan/gradient_sync)
    std::string semantics;
    std::string options;  // "servers 4, staleness 2": what the plan says that is no default
    bool exact = true;    // false: replicas apply another gradient than the sum
    int replicas = 1;
    double wire_bytes = 0;                  // sent by the rank; of local steps an average's share
    double server_bytes = 0, server_s = 0;  // through one server's port, the busier direction; 0: no server
    double memory_bytes = 0;                // beyond gradients and parameters
    double kernel_bytes = 0, kernel_s = 0;  // read and written to compress and decompress
    // Of asynchronous servers: updates of others that a gradient misses; else empty.
    StalenessDistribution staleness;
    bool bounded = false;  // the distribution ends where the plan says
    // Of schedules that keep weight versions, by stage: updates of its own that a gradient misses; else
    // empty.
    std::vector<int> stage_staleness;
    std::vector<std::string> approximate;  // what the figures leave out
};

GradientSyncReport gradient_sync_report(const ParallelPlan& plan, const PlanCost& costs,
                                        const Schedule& schedule);

// Of a report with a method. The distribution is listed as far as kShownProbabilities missed updates.
inline constexpr int kShownProbabilities = 64;
Json gradient_sync_to_json(const GradientSyncReport& report);
// Lines of two columns for the terminal, without a heading; `step_time_s` tells what a server's port paces.
std::string gradient_sync_lines(const GradientSyncReport& report, double step_time_s);

}  // namespace tw
