#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "plan/trace/analyze.hpp"

namespace tw {
namespace {

// The events of one (stream, communicator) of a rank. A lane is a FIFO, so positions and ends both ascend.
struct Lane {
    Stream stream = Stream::Compute;
    std::uint16_t communicator = 0;
    std::vector<std::uint32_t> events;
};

std::vector<Lane> lanes_of(const RankTrace& rank) {
    std::map<std::pair<Stream, std::uint16_t>, Lane> lanes;
    for (std::uint32_t e = 0; e < rank.events.size(); ++e) {
        if (rank.events[e].inside_another()) continue;
        const Instruction& i = rank.events[e].instruction;
        Lane& lane = lanes[{i.stream, i.communicator}];
        lane.stream = i.stream;
        lane.communicator = i.communicator;
        lane.events.push_back(e);
    }
    std::vector<Lane> out;
    for (auto& [key, lane] : lanes)
        out.push_back(std::move(lane));
    return out;
}

class PathWalk {
  public:
    PathWalk(const Trace& trace, const Rendezvous& rendezvous, int first_step)
        : trace_(trace), rendezvous_(rendezvous), first_step_(first_step) {
        for (const RankTrace& rank : trace.ranks) {
            lanes_.push_back(lanes_of(rank));
            visited_.emplace_back(rank.events.size(), false);
        }
    }

    CriticalPath from(EventRef at) {
        CriticalPath path;
        path.by_work.assign(kWorkKinds, 0);
        SimTime last_end = event(at).end;
        for (;;) {
            visited_[at.rank][at.event] = true;
            const TraceEvent& e = event(at);
            path.segments.push_back({at, e.start, e.end, 0});
            path.by_work[static_cast<std::size_t>(work_of(e.instruction))] += e.end - e.start;
            EventRef before;
            if (!cause_of(at, before)) break;
            // What lies between: this start and the end of what came before.
            path.segments.back().gap = e.start - event(before).end;
            path.gaps += path.segments.back().gap;
            at = before;
        }
        std::reverse(path.segments.begin(), path.segments.end());
        path.length = last_end - path.segments.front().start;
        return path;
    }

  private:
    const TraceEvent& event(EventRef ref) const { return trace_.ranks[ref.rank].events[ref.event]; }

    // What determined the start of `at`, on its own rank or on that of a partner.
    bool cause_of(EventRef at, EventRef& before) {
        const SimTime start = event(at).start;
        const std::uint32_t meeting = rendezvous_.meeting_of[at.rank][at.event];
        if (meeting == Rendezvous::kNone) return predecessor(at, start, false, before);
        SimTime late = event(at).arrival;
        for (const EventRef member : rendezvous_.members_of(meeting)) {
            visited_[member.rank][member.event] = true;
            late = std::max(late, event(member).arrival);
        }
        late = std::min(late, start);
        // All were ready before it began: a lane was taken on one side. Else whoever arrived last held it up.
        if (late < start && latest(meeting, start, true, late, before)) return true;
        return latest(meeting, late, false, -kNever, before);
    }

    // The latest predecessor of those members of a meeting that arrived last (of all members: same_lane).
    bool latest(std::uint32_t meeting, SimTime ready, bool same_lane, SimTime after, EventRef& before) const {
        bool found = false;
        for (const EventRef member : rendezvous_.members_of(meeting)) {
            if (!same_lane && event(member).arrival < ready) continue;
            EventRef candidate;
            if (!predecessor(member, ready, same_lane, candidate) || event(candidate).end <= after) continue;
            if (!found || event(candidate).end > event(before).end) before = candidate;
            found = true;
        }
        return found;
    }

    // The latest end at or before `ready` among earlier instructions of the rank, or of the same lane alone.
    bool predecessor(EventRef at, SimTime ready, bool same_lane, EventRef& before) const {
        const RankTrace& rank = trace_.ranks[at.rank];
        const Instruction& own = rank.events[at.event].instruction;
        bool found = false;
        SimTime best_end = 0;
        bool best_own_lane = false;
        for (const Lane& lane : lanes_[at.rank]) {
            const bool own_lane = lane.stream == own.stream && lane.communicator == own.communicator;
            if (same_lane && !own_lane) continue;
            auto last = std::partition_point(lane.events.begin(), lane.events.end(), [&](std::uint32_t e) {
                return e < at.event && rank.events[e].end <= ready;
            });
            while (last != lane.events.begin() && visited_[at.rank][*(last - 1)])
                --last;
            if (last == lane.events.begin()) continue;
            const std::uint32_t candidate = *(last - 1);
            if (rank.events[candidate].step < first_step_) continue;
            const SimTime end = rank.events[candidate].end;
            if (!found || end > best_end || (end == best_end && own_lane && !best_own_lane)) {
                found = true;
                best_end = end;
                best_own_lane = own_lane;
                before = {at.rank, candidate};
            }
        }
        return found;
    }

    const Trace& trace_;
    const Rendezvous& rendezvous_;
    int first_step_;
    std::vector<std::vector<Lane>> lanes_;
    std::vector<std::vector<bool>> visited_;
};

}  // namespace

CriticalPath critical_path(const Trace& trace, const Rendezvous& rendezvous, int first_step, int last_step) {
    EventRef last;
    SimTime end = -kNever;
    for (std::uint32_t r = 0; r < trace.ranks.size(); ++r) {
        const auto& events = trace.ranks[r].events;
        for (std::uint32_t e = 0; e < events.size(); ++e) {
            if (events[e].step < first_step || (last_step >= 0 && events[e].step > last_step)) continue;
            if (events[e].end > end && !events[e].inside_another()) {
                end = events[e].end;
                last = {r, e};
            }
        }
    }
    if (end == -kNever) {
        CriticalPath empty;
        empty.by_work.assign(kWorkKinds, 0);
        return empty;
    }
    return PathWalk(trace, rendezvous, first_step).from(last);
}

std::vector<std::string> describe(const Trace& trace, const CriticalPath& path) {
    std::vector<std::string> lines;
    const auto at = [&](std::size_t k) -> const TraceEvent& {
        const EventRef ref = path.segments[k].event;
        return trace.ranks[ref.rank].events[ref.event];
    };
    for (std::size_t k = 0; k < path.segments.size();) {
        const Instruction& first = at(k).instruction;
        const std::uint32_t rank = path.segments[k].event.rank;
        if (path.segments[k].gap > 0 && path.segments[k].gap * 1000 >= path.length) {
            lines.push_back(fmt::format("rank {}: nothing for {}", trace.ranks[rank].rank,
                                        format_sim_time(path.segments[k].gap)));
        }
        std::size_t last = k;
        SimTime time = path.segments[k].end - path.segments[k].start;
        while (last + 1 < path.segments.size() && path.segments[last + 1].event.rank == rank &&
               at(last + 1).instruction.opcode == first.opcode &&
               at(last + 1).instruction.stage == first.stage &&
               path.segments[last + 1].gap * 1000 < path.length) {
            ++last;
            time += path.segments[last].end - path.segments[last].start;
        }
        std::string line = fmt::format("rank {}: {}", trace.ranks[rank].rank, to_string(first));
        if (last > k) line += fmt::format("..{} ({})", to_string(at(last).instruction), last - k + 1);
        lines.push_back(fmt::format("{} {}", line, format_sim_time(time)));
        k = last + 1;
    }
    return lines;
}

}  // namespace tw
