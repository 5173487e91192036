// Staleness that a schedule itself brings: of those that keep weight versions and never flush.
#pragma once

#include <vector>

#include "plan/schedule/schedule.hpp"

namespace tw {

// For each stage, by how many of its own updates the weights of a gradient are older than the stage's latest,
// the most in any of its backwards: pipedream_staleness (staleness.hpp) of PipeDream without replicas, 1 of
// PipeDream-2BW (Narayanan et al. 2021, section 3.1). All 0 where a step ends with a flush. Read off the
// versions that the instructions name.
std::vector<int> schedule_staleness(const Schedule& schedule);

}  // namespace tw
