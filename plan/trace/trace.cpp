#include "plan/trace/trace.hpp"

#include <algorithm>

namespace tw {

Trace align_clocks(Trace trace) {
    SimTime first = kNever;
    std::vector<SimTime> shifts;
    for (const RankTrace& rank : trace.ranks) {
        const SimTime shift = to_sim_time(Seconds(rank.clock_offset_s));
        shifts.push_back(shift);
        for (const TraceEvent& event : rank.events)
            first = std::min(first, event.arrival + shift);
    }
    if (first == kNever) return trace;
    for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
        RankTrace& rank = trace.ranks[r];
        const SimTime shift = shifts[r] - first;
        for (TraceEvent& event : rank.events) {
            event.arrival += shift;
            event.start += shift;
            event.end += shift;
        }
        for (MemorySample& sample : rank.memory)
            sample.time += shift;
        rank.clock_offset_s = 0;
    }
    for (SimTime& end : trace.step_end)
        end -= first;
    return trace;
}

}  // namespace tw
