#include "plan/trace/analyze.hpp"

#include <algorithm>
#include <array>

#include "plan/trace/intervals.hpp"

namespace tw {
namespace {

constexpr std::size_t index_of(Work work) {
    return static_cast<std::size_t>(work);
}

// Which cause an idle instant counts for where several kinds of communication run.
constexpr std::array kIdleOrder = {Work::TensorParallel,   Work::ExpertParallel, Work::DataParallel,
                                   Work::PipelineTransfer, Work::Offload,        Work::Host};

RankStep analyze_rank_step(const std::vector<const TraceEvent*>& events, const Intervals& all_work,
                           SimTime period) {
    RankStep out;
    out.by_work.assign(kWorkKinds, 0);
    out.idle_by_work.assign(kWorkKinds, 0);
    Intervals work;
    std::array<Intervals, kWorkKinds> lanes;
    std::array<SimTime, kWorkKinds> waiting{};
    for (const TraceEvent* event : events) {
        const Work kind = work_of(event->instruction);
        out.by_work[index_of(kind)] += event->end - event->start;
        if (is_device_work(kind)) {
            work.push_back({event->start, event->end});
        } else {
            lanes[index_of(kind)].push_back({event->start, event->end});
            waiting[index_of(kind)] += event->start - event->arrival;
        }
    }
    work = merged(std::move(work));
    out.busy = length(work);
    out.idle = std::max<SimTime>(0, period - out.busy);
    out.bubble_fraction = period > 0 ? static_cast<double>(out.idle) / static_cast<double>(period) : 0;

    std::array<Intervals, kWorkKinds> exposed;
    for (std::size_t kind = 0; kind < kWorkKinds; ++kind) {
        const bool any = !lanes[kind].empty();
        lanes[kind] = merged(std::move(lanes[kind]));
        exposed[kind] = difference(lanes[kind], all_work);
        if (any && is_communication(static_cast<Work>(kind))) {
            out.communication.push_back(
                {static_cast<Work>(kind), length(lanes[kind]), length(exposed[kind]), waiting[kind]});
        }
    }
    out.bubble = out.idle;
    Intervals explained;
    for (const Work kind : kIdleOrder) {
        const Intervals own = difference(exposed[index_of(kind)], explained);
        const SimTime share = std::min(length(own), out.bubble);
        out.idle_by_work[index_of(kind)] = share;
        out.bubble -= share;
        explained.insert(explained.end(), own.begin(), own.end());
        explained = merged(std::move(explained));
    }
    return out;
}

}  // namespace

std::vector<SimTime> step_ends(const Trace& trace) {
    if (!trace.step_end.empty()) return trace.step_end;
    int steps = 0;
    for (const RankTrace& rank : trace.ranks) {
        for (const TraceEvent& event : rank.events)
            steps = std::max(steps, event.step + 1);
    }
    std::vector<SimTime> ends(static_cast<std::size_t>(steps), 0);
    for (const RankTrace& rank : trace.ranks) {
        for (const TraceEvent& event : rank.events) {
            SimTime& end = ends[static_cast<std::size_t>(event.step)];
            end = std::max(end, event.end);
        }
    }
    return ends;
}

RankInFlight in_flight(const RankTrace& rank) {
    using Key = std::pair<std::int32_t, std::int32_t>;  // stage, microbatch
    std::vector<Key> split;
    for (const TraceEvent& event : rank.events) {
        const Instruction& i = event.instruction;
        if (i.opcode == Opcode::BackwardWeight) split.emplace_back(i.stage, i.microbatch);
    }
    std::sort(split.begin(), split.end());
    const auto releases = [&](std::int32_t stage, std::int32_t microbatch) {
        return !std::binary_search(split.begin(), split.end(), Key(stage, microbatch));
    };
    std::vector<std::pair<SimTime, int>> changes;
    for (const TraceEvent& event : rank.events) {
        const Instruction& i = event.instruction;
        if (i.opcode == Opcode::Forward || i.opcode == Opcode::OverlapForwardBackward)
            changes.emplace_back(event.start, 1);
        const bool overlapped = i.opcode == Opcode::OverlapForwardBackward;
        if (i.opcode == Opcode::BackwardWeight ||
            ((i.opcode == Opcode::Backward || i.opcode == Opcode::BackwardInput) &&
             releases(i.stage, i.microbatch)) ||
            (overlapped && releases(i.stage2, i.microbatch2))) {
            changes.emplace_back(event.end, -1);
        }
    }
    std::sort(changes.begin(), changes.end());  // at one instant, what frees comes first
    RankInFlight out;
    int held = 0;
    for (const auto& [time, change] : changes) {
        held += change;
        if (!out.samples.empty() && out.samples.back().time == time) {
            out.samples.back().microbatches = held;
        } else {
            out.samples.push_back({time, held});
        }
        out.peak = std::max(out.peak, held);
    }
    return out;
}

std::vector<StepAnalysis> analyze_steps(const Trace& trace) {
    std::vector<StepAnalysis> out;
    const std::vector<SimTime> ends = step_ends(trace);
    SimTime begin = kNever;
    std::vector<Intervals> all_work;
    std::vector<std::vector<std::vector<const TraceEvent*>>> by_step(std::max<std::size_t>(1, ends.size()));
    for (auto& step : by_step)
        step.resize(trace.ranks.size());
    for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
        Intervals work;
        for (const TraceEvent& event : trace.ranks[r].events) {
            begin = std::min(begin, event.start);
            if (is_device_work(work_of(event.instruction))) work.push_back({event.start, event.end});
            const auto step = static_cast<std::size_t>(std::max(0, event.step));
            if (step < by_step.size()) by_step[step][r].push_back(&event);
        }
        all_work.push_back(merged(std::move(work)));
    }
    if (begin == kNever) begin = 0;
    for (std::size_t s = 0; s < by_step.size(); ++s) {
        StepAnalysis step;
        step.step = static_cast<int>(s);
        step.begin = s == 0 ? begin : ends[s - 1];
        step.end = ends.empty() ? begin : ends[s];
        double idle = 0;  // of thousands of ranks, hours each: more than SimTime holds
        for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
            step.ranks.push_back(analyze_rank_step(by_step[s][r], all_work[r], step.period()));
            idle += static_cast<double>(step.ranks.back().idle);
        }
        const double available = static_cast<double>(step.period()) * static_cast<double>(trace.ranks.size());
        step.bubble_fraction = available > 0 ? idle / available : 0;
        out.push_back(std::move(step));
    }
    return out;
}

TraceAnalysis analyze(const Trace& trace) {
    TraceAnalysis out;
    out.steps = analyze_steps(trace);
    for (const RankTrace& rank : trace.ranks)
        out.in_flight.push_back(in_flight(rank));
    out.critical_path = critical_path(trace, match_rendezvous(trace));
    return out;
}

}  // namespace tw
