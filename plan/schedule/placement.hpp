// Which pipeline rank (replica 0) runs each virtual stage under a schedule.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/schedule/generator.hpp"

namespace tw {

// What the generator itself places, which does not depend on the number of microbatches. `shape` has passed
// check(). Remembered per thread: a search asks for few placements, often.
std::vector<std::uint16_t> rank_of_stage(const ScheduleGenerator& generator, const ScheduleShape& shape);

}  // namespace tw
