// Who arrives late: at every collective that joins several programs, how long each was ready before the last
// one was. Overlapping waits of one program count once.
#pragma once

#include <span>
#include <vector>

#include "base/sim_time.hpp"
#include "plan/schedule/schedule.hpp"
#include "sim/engine/compiled_schedule.hpp"

namespace tw {

// One step's waits by program; `time` are its time entries. A collective without explicit waits says nothing
// about arrivals and is left out.
std::vector<SimTime> collective_waits(const Schedule& schedule, const CompiledSchedule& compiled,
                                      std::span<const SimTime> time);

}  // namespace tw
