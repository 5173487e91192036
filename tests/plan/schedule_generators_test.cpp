#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include <gtest/gtest.h>

#include "plan/schedule/replay.hpp"
#include "tests/plan/schedule_fixtures.hpp"

namespace tw {
namespace {

using testing::shape;

ComputeOrder make(std::string_view name, const ScheduleShape& s, const StageCosts* costs = nullptr) {
    auto order = generate_order(name, s, costs);
    EXPECT_TRUE(order) << name << ": " << (order ? "" : to_string(order.errors()));
    return std::move(*order);
}

std::int64_t makespan(const ComputeOrder& order, const UnitCosts& costs = {}) {
    const auto nothing = [](std::size_t, std::size_t, std::int64_t) {};
    const ReplayResult result = replay(order, costs, nothing, nothing);
    EXPECT_TRUE(result.complete);
    return result.makespan;
}

// The most idle time of any rank between its first start and its last end.
std::int64_t idle_inside(const ComputeOrder& order, const UnitCosts& costs = {}) {
    const std::size_t p = order.ranks.size();
    std::vector<std::int64_t> begin(p, -1), end(p, 0), busy(p, 0);
    replay(
        order, costs,
        [&](std::size_t r, std::size_t, std::int64_t t) {
            if (begin[r] < 0) begin[r] = t;
        },
        [&](std::size_t r, std::size_t i, std::int64_t t) {
            end[r] = t;
            busy[r] += costs(order.ranks[r][i]);
        });
    std::int64_t idle = 0;
    for (std::size_t r = 0; r < p; ++r)
        idle = std::max(idle, end[r] - begin[r] - busy[r]);
    return idle;
}

// Microbatches (of any of its stages) that a rank holds at most, from F to W.
std::vector<int> rank_peaks(const ComputeOrder& order) {
    std::vector<int> peaks;
    for (const auto& actions : order.ranks) {
        int held = 0, peak = 0;
        for (const Action& a : actions) {
            const bool overlap = a.opcode == Opcode::OverlapForwardBackward;
            if (overlap || a.opcode == Opcode::Forward) peak = std::max(peak, ++held);
            if (overlap || a.opcode == Opcode::Backward || a.opcode == Opcode::BackwardWeight) --held;
        }
        peaks.push_back(peak);
    }
    return peaks;
}

int forwards_before_backward(const std::vector<Action>& actions) {
    int count = 0;
    for (const Action& a : actions) {
        if (a.opcode != Opcode::Forward) break;
        ++count;
    }
    return count;
}

TEST(GPipe, MakespanAndMemory) {
    // Huang 2019: (m + p - 1) (F + B), m microbatches in flight.
    for (const auto& [p, m] : {std::pair{1, 1}, {2, 3}, {4, 8}, {8, 5}}) {
        const ComputeOrder order = make("gpipe", shape(p, m));
        EXPECT_EQ(makespan(order), (m + p - 1) * 3);
        EXPECT_EQ((*find_schedule("gpipe"))->peak_in_flight(shape(p, m)),
                  std::vector<int>(static_cast<std::size_t>(p), m));
    }
}

TEST(OneFOneB, MakespanAndMemory) {
    for (const auto& [p, m] : {std::pair{1, 1}, {2, 3}, {4, 8}, {8, 5}, {16, 64}}) {
        const ComputeOrder order = make("1f1b", shape(p, m));
        EXPECT_EQ(makespan(order), (m + p - 1) * 3);
        const std::vector<int> peak = (*find_schedule("1f1b"))->peak_in_flight(shape(p, m));
        for (int s = 0; s < p; ++s)
            EXPECT_EQ(peak[static_cast<std::size_t>(s)], std::min(m, p - s));
    }
}

TEST(Naive, RunsOneMicrobatchAtATime) {
    EXPECT_EQ(makespan(make("naive", shape(4, 8))), 4 * 8 * 3);
    EXPECT_EQ(rank_peaks(make("naive", shape(4, 8))), (std::vector<int>{1, 1, 1, 1}));
}

TEST(Interleaved, WarmUpIsMegatrons) {
    // (p - r - 1) * 2 + (v - 1) * N: 10, 8, 6, 4 for p = 4, v = 2, N = 4; the steady phase starts with one
    // more forward.
    const ComputeOrder order = make("interleaved", shape(4, 8, 2));
    std::vector<int> ahead;
    for (const auto& actions : order.ranks)
        ahead.push_back(forwards_before_backward(actions) - 1);
    EXPECT_EQ(ahead, (std::vector<int>{10, 8, 6, 4}));
    // Virtual microbatches of rank 0 in groups of N: chunk 0 is stage 0, chunk 1 is stage 4.
    std::vector<std::pair<int, int>> first;
    for (std::size_t i = 0; i < 9; ++i)
        first.emplace_back(order.ranks[0][i].stage, order.ranks[0][i].microbatch);
    EXPECT_EQ(first, (std::vector<std::pair<int, int>>{
                         {0, 0}, {0, 1}, {0, 2}, {0, 3}, {4, 0}, {4, 1}, {4, 2}, {4, 3}, {0, 4}}));
}

TEST(Interleaved, BubbleShrinksByTheVirtualStages) {
    // Narayanan 2021, section 2.2: idle (p - 1) (F + B) / v of a stage split in v; share (p - 1) / (v m + p -
    // 1).
    for (const auto& [p, v, m] : {std::tuple{4, 2, 8}, {4, 3, 12}, {8, 2, 16}, {2, 4, 4}}) {
        const std::int64_t work = 3 * m * v;
        EXPECT_EQ(makespan(make("interleaved", shape(p, m, v))), work + 3 * (p - 1));
    }
}

TEST(Interleaved, LegalMicrobatches) {
    const ScheduleGenerator* interleaved = *find_schedule("interleaved");
    for (const int m : {4, 8, 12})
        EXPECT_TRUE(interleaved->check(shape(4, m, 2)).empty()) << m;
    for (const int m : {3, 5, 6, 7, 10}) {
        const Errors errors = interleaved->check(shape(4, m, 2));
        ASSERT_EQ(errors.size(), 1U) << m;
        EXPECT_EQ(errors[0].context, "microbatches");
        EXPECT_FALSE(errors[0].hint.empty());
    }
    EXPECT_EQ(interleaved->check(shape(4, 10, 2))[0].hint, "microbatches 8 or 12");
    EXPECT_EQ(interleaved->check(shape(4, 8, 1))[0].hint, "virtual_stages 2, or the schedule 1f1b");
    ScheduleShape grouped = shape(4, 16, 2);
    grouped.microbatch_group = 6;  // 16 % 6 = 4 >= p
    EXPECT_TRUE(interleaved->check(grouped).empty());
    grouped.microbatch_group = 3;
    EXPECT_EQ(interleaved->check(grouped)[0].hint, "microbatch_group 4");
}

TEST(LoopedBfs, EachStageInOneStretch) {
    const ComputeOrder order = make("looped-bfs", shape(2, 3, 2));
    EXPECT_EQ(order.ranks[1].size(), 12U);
    EXPECT_EQ(order.ranks[1][2].stage, 1);
    EXPECT_EQ(order.ranks[1][3].stage, 3);
    EXPECT_EQ(order.ranks[1][6].opcode, Opcode::Backward);
    EXPECT_EQ(order.ranks[1][6].stage, 3);
    EXPECT_EQ(makespan(make("looped-bfs", shape(4, 8, 2))), 3 * 16 + 3 * 3);
}

TEST(ZeroBubble, PublishedBubblesAndMemory) {
    // Qi 2024 (arXiv 2401.10241), table 2: H1 idles (p - 1) (F + B - W) and holds p, H2 (p - 1) (F + B - 2W)
    // and 2p - 1.
    for (const auto& [p, m] : {std::pair{2, 4}, {4, 8}, {4, 16}, {8, 24}}) {
        EXPECT_EQ(idle_inside(make("zb-h1", shape(p, m))), p - 1);
        EXPECT_EQ(idle_inside(make("zb-h2", shape(p, m))), 0);
        EXPECT_EQ(rank_peaks(make("zb-h1", shape(p, m))), std::vector<int>(static_cast<std::size_t>(p), p));
        EXPECT_EQ(rank_peaks(make("zb-h2", shape(p, m))),
                  std::vector<int>(static_cast<std::size_t>(p), 2 * p - 1));
    }
    // Both end at the same time; the difference is in the period.
    EXPECT_EQ(makespan(make("zb-h1", shape(4, 8))), 27);
    EXPECT_EQ(makespan(make("zb-h2", shape(4, 8))), 27);
    // F = 2, B = 2, W = 1.
    EXPECT_EQ(idle_inside(make("zb-h1", shape(4, 12)), {2, 2, 1}), 3 * (2 + 2 - 1));
    EXPECT_EQ(make("zb-h1", shape(4, 8)).boundary, StepBoundary::RankLocal);
}

TEST(ZeroBubbleV, PlacementMemoryAndBubble) {
    const ComputeOrder order = make("zb-v", shape(4, 8, 2));
    EXPECT_EQ(order.rank_of_stage, (std::vector<std::uint16_t>{0, 1, 2, 3, 3, 2, 1, 0}));
    for (const auto& [p, m] : {std::pair{2, 4}, {4, 8}, {8, 16}, {8, 32}}) {
        const ComputeOrder v = make("zb-v", shape(p, m, 2));
        EXPECT_EQ(idle_inside(v), 0);
        for (const int peak : rank_peaks(v))
            EXPECT_LE(peak, 2 * p);  // halves: p whole activations
        EXPECT_EQ(rank_peaks(v)[0], 2 * p);
    }
    const Errors errors = (*find_schedule("zb-v"))->check(shape(4, 8, 1));
    ASSERT_EQ(errors.size(), 1U);
    EXPECT_EQ(errors[0].hint, "virtual_stages 2");
}

TEST(DualPipeV, OverlapsAndMemory) {
    const ComputeOrder order = make("dualpipev", shape(4, 10, 2));
    EXPECT_EQ(order.rank_of_stage, (std::vector<std::uint16_t>{0, 1, 2, 3, 3, 2, 1, 0}));
    for (const int peak : rank_peaks(order))
        EXPECT_LE(peak, 2 * 4 + 1);  // p + 1/2 activations (2p + 1 halves)
    const auto overlaps = std::count_if(order.ranks[0].begin(), order.ranks[0].end(), [](const Action& a) {
        return a.opcode == Opcode::OverlapForwardBackward;
    });
    EXPECT_EQ(overlaps, 2 * (10 - 8 + 1) + 3);  // steps 4 and 5 on rank 0
    const Errors errors = (*find_schedule("dualpipev"))->check(shape(4, 7, 2));
    ASSERT_EQ(errors.size(), 1U);
    EXPECT_EQ(errors[0].hint, "microbatches 8");
}

StageCosts costs_of(std::size_t p, SimTime f, SimTime b, SimTime w) {
    StageCosts costs;
    costs.forward.assign(p, f);
    costs.backward_input.assign(p, b);
    costs.backward_weight.assign(p, w);
    costs.activation_bytes.assign(p, 100.0);
    costs.weight_grad_bytes.assign(p, 100.0);
    return costs;
}

TEST(ZeroBubbleAuto, KeepsItsMemoryLimits) {
    const StageCosts costs = costs_of(4, 10, 12, 7);
    for (const int peak : rank_peaks(make("zb-1p", shape(4, 12), &costs)))
        EXPECT_LE(peak, 4);
    for (const int peak : rank_peaks(make("zb-2p", shape(4, 12), &costs)))
        EXPECT_LE(peak, 8);
    StageCosts limited = costs;
    limited.memory_limit_bytes = {400.0, 300.0, 200.0, 100.0};
    EXPECT_EQ(rank_peaks(make("zb-auto", shape(4, 12), &limited)), (std::vector<int>{4, 3, 2, 1}));
    limited.memory_limit_bytes.assign(4, 10.0);  // less than one activation: one is in flight all the same
    EXPECT_EQ(rank_peaks(make("zb-auto", shape(4, 12), &limited)), (std::vector<int>{1, 1, 1, 1}));
}

TEST(ZeroBubbleAuto, IsNeverWorseThanTheHandcraftedOrders) {
    for (const auto& [f, b, w] : {std::tuple{10, 10, 10}, {10, 12, 7}, {10, 20, 5}, {7, 9, 11}}) {
        const StageCosts costs = costs_of(4, f, b, w);
        const UnitCosts unit{f, b, w};
        EXPECT_LE(idle_inside(make("zb-1p", shape(4, 16), &costs), unit),
                  idle_inside(make("zb-h1", shape(4, 16)), unit));
        EXPECT_LE(idle_inside(make("zb-2p", shape(4, 16), &costs), unit),
                  idle_inside(make("zb-h2", shape(4, 16)), unit));
    }
    // With 2p activations next to nothing idles, also where F, B and W differ (Qi 2024 reports the same of
    // ZB-2p).
    StageCosts uneven = costs_of(8, 1000, 1050, 800);
    uneven.weight_grad_bytes.assign(8, 60.0);
    const UnitCosts unit{1000, 1050, 800};
    EXPECT_LT(idle_inside(make("zb-2p", shape(8, 32), &uneven), unit), 32 * 2850 / 100);
    EXPECT_GT(idle_inside(make("zb-h2", shape(8, 32)), unit), 32 * 2850 / 100);
    EXPECT_EQ(idle_inside(make("zb-auto", shape(8, 32), &uneven), unit), 0);
    // Unequal stages: a heavier last one. The order adapts.
    StageCosts skewed = costs_of(4, 10, 10, 10);
    skewed.forward[3] = 14;
    skewed.backward_input[3] = 14;
    EXPECT_TRUE(check_order(make("zb-2p", shape(4, 16), &skewed)).empty());
    EXPECT_TRUE((*find_schedule("zb-auto"))->info().uses_costs);
}

// More microbatches than the trial that chooses among the policies looks at.
TEST(ZeroBubbleAuto, LongStepsKeepTheQualityOfShortOnes) {
    for (const auto& [f, b, w] : {std::tuple{1000, 1050, 800}, {10, 20, 5}, {700, 900, 1100}}) {
        const UnitCosts unit{f, b, w};
        StageCosts costs = costs_of(4, f, b, w);
        for (const char* name : {"zb-1p", "zb-2p", "zb-auto"}) {
            SCOPED_TRACE(name);
            const std::int64_t few = idle_inside(make(name, shape(4, 16), &costs), unit);
            const ComputeOrder order = make(name, shape(4, 120), &costs);
            EXPECT_TRUE(check_order(order).empty());
            EXPECT_LE(idle_inside(order, unit), few + few / 10);
        }
        EXPECT_LE(idle_inside(make("zb-1p", shape(4, 120), &costs), unit),
                  idle_inside(make("zb-h1", shape(4, 120)), unit));
        costs.memory_limit_bytes.assign(4, 300.0);
        for (const int peak : rank_peaks(make("zb-auto", shape(4, 120), &costs)))
            EXPECT_LE(peak, 3);
    }
}

std::vector<std::size_t> versions_used(const ComputeOrder& order) {
    std::vector<std::size_t> used;
    for (const auto& actions : order.ranks) {
        std::set<int> versions;
        for (const Action& a : actions)
            versions.insert(a.weight_version);
        used.push_back(versions.size());
    }
    return used;
}

TEST(PipeDream, StashesAsManyVersionsAsAreInFlight) {
    const ComputeOrder order = make("pipedream", shape(4, 4));
    EXPECT_EQ(order.semantics, Semantics::Asynchronous);
    EXPECT_EQ(order.boundary, StepBoundary::None);
    EXPECT_GE(order.steps, 4);
    EXPECT_GE((order.steps - 2) * 4, 2 * 4);
    EXPECT_EQ(order.weight_versions, 4);
    EXPECT_EQ(versions_used(order), (std::vector<std::size_t>{4, 3, 2, 1}));  // p - s
    EXPECT_EQ(rank_peaks(order), (std::vector<int>{4, 3, 2, 1}));
    // No bubble once filled: m microbatches take 3 m; one rank's idle time is in filling and draining alone.
    EXPECT_EQ(makespan(order), 3 * order.total_microbatches() + 3 * 3);

    ScheduleShape vertical = shape(4, 4);
    vertical.vertical_sync = true;
    EXPECT_EQ(versions_used(make("pipedream", vertical)), (std::vector<std::size_t>{4, 4, 4, 4}));
}

TEST(PipeDream, OneMicrobatchAStepStillHasASteadyPeriod) {
    const ComputeOrder order = make("pipedream", shape(8, 1));
    EXPECT_EQ(order.steps, 18);
    EXPECT_TRUE(check_order(order).empty());
}

TEST(PipeDream, ReplicatedStagesTakeTurns) {
    ScheduleShape s = shape(2, 6);
    s.replicas = {3, 1};
    const ComputeOrder order = make("pipedream", s);
    ASSERT_EQ(order.ranks.size(), 4U);
    EXPECT_EQ(order.rank_of_stage, (std::vector<std::uint16_t>{0, 3}));
    EXPECT_EQ(order.ranks[1][0].microbatch, 1);
    EXPECT_EQ(order.ranks[1][1].microbatch, 4);
    // Active microbatches of the input stage: ceil(4 workers / 3 replicas) = 2 on each.
    EXPECT_EQ(rank_peaks(order), (std::vector<int>{2, 2, 2, 1}));
    s.microbatches = 4;
    const Errors errors = (*find_schedule("pipedream"))->check(s);
    ASSERT_EQ(errors.size(), 1U);
    EXPECT_EQ(errors[0].hint, "microbatches 3");
    s.replicas = {3};
    EXPECT_EQ((*find_schedule("pipedream"))->check(s)[0].context, "replicas");
    ScheduleShape flush = shape(2, 6);
    flush.replicas = {3, 1};
    EXPECT_EQ((*find_schedule("1f1b"))->check(flush)[0].context, "replicas");
}

TEST(PipeDream2bw, TwoVersionsDelayedByOneBatch) {
    const ComputeOrder order = make("pipedream-2bw", shape(4, 8));
    EXPECT_EQ(order.semantics, Semantics::BoundedStaleness);
    EXPECT_EQ(order.weight_versions, 2);
    EXPECT_EQ(order.backwards_per_update, 8);
    for (const Action& a : order.ranks[2])
        EXPECT_EQ(a.weight_version, std::max(0, a.microbatch / 8 - 1) % 2);
    const Errors errors = (*find_schedule("pipedream-2bw"))->check(shape(4, 3));
    ASSERT_EQ(errors.size(), 1U);
    EXPECT_EQ(errors[0].hint, "microbatches 4");
}

// Megatron's combined passes: one forward more ahead than interleaved, then every forward beside a backward
// of another microbatch or stage; each pass once.
TEST(InterleavedOverlap, EveryBackwardOfTheSteadyPhaseHasAForwardBesideIt) {
    using Pass = std::tuple<bool, int, int>;  // backward, stage, microbatch
    const auto passes_of = [](const std::vector<Action>& actions, bool backward) {
        std::vector<Pass> passes;
        for (const Action& a : actions) {
            const bool both = a.opcode == Opcode::OverlapForwardBackward;
            if (!backward && (both || a.opcode == Opcode::Forward))
                passes.emplace_back(false, a.stage, a.microbatch);
            if (backward && both) passes.emplace_back(true, a.stage2, a.microbatch2);
            if (backward && a.opcode == Opcode::Backward) passes.emplace_back(true, a.stage, a.microbatch);
        }
        return passes;
    };
    const ComputeOrder plain = make("interleaved", shape(4, 8, 2));
    const ComputeOrder combined = make("interleaved-overlap", shape(4, 8, 2));
    for (std::size_t rank = 0; rank < 4; ++rank) {
        const std::vector<Action>& actions = combined.ranks[rank];
        const std::size_t warm_up = (4 - rank - 1) * 2 + 4 + 1;
        const auto count = [&](Opcode opcode) {
            return static_cast<std::size_t>(std::count_if(
                actions.begin(), actions.end(), [&](const Action& a) { return a.opcode == opcode; }));
        };
        EXPECT_EQ(count(Opcode::Forward), warm_up);
        EXPECT_EQ(count(Opcode::OverlapForwardBackward), 16 - warm_up);
        for (const Action& a : actions) {
            const bool both = a.opcode == Opcode::OverlapForwardBackward;
            EXPECT_FALSE(both && a.stage == a.stage2 && a.microbatch == a.microbatch2);
        }
        for (const bool backward : {false, true})
            EXPECT_EQ(passes_of(actions, backward), passes_of(plain.ranks[rank], backward)) << rank;
    }
    EXPECT_EQ((*find_schedule("interleaved-overlap"))->check(shape(4, 8)).size(), 1U);  // one stage a rank
}

TEST(Registry, FlagsSayWhatIsInterleavedAndWhatCombinesPasses) {
    for (const ScheduleGenerator* generator : schedule_generators()) {
        const GeneratorInfo info = generator->info();
        const bool combined = info.name == "interleaved-overlap";
        EXPECT_EQ(info.interleaved, combined || info.name == "interleaved") << info.name;
        EXPECT_EQ(info.combines_passes, combined) << info.name;
        EXPECT_EQ(is_interleaved(info.name), info.interleaved) << info.name;
        EXPECT_EQ(combines_passes(info.name), info.combines_passes) << info.name;
        // Groups of microbatches are an interleaved schedule's.
        ScheduleShape grouped = shape(2, 8, own_virtual_stages(info));
        grouped.microbatch_group = 4;
        EXPECT_EQ(generator->check(grouped).empty(), info.interleaved) << info.name;
    }
    EXPECT_FALSE(is_interleaved("interleaved-by-hand"));
    EXPECT_FALSE(combines_passes(""));
}

TEST(Registry, NamesAreFoundAndUnknownOnesCorrected) {
    EXPECT_EQ(schedule_names().size(), schedule_generators().size());
    for (const std::string& name : schedule_names())
        EXPECT_EQ((*find_schedule(name))->info().name, name);
    const auto unknown = find_schedule("zb-h3");
    ASSERT_FALSE(unknown);
    EXPECT_EQ(unknown.error().code, ErrorCode::Usage);
    EXPECT_NE(unknown.error().hint.find("zb-h"), std::string::npos);
    EXPECT_NE(unknown.error().hint.find("gpipe"), std::string::npos);
    const auto none = generate_order("1f1b", shape(0, -1));
    ASSERT_FALSE(none);
    EXPECT_EQ(none.errors().size(), 2U);
    for (const ScheduleGenerator* generator : schedule_generators()) {
        EXPECT_FALSE(generator->info().title.empty());
        EXPECT_NE(generator->info().source.find("20"), std::string::npos) << "a paper with its year";
    }
}

TEST(Grid, OneColumnAnAction) {
    EXPECT_EQ(format_grid(make("1f1b", shape(2, 2))),
              "rank 0    0F0 0F1     0B0     0B1\n"
              "rank 1        1F0 1B0 1F1 1B1\n");
}

}  // namespace
}  // namespace tw
