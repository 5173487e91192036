// Sets of time as sorted disjoint intervals.
#pragma once

#include <vector>

#include "base/sim_time.hpp"

namespace tw {

struct Interval {
    SimTime begin = 0, end = 0;
    friend bool operator==(const Interval&, const Interval&) = default;
};
using Intervals = std::vector<Interval>;

Intervals merged(Intervals intervals);                         // any order and overlaps in; O(n log n)
SimTime length(const Intervals& set);                          // of a merged set
Intervals difference(const Intervals& a, const Intervals& b);  // both merged; O(n + m)

}  // namespace tw
