// How a search went, for people.
#pragma once

#include <string>

#include "planner/request.hpp"

namespace tw {

// "1,203,400 configurations, 87 simulated; left out: 1,203,313 by bound. Proven best of the partitions tried,
// in 1.2 s."; without a best where nothing was `found`. Of one that was cut short: "...; 12 not reached. Cut
// short after 1.2 s."
std::string search_sentence(const SearchStatistics& search, bool found);

}  // namespace tw
