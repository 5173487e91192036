// Traces for the tests of the timeline's geometry: hand-made pipelines, and random ones.
#pragma once

#include <memory>
#include <string>

#include "base/prng.hpp"
#include "gui/view/trace_model.hpp"
#include "tests/plan/trace/hand_traces.hpp"

namespace tw::view_test {

inline std::shared_ptr<const TraceModel> model_of(Trace trace) {
    return make_trace_model(std::make_shared<const Trace>(std::move(trace)));
}

// 1F1B with transfers, gradient synchronisation and an optimizer step; two ranks a node.
inline Trace pipeline_trace(int ranks = 4, int microbatches = 8, int steps = 2) {
    constexpr SimTime kMs = 1'000'000'000;
    Trace trace = hand::run(hand::one_f_one_b(ranks, microbatches),
                            {10 * kMs, 20 * kMs, 0, kMs, 5 * kMs, 2 * kMs}, steps);
    for (RankTrace& rank : trace.ranks) {
        rank.name = "PP0" + std::to_string(rank.rank);
        rank.node = "node" + std::to_string(rank.rank / 2);
    }
    return trace;
}

// Lanes of random tasks: dense and sparse stretches, instants, long ones; sometimes overlapping.
inline Trace random_trace(std::uint64_t seed, int ranks, int tasks_per_lane, bool overlapping = false) {
    Prng prng(seed);
    Trace trace;
    trace.title = "random";
    trace.origin = "simulated";
    for (int r = 0; r < ranks; ++r) {
        RankTrace rank;
        rank.rank = r;
        rank.name = "R" + std::to_string(r);
        rank.node = r % 2 == 0 ? "even" : "odd";
        for (const Stream stream : {Stream::Compute, Stream::P2p, Stream::Dp}) {
            SimTime now = prng.integer(0, 1'000'000);
            for (int t = 0; t < tasks_per_lane; ++t) {
                TraceEvent e;
                Instruction& i = e.instruction;
                i.stream = stream;
                i.stage = static_cast<std::uint16_t>(r);
                i.microbatch = static_cast<std::int32_t>(prng.integer(0, 15));
                i.opcode = stream == Stream::P2p  ? Opcode::SendActivation
                           : stream == Stream::Dp ? Opcode::AllReduce
                           : prng.uniform() < 0.5 ? Opcode::Forward
                                                  : Opcode::Backward;
                e.index = static_cast<std::uint32_t>(rank.events.size());
                const double dice = prng.uniform();
                const SimTime duration = dice < 0.05   ? 0
                                         : dice < 0.7  ? prng.integer(1, 1000)
                                         : dice < 0.95 ? prng.integer(1000, 1'000'000)
                                                       : prng.integer(1'000'000, 1'000'000'000);
                if (prng.uniform() < 0.3) now += prng.integer(0, 10'000'000);
                e.arrival = e.start = now;
                e.end = now + duration;
                now = overlapping && prng.uniform() < 0.3 ? now + duration / 2 : e.end;
                rank.events.push_back(e);
            }
        }
        trace.ranks.push_back(std::move(rank));
    }
    return trace;
}

}  // namespace tw::view_test
