// What compare says beside times by instruction: partners of replicas, memory, stragglers, the drawing.
#include <gtest/gtest.h>

#include "plan/trace/compare_memory.hpp"
#include "plan/trace/stragglers.hpp"
#include "plan/trace/svg_overlay.hpp"
#include "tests/plan/trace/hand_traces.hpp"

namespace tw {
namespace {

// Every rank of a trace twice, as data-parallel replicas: global ranks 0 .. 2n - 1.
Trace with_replicas(const Trace& one) {
    Trace out = one;
    out.origin = "measured";
    out.ranks.clear();
    for (int replica = 0; replica < 2; ++replica) {
        for (RankTrace rank : one.ranks) {
            rank.pipeline_rank = rank.rank;
            rank.replica = replica;
            rank.rank += replica * static_cast<int>(one.ranks.size());
            out.ranks.push_back(std::move(rank));
        }
    }
    return out;
}

TEST(Partners, OneRankStandsForItsReplicas) {
    const Trace predicted = hand::run(hand::one_f_one_b(3, 5), {20, 40}, 2);
    const Trace measured = with_replicas(predicted);
    EXPECT_EQ(partners_of(predicted, measured), (std::vector<std::size_t>{0, 1, 2, 0, 1, 2}));
    EXPECT_EQ(partners_of(measured, measured), (std::vector<std::size_t>{0, 1, 2, 3, 4, 5}));
    const TraceComparison c = compare_traces(predicted, measured);
    EXPECT_EQ(c.ranks, (std::vector<int>{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(c.only_predicted + c.only_measured, 0);
    EXPECT_EQ(c.step_error(), 0);
    Trace alone = predicted;
    alone.ranks.resize(1);
    EXPECT_EQ(partners_of(alone, measured),
              (std::vector<std::size_t>{0, kNoPartner, kNoPartner, 0, kNoPartner, kNoPartner}));
}

TEST(Compare, SaysHowFarTheMeasuredStepsAreApart) {
    const Trace predicted = hand::run(hand::gpipe(1, 2), {20, 40}, 2);  // a period of 120 ps
    Trace measured = hand::run(hand::gpipe(1, 2), {20, 40}, 4);
    measured.step_end = {150, 260, 390, 500};  // periods of 150, 110, 130, 110
    CompareOptions options;
    options.steady = true;
    options.first_measured_step = 1;
    const TraceComparison c = compare_traces(predicted, measured, options);
    EXPECT_EQ(c.measured_steps, 3);
    EXPECT_NEAR(c.measured_step_s, 350e-12 / 3, 1e-18);
    EXPECT_NEAR(c.measured_step_sigma_s, 9.428e-12, 1e-14);  // of 110, 130, 110
}

TEST(CompareMemory, JoinsThePartsThatBothNameDifferently) {
    Trace predicted, measured;
    predicted.memory_categories = {"model states", "activations", "temporaries", "stashed weights",
                                   "outside the allocator"};  // that nobody measures
    predicted.ranks.resize(1);
    predicted.ranks[0].memory = {
        {0, {100, 0, 0, 0, 70}}, {5, {100, 40, 10, 0, 70}}, {9, {100, 20, 0, 0, 70}}};
    measured.memory_categories = {"parameters",  "gradients", "optimizer_states",
                                  "activations", "logits",    "communication_buffers"};
    measured.ranks.resize(2);
    measured.ranks[1].rank = 1;
    measured.ranks[1].pipeline_rank = 0;
    for (RankTrace& rank : measured.ranks)
        rank.memory = {{0, {20, 20, 60, 30, 20, 10}}};
    const std::vector<MemoryRow> rows = compare_memory(peak_memory(predicted), peak_memory(measured));
    ASSERT_EQ(rows.size(), 10U);  // five of each rank
    EXPECT_EQ(rows[0].group, "peak");
    EXPECT_EQ(rows[0].predicted_bytes, 150);
    EXPECT_EQ(rows[0].measured_bytes, 160);
    EXPECT_NEAR(rows[0].relative_error(), -0.0625, 1e-12);
    EXPECT_EQ(rows[1].group, "model states");
    EXPECT_EQ(rows[1].measured_bytes, 100);
    EXPECT_EQ(rows[2].group, "activations");
    EXPECT_EQ(rows[2].measured_bytes, 50);  // logits are among them
    EXPECT_EQ(rows[3].group, "temporaries");
    EXPECT_EQ(rows[4].group, "communication buffers");
    EXPECT_EQ(rows[5].rank, 1);
    EXPECT_EQ(memory_group("something new"), "other");
    EXPECT_NE(memory_table(rows).render().find("communication buffers"), std::string::npos);
}

// Four replicas whose backwards take as long as each other's, as the all-reduce makes them look, while one
// arrives `delay` later than the rest.
Trace four_replicas(SimTime delay, int slow) {
    constexpr SimTime kMs = 1'000'000'000;
    Trace trace;
    trace.steps = 3;
    for (int r = 0; r < 4; ++r) {
        RankTrace rank;
        rank.rank = r;
        rank.pipeline_rank = 0;
        rank.replica = r;
        for (int step = 0; step < 3; ++step) {
            const SimTime begin = step * (93 * kMs + delay);
            const SimTime arrival = begin + 90 * kMs + (r == slow ? delay : r * kMs / 10);
            TraceEvent backward = hand::event(hand::compute(Opcode::Backward, 0, 0), begin, arrival);
            Instruction reduce;
            reduce.opcode = Opcode::AllReduce;
            reduce.stream = Stream::Dp;
            TraceEvent sync =
                hand::event(reduce, begin + 90 * kMs + delay, begin + 93 * kMs + delay, arrival);
            backward.step = sync.step = step;
            sync.index = 1;
            rank.events.push_back(backward);
            rank.events.push_back(sync);
        }
        trace.ranks.push_back(rank);
    }
    for (int step = 1; step <= 3; ++step)
        trace.step_end.push_back(step * (93 * kMs + delay));
    return trace;
}

TEST(Stragglers, ArrivalsNameTheSlowRank) {
    constexpr SimTime kMs = 1'000'000'000;
    const Arrivals arrivals = analyze_arrivals(four_replicas(200 * kMs, 1));
    ASSERT_EQ(arrivals.stragglers, (std::vector<int>{1}));
    ASSERT_EQ(arrivals.ranks.size(), 4U);
    EXPECT_NEAR(arrivals.ranks[1].late_s, 0.1998, 1e-9);  // after the median of 0, 0.2 and 0.3 ms
    EXPECT_NEAR(arrivals.ranks[1].waited_s, 0, 1e-12);
    for (const std::size_t other : {0U, 2U, 3U})
        EXPECT_NEAR(arrivals.ranks[other].waited_s, 0.2, 0.0005);
    EXPECT_EQ(describe(arrivals).front(),
              "rank 1 arrives 200 ms after the others, who wait 200 ms for it (of a step of 293 ms)");
}

TEST(Stragglers, NobodyIsNamedWhereAllArriveTogether) {
    const Arrivals arrivals = analyze_arrivals(four_replicas(1'000'000'000, 1));  // 1 ms of 94
    EXPECT_TRUE(arrivals.stragglers.empty());
    EXPECT_TRUE(describe(arrivals).empty());
    EXPECT_TRUE(analyze_arrivals(hand::run(hand::one_f_one_b(3, 5), {20, 40}, 2)).stragglers.empty())
        << "pipeline ranks wait for each other by nature";
}

// Four stages and two replicas, of which the second one's stage 1 is held up for 300 ps: every stage of that
// replica comes late to its all-reduce, those behind stage 1 and those before it.
TEST(Stragglers, StagesThatWaitForTheSlowOneAreNotNamed) {
    const hand::Costs costs{.forward = 20, .backward = 40, .transfer = 2, .sync = 5};
    const Trace one = hand::run(hand::one_f_one_b(4, 6), costs);
    const Trace slow = hand::run(hand::one_f_one_b(4, 6), costs, 1, "", {{1, 300}});
    Trace both = with_replicas(one);
    for (std::size_t r = 0; r < 4; ++r)
        both.ranks[4 + r].events = slow.ranks[r].events;
    both.step_end = slow.step_end;
    const Arrivals arrivals = analyze_arrivals(both);
    EXPECT_EQ(arrivals.stragglers, (std::vector<int>{5}));
    ASSERT_EQ(arrivals.ranks.size(), 8U);
    for (std::size_t r = 0; r < 8; ++r) {
        const RankArrivals& rank = arrivals.ranks[r];
        if (r < 4) {
            EXPECT_LT(rank.late_s, 0) << r;
            EXPECT_GT(rank.waited_s, 200e-12) << r;
        } else {
            EXPECT_GT(rank.late_s, 200e-12) << r;
            EXPECT_NEAR(rank.own_s, r == 5 ? 278e-12 : 0, 1e-12) << r;  // less the 22 of its first input
        }
    }
}

// Without replicas a prediction says how long a stage should take beside the others, whatever all of them are
// slower by.
TEST(Stragglers, APredictionNamesTheSlowStage) {
    const Trace predicted =
        hand::run(hand::one_f_one_b(3, 5), {.forward = 20, .backward = 40, .transfer = 2}, 2);
    const hand::Costs costs{.forward = 26, .backward = 52, .transfer = 3};
    for (int stage = 0; stage < 3; ++stage) {
        const Trace measured = hand::run(hand::one_f_one_b(3, 5), costs, 3, "", {{stage, 400}});
        const Arrivals arrivals = analyze_arrivals(measured, {}, &predicted);
        EXPECT_EQ(arrivals.stragglers, (std::vector<int>{stage}));
        EXPECT_NE(describe(arrivals).front().find("longer than predicted"), std::string::npos);
    }
    const Trace even = hand::run(hand::one_f_one_b(3, 5), costs, 3);
    EXPECT_TRUE(analyze_arrivals(even, {}, &predicted).stragglers.empty());
}

// What ranks wait for inside of their layers (tensor parallelism, sharded parameters) makes their computes
// equally long; each says how long it waited.
TEST(Stragglers, WaitsInsideOfComputesAreNotARanksOwn) {
    Trace trace;
    trace.steps = 2;
    for (int r = 0; r < 2; ++r) {
        RankTrace rank;
        rank.rank = rank.replica = r;
        rank.pipeline_rank = 0;
        for (int step = 0; step < 2; ++step) {
            TraceEvent e = hand::event(hand::compute(Opcode::Forward, 0, 0), step * 400, step * 400 + 390);
            e.step = step;
            e.waited = r == 0 ? 300 : 10;
            rank.events.push_back(e);
        }
        trace.ranks.push_back(rank);
    }
    trace.step_end = {400, 800};
    const Arrivals arrivals = analyze_arrivals(trace);
    EXPECT_EQ(arrivals.stragglers, (std::vector<int>{1}));
    EXPECT_NEAR(arrivals.ranks[1].own_s, 290e-12, 1e-15);
    EXPECT_NE(describe(arrivals).front().find("than the others with the same work"), std::string::npos);
}

// ---- without a trace: own times of each step

RankPace pace(int rank, int pipeline_rank, double own_s, double third_s = 0) {
    RankPace one{rank, pipeline_rank, std::vector<double>(8, own_s)};
    if (third_s > 0) one.own_s[2] = third_s;
    return one;
}

TEST(Stragglers, PaceNamesTheReplicaThatTakesLonger) {
    const Arrivals arrivals = analyze_pace({pace(0, 0, 0.1), pace(1, 0, 0.3), pace(2, 0, 0.12)}, 0.35);
    EXPECT_EQ(arrivals.stragglers, (std::vector<int>{1}));
    ASSERT_EQ(arrivals.ranks.size(), 3U);
    EXPECT_NEAR(arrivals.ranks[0].own_s, 0.1 - 0.21, 1e-12);
    EXPECT_NEAR(arrivals.ranks[1].own_s, 0.3 - 0.11, 1e-12);
    EXPECT_EQ(describe(arrivals).front(),
              "rank 1 takes 190 ms longer than the others with the same work (of a step of 350 ms)");
}

TEST(Stragglers, PaceDoesNotJudgeStagesByEachOther) {
    // Stage 1 has the head: 60 % more work, on both of its replicas.
    EXPECT_TRUE(analyze_pace({pace(0, 0, 0.1), pace(1, 0, 0.1), pace(2, 1, 0.16), pace(3, 1, 0.16)}, 0.2)
                    .stragglers.empty());
    // Without replicas nothing tells a slow processor from a larger stage.
    EXPECT_TRUE(analyze_pace({pace(0, 0, 0.1), pace(1, 1, 0.3)}, 0.3).ranks.empty());
    EXPECT_TRUE(analyze_pace({pace(0, 0, 0.1)}, 0.1).ranks.empty());
    EXPECT_TRUE(analyze_pace({{0, 0, {}}, {1, 0, {}}}, 0.1).ranks.empty());
    EXPECT_TRUE(analyze_pace({}, 0).ranks.empty());
}

TEST(Stragglers, PaceForgivesOneStepAndSmallDelays) {
    EXPECT_TRUE(analyze_pace({pace(0, 0, 0.1), pace(1, 0, 0.1, 5.0)}, 0.2).stragglers.empty());
    EXPECT_TRUE(analyze_pace({pace(0, 0, 0.100), pace(1, 0, 0.104)}, 0.1).stragglers.empty());  // 4 %
    const std::vector<RankPace> short_steps = {pace(0, 0, 0.001), pace(1, 0, 0.003)};
    EXPECT_EQ(analyze_pace(short_steps, 0.004).stragglers, (std::vector<int>{1}));
    EXPECT_TRUE(analyze_pace(short_steps, 0.004, {.least_s = kPreempted_s}).stragglers.empty());
}

TEST(Overlay, DrawsBothOnOneAxis) {
    Trace predicted = hand::run(hand::gpipe(2, 3), {20'000'000, 40'000'000}, 2);
    Trace measured = with_replicas(hand::run(hand::gpipe(2, 3), {22'000'000, 44'000'000}, 3));
    measured.title = "a run";
    const std::string svg = render_overlay(predicted, measured);
    EXPECT_NE(svg.find("a run"), std::string::npos);
    EXPECT_NE(svg.find("predicted 240 µs · measured 264 µs"), std::string::npos) << svg.substr(0, 2000);
    EXPECT_NE(svg.find("predicted step ends"), std::string::npos);
    const auto count = [&](const std::string& what) {
        int n = 0;
        for (std::size_t at = svg.find(what); at != std::string::npos; at = svg.find(what, at + 1))
            ++n;
        return n;
    };
    EXPECT_EQ(count(">predicted</text>"), 4);  // a row for each measured rank
    EXPECT_EQ(count(">measured</text>"), 4);
    EXPECT_EQ(render_overlay(predicted, measured), svg);

    OverlayOptions zoomed;
    zoomed.zoom_begin_s = 20e-6;
    zoomed.zoom_end_s = 60e-6;
    const std::string part = render_overlay(predicted, measured, zoomed);
    EXPECT_LT(part.size(), svg.size());
    EXPECT_EQ(part.find("step ends"), std::string::npos) << "both ends lie outside";

    Trace other = predicted;
    for (RankTrace& rank : other.ranks)
        rank.pipeline_rank = rank.rank + 10;
    EXPECT_NE(render_overlay(other, measured).find("no rank is in both traces"), std::string::npos);
}

}  // namespace
}  // namespace tw
