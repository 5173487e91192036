// What waiting costs among more ranks than cores, from the samples of profiler/bench/crowd.cpp.
#pragma once

#include <utility>
#include <vector>

#include "models/hardware/profile_document.hpp"

namespace tw {

// Between two all-reduces of the samples "products, all_reduce".
constexpr std::int64_t kCrowdProducts = 8;

// Seconds by mode of the host's entries, whose meaning is in sim/cost/crowd_wait.hpp. Empty where no crowd
// was measured.
std::vector<std::pair<const char*, double>> crowd_waits(const std::vector<SampleSeries>& samples);

}  // namespace tw
