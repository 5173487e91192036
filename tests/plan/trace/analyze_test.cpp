#include "plan/trace/analyze.hpp"

#include <gtest/gtest.h>

#include "base/prng.hpp"
#include "plan/trace/intervals.hpp"
#include "tests/plan/trace/hand_traces.hpp"

namespace tw {
namespace {

TEST(Intervals, MergeAndDifference) {
    const Intervals a = merged({{5, 7}, {0, 2}, {1, 4}, {9, 9}, {7, 8}});
    EXPECT_EQ(a, (Intervals{{0, 4}, {5, 8}}));
    EXPECT_EQ(length(a), 7);
    EXPECT_EQ(difference(a, {{1, 2}, {3, 6}}), (Intervals{{0, 1}, {2, 3}, {6, 8}}));
    EXPECT_EQ(difference(a, {{-1, 10}}), Intervals{});
    EXPECT_EQ(difference({}, a), Intervals{});
}

TEST(Analyze, GPipeTwoByTwoByHand) {
    // F = 2, B = 4: rank 0: F0 0-2, F1 2-4, B0 10-14, B1 14-18; rank 1: F0 2-4, F1 4-6, B0 6-10, B1 10-14.
    const Trace trace = hand::run(hand::gpipe(2, 2), {2, 4});
    const TraceAnalysis a = analyze(trace);
    ASSERT_EQ(a.steps.size(), 1U);
    EXPECT_EQ(a.steady().period(), 18);
    for (const RankStep& rank : a.steady().ranks) {
        EXPECT_EQ(rank.busy, 12);
        EXPECT_EQ(rank.idle, 6);
        EXPECT_EQ(rank.bubble, 6);
        EXPECT_DOUBLE_EQ(rank.bubble_fraction, 1.0 / 3);
    }
    EXPECT_DOUBLE_EQ(a.steady().bubble_fraction, 1.0 / 3);
    EXPECT_EQ(a.in_flight[0].peak, 2);
    EXPECT_EQ(a.in_flight[1].peak, 2);
}

TEST(Analyze, BubbleFractionIsTheClosedForm) {
    for (int p = 1; p <= 6; ++p) {
        for (int m = p; m <= 12; m += 3) {
            const double expected =
                static_cast<double>(p - 1) / (m + p - 1);  // GPipe 2019; PipeDream-flush 2021
            for (const auto& order : {hand::gpipe(p, m), hand::one_f_one_b(p, m)}) {
                const TraceAnalysis a = analyze(hand::run(order, {7, 7}, 2));
                ASSERT_DOUBLE_EQ(a.steady().bubble_fraction, expected) << p << " " << m;
                ASSERT_DOUBLE_EQ(a.steps[0].bubble_fraction, expected);
            }
            const auto in = analyze(hand::run(hand::one_f_one_b(p, m), {7, 7})).in_flight;
            for (int s = 0; s < p; ++s)
                ASSERT_EQ(in[static_cast<std::size_t>(s)].peak, std::min(m, p - s));
        }
    }
}

TEST(Analyze, TellsExposedFromHiddenCommunication) {
    Trace trace;
    trace.ranks.resize(1);
    auto& events = trace.ranks[0].events;
    events.push_back(hand::event(hand::compute(Opcode::Backward, 0, 0), 0, 10));
    Instruction sync = hand::compute(Opcode::AllReduce, 0, kNoMicrobatch);
    sync.stream = Stream::Dp;
    events.push_back(hand::event(sync, 6, 14, 4));
    Instruction send = hand::compute(Opcode::SendGrad, 0, 0);
    send.stream = Stream::P2p;
    events.push_back(hand::event(send, 10, 16));
    events.push_back(hand::event(hand::compute(Opcode::OptimizerStep, 0, kNoMicrobatch), 18, 20));
    const RankStep rank = analyze(trace).steady().ranks[0];
    EXPECT_EQ(rank.busy, 12);
    EXPECT_EQ(rank.idle, 8);
    ASSERT_EQ(rank.communication.size(), 2U);
    EXPECT_EQ(rank.communication[0].work, Work::PipelineTransfer);
    EXPECT_EQ(rank.communication[0].total, 6);
    EXPECT_EQ(rank.communication[0].exposed, 6);
    EXPECT_EQ(rank.communication[1].work, Work::DataParallel);
    EXPECT_EQ(rank.communication[1].total, 8);
    EXPECT_EQ(rank.communication[1].exposed, 4);
    EXPECT_EQ(rank.communication[1].hidden(), 4);
    EXPECT_EQ(rank.communication[1].waiting, 2);
    // Both run from 10 to 14: data parallel is counted; from 14 to 16 the transfer.
    EXPECT_EQ(rank.idle_by_work[static_cast<std::size_t>(Work::DataParallel)], 4);
    EXPECT_EQ(rank.idle_by_work[static_cast<std::size_t>(Work::PipelineTransfer)], 2);
    EXPECT_EQ(rank.bubble, 2);
}

TEST(Analyze, SplitBackwardHoldsActivationsUntilTheWeightPart) {
    RankTrace rank;
    rank.events = {hand::event(hand::compute(Opcode::Forward, 0, 0), 0, 1),
                   hand::event(hand::compute(Opcode::Forward, 0, 1), 1, 2),
                   hand::event(hand::compute(Opcode::BackwardInput, 0, 0), 2, 3),
                   hand::event(hand::compute(Opcode::Forward, 0, 2), 3, 4),
                   hand::event(hand::compute(Opcode::BackwardWeight, 0, 0), 4, 5)};
    const RankInFlight held = in_flight(rank);
    EXPECT_EQ(held.peak, 3);
    EXPECT_EQ(held.samples.back().time, 5);
    EXPECT_EQ(held.samples.back().microbatches, 2);
}

TEST(Analyze, EmptyTrace) {
    const TraceAnalysis a = analyze(Trace{});
    ASSERT_EQ(a.steps.size(), 1U);
    EXPECT_EQ(a.steady().period(), 0);
    EXPECT_TRUE(a.critical_path.segments.empty());
}

TEST(CriticalPath, OfGPipeGoesDownAndUpThePipeline) {
    const Trace trace = hand::run(hand::gpipe(3, 2), {2, 4, 0, 1});
    const CriticalPath path = analyze(trace).critical_path;
    EXPECT_EQ(path.gaps, 0);
    EXPECT_EQ(path.length, trace.step_end.back());
    // Two chains are equally long; where an event's own lane ties with a transfer, the lane is followed.
    const std::vector<std::string> expected = {
        "rank 0: 0F0 2.00 ps",         "rank 1: 1RECV_F0 1.00 ps",     "rank 1: 1F0 2.00 ps",
        "rank 2: 2RECV_F0 1.00 ps",    "rank 2: 2F0..2F1 (2) 4.00 ps", "rank 2: 2B0 4.00 ps",
        "rank 1: 1RECV_B0 1.00 ps",    "rank 1: 1B0 4.00 ps",          "rank 0: 0RECV_B0 1.00 ps",
        "rank 0: 0B0..0B1 (2) 8.00 ps"};
    EXPECT_EQ(describe(trace, path), expected);
    SimTime sum = 0;
    for (const SimTime time : path.by_work)
        sum += time;
    EXPECT_EQ(sum, path.length);
}

// Whatever the costs: segments are contiguous, the path is no longer than the trace, and starts at its
// beginning.
TEST(CriticalPath, ExplainsEveryInstantOfRandomPipelines) {
    Prng random(11);
    for (int k = 0; k < 200; ++k) {
        const int p = static_cast<int>(random.integer(1, 6)), m = static_cast<int>(random.integer(p, 10));
        const hand::Costs costs{random.integer(1, 50), random.integer(1, 90), 0,
                                random.integer(0, 20), random.integer(0, 30), random.integer(0, 9)};
        const Trace trace = hand::run(k % 2 == 0 ? hand::gpipe(p, m) : hand::one_f_one_b(p, m), costs, 2);
        const TraceAnalysis a = analyze(trace);
        ASSERT_EQ(a.critical_path.gaps, 0) << k;
        ASSERT_EQ(a.critical_path.length, trace.step_end.back());
        ASSERT_EQ(a.critical_path.segments.front().start, 0);
        for (const StepAnalysis& step : a.steps) {
            for (const RankStep& rank : step.ranks) {
                SimTime explained = rank.bubble;
                for (const SimTime time : rank.idle_by_work)
                    explained += time;
                ASSERT_EQ(explained, rank.idle);
                ASSERT_EQ(rank.busy + rank.idle, step.period());
            }
        }
    }
}

TEST(CriticalPath, NamesGapsThatNoEventExplains) {
    Trace trace;
    trace.ranks.resize(1);
    trace.ranks[0].events = {hand::event(hand::compute(Opcode::Forward, 0, 0), 0, 10),
                             hand::event(hand::compute(Opcode::Forward, 0, 1), 15, 25)};
    const CriticalPath path = analyze(trace).critical_path;
    EXPECT_EQ(path.gaps, 5);
    EXPECT_EQ(describe(trace, path),
              (std::vector<std::string>{"rank 0: 0F0 10.0 ps", "rank 0: nothing for 5.00 ps",
                                        "rank 0: 0F1 10.0 ps"}));
}

TEST(Rendezvous, MatchesSendsWithReceivesAndCollectivesAcrossRanks) {
    const Trace trace = hand::run(hand::one_f_one_b(3, 4), {2, 4, 0, 1, 3}, 2);
    const Rendezvous met = match_rendezvous(trace);
    // 2 boundaries x 4 microbatches x 2 directions x 2 steps, and the norm of three ranks in each.
    EXPECT_EQ(met.size(), 34U);
    for (std::size_t k = 0; k < met.size(); ++k) {
        const auto members = met.members_of(k);
        const TraceEvent& first = trace.ranks[members[0].rank].events[members[0].event];
        if (first.instruction.opcode == Opcode::GradNorm) {
            EXPECT_EQ(members.size(), 3U);
            continue;
        }
        ASSERT_EQ(members.size(), 2U);
        const TraceEvent& second = trace.ranks[members[1].rank].events[members[1].event];
        EXPECT_NE(is_send(first.instruction.opcode), is_send(second.instruction.opcode));
        EXPECT_EQ(first.instruction.microbatch, second.instruction.microbatch);
        EXPECT_EQ(first.step, second.step);
        EXPECT_EQ(first.end, second.end);
    }
    // A group-0 collective stays inside its pipeline rank: nobody meets.
    EXPECT_EQ(met.meeting_of[0][trace.ranks[0].events.size() - 2], Rendezvous::kNone);
}

TEST(Rendezvous, KeepsReplicasApart) {
    const Trace one = hand::run(hand::gpipe(2, 3), {2, 4, 0, 1, 3});
    Trace two = one;
    for (RankTrace rank : one.ranks) {
        rank.pipeline_rank = rank.rank;
        rank.replica = 1;
        rank.rank += 2;
        two.ranks.push_back(rank);
    }
    const Rendezvous met = match_rendezvous(two);
    // Three activations and three gradients in each replica, and one all-reduce of each stage between the
    // replicas.
    EXPECT_EQ(met.size(), 14U);
    for (std::size_t k = 0; k < met.size(); ++k) {
        const auto members = met.members_of(k);
        ASSERT_EQ(members.size(), 2U);
        const RankTrace &a = two.ranks[members[0].rank], &b = two.ranks[members[1].rank];
        const bool collective = is_collective(a.events[members[0].event].instruction.opcode);
        EXPECT_EQ(a.replica == b.replica, !collective);
        EXPECT_EQ(a.schedule_rank() == b.schedule_rank(), collective);
    }
}

TEST(AlignClocks, ShiftsRanksOntoOneAxis) {
    Trace trace = hand::run(hand::gpipe(2, 2), {2, 4});
    const Trace before = trace;
    for (TraceEvent& e : trace.ranks[1].events)
        e.arrival += 5'000'000, e.start += 5'000'000, e.end += 5'000'000;
    trace.ranks[1].clock_offset_s = -5e-6;
    const Trace aligned = align_clocks(trace);
    EXPECT_EQ(aligned.ranks[1].events[0].start, before.ranks[1].events[0].start);
    EXPECT_EQ(aligned.ranks[1].clock_offset_s, 0);
    EXPECT_EQ(aligned.step_end, before.step_end);
}

}  // namespace
}  // namespace tw
