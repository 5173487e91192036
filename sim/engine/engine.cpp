#include "sim/engine/engine.hpp"

#include <algorithm>

namespace tw {
namespace {

constexpr int kMaxSteps = 32;  // rank-local boundaries settle within the pipeline's depth

// Host time after the anchor at which each instruction is dispatched; the last entries are the totals of each
// program.
void fill_host_offsets(const CompiledSchedule& c, const CostTable& costs, std::vector<SimTime>& offsets) {
    const auto ranks = static_cast<std::size_t>(c.ranks);
    offsets.resize(c.anchor.size() + ranks);
    for (std::size_t r = 0; r < ranks; ++r) {
        SimTime offset = 0;
        std::uint32_t anchor = c.host_lane[r];
        for (std::uint32_t i = c.program_begin[r]; i < c.program_begin[r + 1]; ++i) {
            if (c.anchor[i] != anchor) {
                anchor = c.anchor[i];
                offset = 0;
            }
            offsets[i] = offset;
            // An instruction's host work is its node's, except inside a batch group, whose node costs
            // nothing.
            offset += costs.dispatch[c.slot[c.end_node[i] - c.lane_count]];
        }
        offsets[c.anchor.size() + r] = offset;
    }
}

// One step: time[0, lanes) holds the carried lane states on entry.
void relax(const CompiledSchedule& c, const SimTime* duration, SimTime* time) {
    const std::size_t n = c.slot.size();
    const std::uint32_t* pred0 = c.pred0.data();
    const std::uint32_t* pred1 = c.pred1.data();
    const std::uint32_t* slot = c.slot.data();
    SimTime* end = time + c.lane_count;
    for (std::size_t i = 0; i < n; ++i)
        end[i] = std::max(time[pred0[i]], time[pred1[i]]) + duration[slot[i]];
}

void relax_with_host(const CompiledSchedule& c, const CostTable& costs, const std::vector<SimTime>& offsets,
                     SimTime* time) {
    const std::size_t n = c.slot.size();
    SimTime* end = time + c.lane_count;
    for (std::size_t i = 0; i < n; ++i) {
        const SimTime d = costs.duration[c.slot[i]];
        SimTime t = std::max(time[c.pred0[i]], time[c.pred1[i]]) + d;
        const SimTime path = costs.host_path[c.slot[i]];
        if (const std::uint32_t a = c.host0[i]; a != CompiledSchedule::kNone)
            t = std::max(t, time[c.anchor[a]] + offsets[a] + path);
        if (const std::uint32_t b = c.host1[i]; b != CompiledSchedule::kNone)
            t = std::max(t, time[c.anchor[b]] + offsets[b] + path);
        end[i] = t;
    }
}

// When each program's last lane became free.
void rank_ends(const CompiledSchedule& c, const std::vector<SimTime>& time, std::vector<SimTime>& ends) {
    ends.assign(static_cast<std::size_t>(c.ranks), 0);
    for (std::uint32_t lane = 0; lane < c.lane_count; ++lane) {
        ends[c.lane_rank[lane]] = std::max(ends[c.lane_rank[lane]], time[c.lane_end[lane]]);
    }
}

// Lane states for the next step: a rank begins it when all its own lanes have finished this one, so that
// updated parameters are there. The host runs ahead, but not past a global norm, whose value it reads.
void carry(const CompiledSchedule& c, bool host, const std::vector<SimTime>& offsets,
           const std::vector<SimTime>& ends, std::vector<SimTime>& time) {
    std::vector<SimTime> host_time;
    if (host) {
        host_time.resize(c.host_lane.size());
        for (std::size_t r = 0; r < c.host_lane.size(); ++r) {
            const std::uint32_t last = c.program_begin[r + 1];
            const std::uint32_t anchor = last > c.program_begin[r] ? c.anchor[last - 1] : c.host_lane[r];
            host_time[r] = time[anchor] + offsets[c.anchor.size() + r];
            for (const std::uint32_t b : c.barrier_nodes)
                host_time[r] = std::max(host_time[r], time[b]);
        }
    }
    for (std::uint32_t lane = 0; lane < c.lane_count; ++lane)
        time[lane] = ends[c.lane_rank[lane]];
    for (std::size_t r = 0; r < host_time.size(); ++r)
        time[c.host_lane[r]] = host_time[r];
}

}  // namespace

StepTimes run_engine(const CompiledSchedule& c, const CostTable& costs, EngineWorkspace& w) {
    const bool host = !costs.dispatch.empty();
    w.time.assign(c.time_entries(), 0);
    if (host) fill_host_offsets(c, costs, w.host_offset);
    w.previous_rank_end.assign(static_cast<std::size_t>(c.ranks), 0);
    std::vector<SimTime> rank_end(static_cast<std::size_t>(c.ranks));

    StepTimes result;
    const int steps = c.boundary == StepBoundary::None ? 1 : kMaxSteps;
    for (int step = 0; step < steps; ++step) {
        if (host) {
            relax_with_host(c, costs, w.host_offset, w.time.data());
        } else {
            relax(c, costs.duration.data(), w.time.data());
        }
        if (c.boundary == StepBoundary::None) break;
        rank_ends(c, w.time, rank_end);
        const SimTime all = *std::max_element(rank_end.begin(), rank_end.end());
        result.step_end.push_back(all);
        if (step == 0) {
            result.makespan = all;
        } else {
            result.period = 0;
            result.steady = true;
            for (std::size_t r = 0; r < rank_end.size(); ++r) {
                const SimTime own = rank_end[r] - w.previous_rank_end[r];
                result.steady &= own == rank_end[0] - w.previous_rank_end[0];
                result.period = std::max(result.period, own);
            }
            if (c.boundary == StepBoundary::Barrier)
                result.period = all - result.step_end[result.step_end.size() - 2];
            if (c.boundary == StepBoundary::Barrier || result.steady) break;
        }
        carry(c, host, w.host_offset, rank_end, w.time);
        std::swap(w.previous_rank_end, rank_end);
    }
    if (c.boundary == StepBoundary::None) {
        for (const std::uint32_t mark : c.step_marks)
            result.step_end.push_back(w.time[mark]);
        const std::size_t n = result.step_end.size();
        TW_CHECK_MSG(n >= 2, "a schedule without flush spans at least two steps");
        result.makespan = result.step_end.front();
        // The first and the last step hold the start-up and the drain.
        result.period = n >= 4 ? (result.step_end[n - 2] - result.step_end[1]) / static_cast<SimTime>(n - 3)
                               : (result.step_end[n - 1] - result.step_end[0]) / static_cast<SimTime>(n - 1);
    } else if (c.boundary == StepBoundary::Barrier) {
        result.steady = true;
    }
    result.period = std::max(result.period, costs.least_period);
    return result;
}

StepTimes run_engine(const Schedule& schedule, const CompiledSchedule& c, const CostTable& costs,
                     EngineWorkspace& w) {
    StepTimes times = run_engine(c, costs, w);
    if (c.boundary == StepBoundary::None) {
        const std::vector<SimTime> busy = busy_times(schedule, c, costs);
        times.period = std::max(times.period, *std::max_element(busy.begin(), busy.end()));
    }
    return times;
}

Trace trace_engine(const Schedule& schedule, const CompiledSchedule& c, const CostTable& costs, int steps) {
    const bool host = !costs.dispatch.empty();
    std::vector<SimTime> offsets;
    if (host) fill_host_offsets(c, costs, offsets);
    std::vector<SimTime> time(c.time_entries(), 0);
    std::vector<SimTime> ends;
    Trace trace;
    trace.origin = "simulated";
    trace.steps = c.boundary == StepBoundary::None ? c.steps : steps;
    trace.ranks.resize(static_cast<std::size_t>(c.ranks));
    for (int r = 0; r < c.ranks; ++r) {
        RankTrace& rank = trace.ranks[static_cast<std::size_t>(r)];
        rank.rank = r;
        rank.name = "PP" + std::to_string(r % c.pipeline_ranks);
        if (c.ranks > c.pipeline_ranks) rank.name += "-R" + std::to_string(r / c.pipeline_ranks);
        rank.pipeline_rank = r % c.pipeline_ranks;
        rank.replica = r / c.pipeline_ranks;
    }
    for (int step = 0; step < (c.boundary == StepBoundary::None ? 1 : steps); ++step) {
        if (host) {
            relax_with_host(c, costs, offsets, time.data());
        } else {
            relax(c, costs.duration.data(), time.data());
        }
        SimTime step_end = 0;
        for (int r = 0; r < c.ranks; ++r) {
            const RankProgram& program = schedule.programs[static_cast<std::size_t>(r % c.pipeline_ranks)];
            const std::uint32_t base = c.program_begin[static_cast<std::size_t>(r)];
            RankTrace& rank = trace.ranks[static_cast<std::size_t>(r)];
            std::int32_t updated = 0;  // step of the last backward, where one program is many steps
            for (std::uint32_t i = 0; i < program.instructions.size(); ++i) {
                const Instruction& in = program.instructions[i];
                const std::uint32_t begin = c.begin_node[base + i] - c.lane_count;
                const std::uint32_t end = c.end_node[base + i];
                TraceEvent event;
                event.instruction = in;
                event.index = i;
                event.step = step;
                if (c.boundary == StepBoundary::None) {
                    // Updates and what belongs to them have no microbatch: they follow its backward.
                    event.step = in.microbatch >= 0 ? in.microbatch / c.microbatches : updated;
                    if (is_backward(in.opcode)) updated = event.step;
                }
                event.end = time[end];
                event.start = std::max(time[c.pred0[begin]], time[c.pred1[begin]]);
                if (host) {  // the device is busy for the duration that precedes the end
                    event.start =
                        std::max(event.start, event.end - costs.duration[c.slot[end - c.lane_count]]);
                }
                event.arrival = event.start;
                if (begin + c.lane_count == end && (is_transfer(in.opcode) || in.group > 0)) {
                    event.arrival = 0;
                    for (const std::uint32_t w : program.waits_of(i))
                        event.arrival = std::max(event.arrival, time[c.end_node[base + w]]);
                    event.arrival = std::min(event.arrival, event.start);
                }
                step_end = std::max(step_end, event.end);
                rank.events.push_back(event);
            }
        }
        trace.step_end.push_back(step_end);
        rank_ends(c, time, ends);
        carry(c, host, offsets, ends, time);
    }
    if (c.boundary == StepBoundary::None) {
        trace.step_end.clear();
        for (const std::uint32_t mark : c.step_marks)
            trace.step_end.push_back(time[mark]);
    }
    return trace;
}

std::vector<SimTime> busy_times(const Schedule& schedule, const CompiledSchedule& c, const CostTable& costs) {
    std::vector<SimTime> busy(static_cast<std::size_t>(c.ranks), 0);
    for (int r = 0; r < c.ranks; ++r) {
        for (const Instruction& in :
             schedule.programs[static_cast<std::size_t>(r % c.pipeline_ranks)].instructions) {
            if (in.stream == Stream::Compute)
                busy[static_cast<std::size_t>(r)] += costs.duration[c.slot_of(r, in.duration_class)];
        }
        busy[static_cast<std::size_t>(r)] /= c.steps;
    }
    return busy;
}

}  // namespace tw
