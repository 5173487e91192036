// Small traces for tests, made by a list scheduler that knows nothing of the engine: compute in the given
// order on each rank, transfers that start when their tensor is made.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "plan/trace/trace.hpp"

namespace tw::hand {

struct Costs {
    SimTime forward = 1, backward = 1, weight = 0, transfer = 0, sync = 0, optimizer = 0;
};

inline Instruction compute(Opcode opcode, int stage, int microbatch) {
    Instruction i;
    i.opcode = opcode;
    i.stage = static_cast<std::uint16_t>(stage);
    i.microbatch = microbatch;
    return i;
}

inline TraceEvent event(Instruction instruction, SimTime start, SimTime end, SimTime arrival = -1) {
    TraceEvent e;
    e.instruction = instruction;
    e.arrival = arrival < 0 ? start : arrival;
    e.start = start;
    e.end = end;
    return e;
}

using Order = std::vector<std::vector<Instruction>>;

inline Order gpipe(int ranks, int microbatches) {
    Order order(static_cast<std::size_t>(ranks));
    for (int r = 0; r < ranks; ++r) {
        auto& own = order[static_cast<std::size_t>(r)];
        for (int m = 0; m < microbatches; ++m)
            own.push_back(compute(Opcode::Forward, r, m));
        for (int m = 0; m < microbatches; ++m)
            own.push_back(compute(Opcode::Backward, r, m));
    }
    return order;
}

inline Order one_f_one_b(int ranks, int microbatches) {
    Order order(static_cast<std::size_t>(ranks));
    for (int r = 0; r < ranks; ++r) {
        auto& own = order[static_cast<std::size_t>(r)];
        const int warmup = std::min(microbatches, ranks - r);
        for (int m = 0; m < warmup; ++m)
            own.push_back(compute(Opcode::Forward, r, m));
        for (int m = 0; m < microbatches; ++m) {
            own.push_back(compute(Opcode::Backward, r, m));
            if (warmup + m < microbatches) own.push_back(compute(Opcode::Forward, r, warmup + m));
        }
    }
    return order;
}

// One rank a stage. Repeats the order `steps` times; every step ends with a gradient all-reduce of each stage
// (where costs.sync > 0), a barrier, and an optimizer step (where costs.optimizer > 0). A rank in `held_up`
// does nothing for so long when a step begins.
inline Trace run(const Order& order, Costs costs, int steps = 1, std::string title = "hand-made",
                 const std::map<int, SimTime>& held_up = {}) {
    const int ranks = static_cast<int>(order.size());
    Trace trace;
    trace.title = std::move(title);
    trace.origin = "simulated";
    trace.steps = steps;
    trace.ranks.resize(order.size());
    for (int r = 0; r < ranks; ++r)
        trace.ranks[static_cast<std::size_t>(r)].rank = r;
    SimTime step_begin = 0;
    for (int step = 0; step < steps; ++step) {
        std::vector<SimTime> clock(order.size(), step_begin);
        for (const auto& [r, time] : held_up)
            clock[static_cast<std::size_t>(r)] += time;
        std::map<std::tuple<bool, int, int>, SimTime> arrived;  // (gradient?, stage, microbatch)
        std::map<std::pair<int, int>, SimTime> lane;            // (from, to)
        std::vector<std::size_t> next(order.size(), 0);
        const auto add = [&](int r, TraceEvent e) {
            auto& events = trace.ranks[static_cast<std::size_t>(r)].events;
            e.step = step;
            e.index = static_cast<std::uint32_t>(std::count_if(
                events.begin(), events.end(), [&](const TraceEvent& x) { return x.step == step; }));
            events.push_back(e);
        };
        const auto send = [&](bool gradient, int from, int to, int microbatch, SimTime ready) {
            const SimTime start = std::max(ready, lane[{from, to}]);
            lane[{from, to}] = start + costs.transfer;
            arrived[{gradient, to, microbatch}] = start + costs.transfer;
            Instruction s = compute(gradient ? Opcode::SendGrad : Opcode::SendActivation, from, microbatch);
            s.stream = Stream::P2p;
            s.peer = static_cast<std::uint16_t>(to);
            s.communicator = gradient ? 1 : 0;
            s.size_class = 1;
            Instruction v = compute(gradient ? Opcode::RecvGrad : Opcode::RecvActivation, to, microbatch);
            v.stream = Stream::P2p;
            v.peer = static_cast<std::uint16_t>(from);
            v.communicator = gradient ? 3 : 2;
            v.size_class = 1;
            add(from, event(s, start, start + costs.transfer, ready));
            add(to, event(v, start, start + costs.transfer,
                          std::min(start, clock[static_cast<std::size_t>(to)])));
        };
        for (bool progress = true; progress;) {
            progress = false;
            for (int r = 0; r < ranks; ++r) {
                const auto at = static_cast<std::size_t>(r);
                if (next[at] == order[at].size()) continue;
                const Instruction& i = order[at][next[at]];
                const bool forward = i.opcode == Opcode::Forward;
                const bool weight = i.opcode == Opcode::BackwardWeight;
                const bool needs = forward ? r > 0 : !weight && r + 1 < ranks;
                SimTime ready = clock[at];
                if (needs) {
                    const auto found = arrived.find({!forward, r, i.microbatch});
                    if (found == arrived.end()) continue;
                    ready = std::max(ready, found->second);
                }
                const SimTime end = ready + (forward  ? costs.forward
                                             : weight ? costs.weight
                                                      : costs.backward);
                add(r, event(i, ready, end));
                clock[at] = end;
                if (forward && r + 1 < ranks) send(false, r, r + 1, i.microbatch, end);
                if (!forward && !weight && r > 0) send(true, r, r - 1, i.microbatch, end);
                ++next[at];
                progress = true;
            }
        }
        SimTime barrier = 0;
        for (int r = 0; r < ranks; ++r) {
            SimTime& own = clock[static_cast<std::size_t>(r)];
            if (costs.sync > 0) {
                Instruction sync = compute(Opcode::AllReduce, r, kNoMicrobatch);
                sync.stream = Stream::Dp;
                add(r, event(sync, own, own + costs.sync));
                own += costs.sync;
            }
            barrier = std::max(barrier, own);
        }
        step_begin = barrier;
        if (steps > 1 || costs.optimizer > 0) {  // the gradient norm, without a duration of its own
            for (int r = 0; r < ranks; ++r) {
                Instruction norm = compute(Opcode::GradNorm, r, kNoMicrobatch);
                norm.stream = Stream::Dp;
                norm.communicator = 1;
                norm.group = 1;
                add(r, event(norm, barrier, barrier, clock[static_cast<std::size_t>(r)]));
            }
        }
        if (costs.optimizer > 0) {
            for (int r = 0; r < ranks; ++r) {
                add(r, event(compute(Opcode::OptimizerStep, r, kNoMicrobatch), barrier,
                             barrier + costs.optimizer));
            }
            step_begin += costs.optimizer;
        }
        trace.step_end.push_back(step_begin);
    }
    return trace;
}

// Memory that follows the trace: constant state, and one activation a microbatch in flight.
inline void add_memory(Trace& trace, std::int64_t state, std::int64_t activation, std::int64_t capacity) {
    trace.memory_categories = {"parameters", "optimizer", "activations"};
    trace.memory_capacity_bytes = capacity;
    for (RankTrace& rank : trace.ranks) {
        std::vector<std::pair<SimTime, int>> changes;
        for (const TraceEvent& e : rank.events) {
            if (e.instruction.opcode == Opcode::Forward) changes.emplace_back(e.start, 1);
            if (e.instruction.opcode == Opcode::Backward) changes.emplace_back(e.end, -1);
        }
        std::sort(changes.begin(), changes.end());
        rank.memory.push_back({0, {state, 3 * state, 0}});
        std::int64_t held = 0;
        for (const auto& [time, change] : changes) {
            held += change;
            rank.memory.push_back({time, {state, 3 * state, held * activation}});
        }
    }
}

}  // namespace tw::hand
