// What a trace says: who was busy when, what idled and why, and which chain of events decided the time. The
// trace has its clocks aligned (align_clocks). Everything is O(n log n) in its events.
//
// Definitions. A step's period is the distance of its completion to the step before's (step 0: to the first
// start). Busy is the length of the union of a step's device work (kernels, optimizer, copies on the device);
// idle = period - busy; bubble fraction = idle / period. Communication is exposed where no device work runs
// on the same rank, else hidden.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/trace/event_text.hpp"
#include "plan/trace/rendezvous.hpp"

namespace tw {

struct CommunicationTime {
    Work work = Work::PipelineTransfer;  // a communication kind
    SimTime total = 0;                   // union of start..end on the rank's lanes of this kind
    SimTime exposed = 0;                 // of it, beside no device work
    SimTime waiting = 0;                 // sum of arrival..start: this rank was ready, another was not
    [[nodiscard]] SimTime hidden() const { return total - exposed; }
};

struct RankStep {
    SimTime busy = 0;
    SimTime idle = 0;
    double bubble_fraction = 0;
    std::vector<SimTime> by_work;  // kWorkKinds entries, sum of durations of this step's events
    std::vector<CommunicationTime> communication;  // kinds that occur, in Work's order
    // Idle time by cause: communication of each kind where several run, the first in the order tp, ep, dp,
    // pp, offload, host counts (kWorkKinds entries); bubble is what no communication explains. They add up to
    // idle.
    std::vector<SimTime> idle_by_work;
    SimTime bubble = 0;
};

struct StepAnalysis {
    int step = 0;
    SimTime begin = 0, end = 0;   // the period
    std::vector<RankStep> ranks;  // as Trace::ranks
    double bubble_fraction = 0;   // idle share over all ranks
    [[nodiscard]] SimTime period() const { return end - begin; }
};

struct InFlightSample {
    SimTime time = 0;
    int microbatches = 0;  // held from here on
};

struct RankInFlight {
    std::vector<InFlightSample> samples;
    int peak = 0;
};

struct PathSegment {
    EventRef event;
    SimTime start = 0, end = 0;
    SimTime gap =
        0;  // between the end of what came before and this start that no event explains (host, clock error)
};

struct CriticalPath {
    std::vector<PathSegment> segments;  // ascending in time
    SimTime length = 0;                 // from the first start to the last end
    std::vector<SimTime> by_work;       // kWorkKinds entries
    SimTime gaps = 0;
};

struct TraceAnalysis {
    std::vector<StepAnalysis> steps;
    // The last step: the steady period where there are at least two.
    [[nodiscard]] const StepAnalysis& steady() const { return steps.back(); }
    std::vector<RankInFlight> in_flight;  // as Trace::ranks
    CriticalPath critical_path;
};

// A trace without events gives one empty step.
TraceAnalysis analyze(const Trace& trace);
std::vector<StepAnalysis> analyze_steps(const Trace& trace);  // its steps alone

// Completion of each step: Trace::step_end, or the last end of its events where that is not recorded.
std::vector<SimTime> step_ends(const Trace& trace);

// Microbatches (times chunks) whose activations a rank holds: from the start of a forward to the end of the
// backward that frees them, the weight part where the schedule splits it.
RankInFlight in_flight(const RankTrace& rank);

// Back from the last end of `last_step` (-1: of the trace) to the event that determined each start: for a
// transfer or a collective first to the rank that arrived last (or to the lane that was still taken when all
// had arrived), then to the latest end at or before that arrival on that rank. Among equals the event's own
// lane wins, then the lower stream. Steps before `first_step` end the walk.
CriticalPath critical_path(const Trace& trace, const Rendezvous& rendezvous, int first_step = 0,
                           int last_step = -1);

// "rank 0: 0F0 12.1 ms"; runs of the same opcode, stage and rank are one line ("rank 3: 3F0..3F7 (8) 96.8
// ms"), gaps of at least a thousandth of the path are named.
std::vector<std::string> describe(const Trace& trace, const CriticalPath& path);

}  // namespace tw
