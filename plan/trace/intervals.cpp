#include "plan/trace/intervals.hpp"

#include <algorithm>

namespace tw {

Intervals merged(Intervals intervals) {
    std::erase_if(intervals, [](const Interval& i) { return i.end <= i.begin; });
    std::sort(intervals.begin(), intervals.end(),
              [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
    Intervals out;
    for (const Interval& interval : intervals) {
        if (!out.empty() && interval.begin <= out.back().end) {
            out.back().end = std::max(out.back().end, interval.end);
        } else {
            out.push_back(interval);
        }
    }
    return out;
}

SimTime length(const Intervals& set) {
    SimTime total = 0;
    for (const Interval& interval : set)
        total += interval.end - interval.begin;
    return total;
}

Intervals difference(const Intervals& a, const Intervals& b) {
    Intervals out;
    std::size_t j = 0;
    for (const Interval& interval : a) {
        SimTime at = interval.begin;
        while (j < b.size() && b[j].end <= at)
            ++j;
        for (std::size_t k = j; k < b.size() && b[k].begin < interval.end; ++k) {
            if (b[k].begin > at) out.push_back({at, b[k].begin});
            at = std::max(at, b[k].end);
        }
        if (at < interval.end) out.push_back({at, interval.end});
    }
    return out;
}

}  // namespace tw
