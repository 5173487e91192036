// Which events of a trace belong to one meeting: a send and its receive, or one collective on all ranks of
// its group. O(n log n).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/trace/trace.hpp"

namespace tw {

// Position of an event: Trace::ranks[rank].events[event].
struct EventRef {
    std::uint32_t rank = 0;
    std::uint32_t event = 0;
    friend bool operator==(const EventRef&, const EventRef&) = default;
};

struct Rendezvous {
    // Meetings of at least two events, CSR; members ascend by rank. Meeting i is members[begin[i] ..
    // begin[i+1]).
    std::vector<std::uint32_t> begin = {0};
    std::vector<EventRef> members;
    // meeting_of[rank][event]: the meeting of that event, or kNone.
    static constexpr std::uint32_t kNone = 0xffffffffU;
    std::vector<std::vector<std::uint32_t>> meeting_of;

    [[nodiscard]] std::size_t size() const { return begin.size() - 1; }
    [[nodiscard]] std::span<const EventRef> members_of(std::size_t meeting) const {
        return {members.data() + begin[meeting], members.data() + begin[meeting + 1]};
    }
};

// The k-th send of (stage, microbatch) between two ranks meets the k-th receive of it; the k-th collective of
// (opcode, stage, microbatch, part, group) on one rank meets the k-th on the others: group 0 joins the
// replicas of one pipeline rank, a group > 0 the pipeline ranks of one replica. Events without a partner in
// the trace meet nobody.
Rendezvous match_rendezvous(const Trace& trace);

}  // namespace tw
