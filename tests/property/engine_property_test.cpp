// Properties of the engine over every registered schedule and random costs, and the papers' closed forms.
#include <algorithm>
#include <numeric>
#include <thread>

#include <gtest/gtest.h>

#include "base/prng.hpp"
#include "plan/schedule/lower.hpp"
#include "sim/engine/compile_order.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/unit_costs.hpp"
#include "tests/support/test_scale.hpp"

namespace tw {
namespace {

constexpr std::uint64_t kSeed = 20250215;

ScheduleShape shape_of(int p, int v, int m) {
    ScheduleShape shape;
    shape.ranks = p;
    shape.virtual_stages = v;
    shape.microbatches = m;
    return shape;
}

struct Compiled {
    Schedule schedule;
    CompiledSchedule compiled;
};

Compiled compile(const ScheduleGenerator& generator, const ScheduleShape& shape,
                 const LoweringOptions& options) {
    Compiled c;
    c.schedule = lower(generator.generate(shape, nullptr), generator.info().name, options);
    auto compiled = compile_schedule(c.schedule);
    EXPECT_TRUE(compiled) << to_string(compiled.errors());
    c.compiled = std::move(*compiled);
    return c;
}

// Each class its own duration; transfers cost both ends the same, as in a plan.
CostTable random_costs(Prng& random, const Compiled& c) {
    std::vector<SimTime> durations;
    for (const DurationKey& key : c.schedule.duration_classes) {
        durations.push_back(is_transfer(key.opcode) ? 40 : random.integer(1, 1000));
        if (key.opcode == Opcode::Wait || key.opcode == Opcode::Free) durations.back() = 0;
    }
    CostTable table(c.compiled);
    for (int r = 0; r < c.compiled.ranks; ++r) {
        for (std::size_t k = 0; k < durations.size(); ++k)
            table.duration[c.compiled.slot_of(r, static_cast<int>(k))] = durations[k];
    }
    return table;
}

StepTimes run(const Compiled& c, const CostTable& table) {
    EngineWorkspace workspace;
    return run_engine(c.schedule, c.compiled, table, workspace);
}

// Forwards of microbatch 0 down all stages, then its backwards back up.
SimTime one_microbatch(const Compiled& c, const CostTable& table) {
    SimTime total = 0;
    for (int r = 0; r < c.schedule.ranks(); ++r) {
        for (const Instruction& in : c.schedule.programs[static_cast<std::size_t>(r)].instructions) {
            const bool backward = in.opcode == Opcode::Backward || in.opcode == Opcode::BackwardInput;
            if (in.microbatch == 0 && (in.opcode == Opcode::Forward || backward))
                total += table.duration[c.compiled.slot_of(r, in.duration_class)];
        }
    }
    return total;
}

template <class Visit>
void for_random_shapes(const ScheduleGenerator& generator, std::uint64_t stream, int count,
                       const Visit& visit) {
    Prng random(kSeed, stream);
    int visited = 0;
    for (int draw = 0; visited < count && draw < 50 * count; ++draw) {
        const ScheduleShape shape =
            shape_of(static_cast<int>(random.integer(1, 8)), static_cast<int>(random.integer(1, 3)),
                     static_cast<int>(random.integer(1, 24)));
        if (!generator.check(shape).empty()) continue;
        LoweringOptions options;
        options.grad_sync = static_cast<LoweringOptions::GradSync>(random.integer(0, 2));
        options.overlap_p2p = random.integer(0, 1) == 1;
        options.overlap_grad_sync = random.integer(0, 1) == 1;
        options.gather_params_after_step = random.integer(0, 1) == 1;
        visit(shape, compile(generator, shape, options), random);
        ++visited;
    }
    EXPECT_EQ(visited, count);
}

class EngineOnEverySchedule : public testing::TestWithParam<const ScheduleGenerator*> {};

INSTANTIATE_TEST_SUITE_P(Registry, EngineOnEverySchedule,
                         testing::ValuesIn(schedule_generators().begin(), schedule_generators().end()),
                         [](const auto& param) {
                             std::string name = param.param->info().name;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

TEST_P(EngineOnEverySchedule, AStepIsAtLeastTheBusiestRankAndOneMicrobatch) {
    for_random_shapes(*GetParam(), 1, scaled(40), [&](const ScheduleShape&, const Compiled& c, Prng& random) {
        const CostTable table = random_costs(random, c);
        const StepTimes times = run(c, table);
        const auto busy = busy_times(c.schedule, c.compiled, table);
        EXPECT_GE(times.makespan, one_microbatch(c, table));
        EXPECT_GE(times.period, *std::max_element(busy.begin(), busy.end()));
        if (c.schedule.boundary == StepBoundary::None) return;
        EXPECT_GE(times.makespan, *std::max_element(busy.begin(), busy.end()));
        if (c.schedule.boundary == StepBoundary::Barrier) {
            EXPECT_LE(times.period, times.makespan);  // ranks that are updated early begin early
        } else {
            EXPECT_TRUE(times.steady);
        }
    });
}

// Every lowered schedule compiles in one pass, to the graph that sorting it gives: same nodes, same times,
// with and without the host.
void expect_same_graphs(const Compiled& c, Prng& random) {
    const auto in_order = compile_in_order(c.schedule);
    const auto sorted = compile_any_order(c.schedule, {});
    ASSERT_TRUE(in_order.has_value());
    ASSERT_TRUE(sorted) << to_string(sorted.errors());
    EXPECT_EQ(in_order->nodes(), sorted->nodes());
    EXPECT_EQ(in_order->lane_count, sorted->lane_count);
    CostTable table = random_costs(random, c);  // slots do not depend on the order of nodes
    for (const bool host : {false, true}) {
        if (host) {
            table.enable_host();
            for (std::size_t slot = 1; slot < table.duration.size(); ++slot) {
                table.dispatch[slot] = random.integer(1, 400);
                table.host_path[slot] = table.duration[slot] + table.dispatch[slot];
            }
        }
        EngineWorkspace a, b;
        const StepTimes first = run_engine(c.schedule, *in_order, table, a);
        const StepTimes second = run_engine(c.schedule, *sorted, table, b);
        EXPECT_EQ(first.makespan, second.makespan);
        EXPECT_EQ(first.period, second.period);
        EXPECT_EQ(first.step_end, second.step_end);
        ASSERT_EQ(in_order->end_node.size(), sorted->end_node.size());
        for (std::size_t i = 0; i < sorted->end_node.size(); ++i)
            ASSERT_EQ(a.time[in_order->end_node[i]], b.time[sorted->end_node[i]]) << "instruction " << i;
    }
}

TEST_P(EngineOnEverySchedule, CompilesInOrderToTheSameGraph) {
    for_random_shapes(*GetParam(), 6, scaled(25), [&](const ScheduleShape&, const Compiled& c, Prng& random) {
        expect_same_graphs(c, random);
    });
}

// The periods of a long schedule's steady phase are compiled once.
TEST_P(EngineOnEverySchedule, CompilesLongSchedulesToTheSameGraph) {
    Prng random(kSeed, 7);
    for (const int ranks : {2, 4, 9}) {
        for (const int v : {1, 2}) {
            const ScheduleShape shape = shape_of(ranks, v, 10 * ranks);
            if (!GetParam()->check(shape).empty()) continue;
            for (const LoweringOptions::P2p p2p :
                 {LoweringOptions::P2p::PerDirection, LoweringOptions::P2p::Single}) {
                LoweringOptions options;
                options.p2p = p2p;
                options.unshard = random.integer(0, 1) == 1;
                options.overlap_p2p = random.integer(0, 1) == 1;
                options.buckets.assign(static_cast<std::size_t>(ranks * v), 3);
                expect_same_graphs(compile(*GetParam(), shape, options), random);
            }
        }
    }
}

TEST_P(EngineOnEverySchedule, DoublingEveryDurationDoublesEveryTime) {
    for_random_shapes(*GetParam(), 2, scaled(25), [&](const ScheduleShape&, const Compiled& c, Prng& random) {
        const CostTable once = random_costs(random, c);
        CostTable twice = once;
        for (SimTime& d : twice.duration)
            d *= 2;
        const StepTimes a = run(c, once), b = run(c, twice);
        EXPECT_EQ(b.makespan, 2 * a.makespan);
        if (c.schedule.boundary == StepBoundary::None) {  // a mean, rounded down
            EXPECT_LE(std::abs(b.period - 2 * a.period), 1);
        } else {
            EXPECT_EQ(b.period, 2 * a.period);
        }
    });
}

TEST_P(EngineOnEverySchedule, LongerDurationsNeverShortenTheFirstStep) {
    for_random_shapes(*GetParam(), 3, scaled(25), [&](const ScheduleShape&, const Compiled& c, Prng& random) {
        CostTable table = random_costs(random, c);
        const SimTime before = run(c, table).makespan;
        for (SimTime& d : table.duration) {
            if (d > 0 && random.integer(0, 3) == 0) d += random.integer(0, 500);
        }
        EXPECT_GE(run(c, table).makespan, before);
    });
}

TEST_P(EngineOnEverySchedule, TracesEndWhenTheEngineSays) {
    for_random_shapes(*GetParam(), 4, scaled(15), [&](const ScheduleShape&, const Compiled& c, Prng& random) {
        const CostTable table = random_costs(random, c);
        const StepTimes times = run(c, table);
        const Trace trace = trace_engine(c.schedule, c.compiled, table, 2);
        ASSERT_GE(trace.step_end.size(), 2U);
        ASSERT_GE(times.step_end.size(), 2U);
        EXPECT_EQ(trace.step_end[0], times.step_end[0]);
        EXPECT_EQ(trace.step_end[1], times.step_end[1]);
        EXPECT_EQ(trace.step_end[0], times.makespan);
        std::vector<SimTime> computed(trace.ranks.size(), 0);
        SimTime last = 0;
        for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
            SimTime free = 0;
            for (const TraceEvent& e : trace.ranks[r].events) {
                EXPECT_LE(e.start, e.end);
                last = std::max(last, e.end);
                if (e.instruction.stream != Stream::Compute) continue;
                EXPECT_GE(e.start, free);  // one thing at a time, in order
                free = e.end;
                computed[r] += e.end - e.start;
            }
        }
        EXPECT_GE(last, trace.step_end.back());
        if (c.schedule.boundary == StepBoundary::None) return;
        const auto busy = busy_times(c.schedule, c.compiled, table);
        for (std::size_t r = 0; r < computed.size(); ++r)
            EXPECT_EQ(computed[r], 2 * busy[r]);
    });
}

TEST_P(EngineOnEverySchedule, ManyThreadsFindTheSameTimes) {
    const ScheduleGenerator& generator = *GetParam();
    for_random_shapes(generator, 5, 3, [&](const ScheduleShape&, const Compiled& c, Prng& random) {
        const CostTable table = random_costs(random, c);
        const StepTimes alone = run(c, table);
        std::vector<StepTimes> found(4);
        std::vector<std::thread> threads;
        for (StepTimes& f : found)
            threads.emplace_back([&] { f = run(c, table); });
        for (std::thread& t : threads)
            t.join();
        for (const StepTimes& f : found) {
            EXPECT_EQ(f.period, alone.period);
            EXPECT_EQ(f.step_end, alone.step_end);
        }
    });
}

// Closed forms. Free transfers and updates.
ScheduleSummary alone(const std::string& name, const ScheduleShape& shape, SimTime f, SimTime b, SimTime w) {
    const auto seconds = [](SimTime t) { return Seconds(static_cast<double>(t)); };
    auto summary = run_schedule_alone(name, shape, {seconds(f), seconds(b), seconds(w), Seconds(0)});
    EXPECT_TRUE(summary) << name;
    return std::move(*summary);
}

constexpr SimTime kSecond = kPicosecondsPerSecond;

TEST(EngineClosedForms, OneForwardOneBackwardAndGPipeIdlePMinusOneRounds) {
    for (const char* name : {"1f1b", "gpipe"}) {
        for (int p = 2; p <= 8; ++p) {
            for (const int m : {p, 2 * p, 3 * p + 1}) {
                const ScheduleSummary s = alone(name, shape_of(p, 1, m), 3, 4, 2);
                EXPECT_EQ(s.times.period, (m + p - 1) * 9 * kSecond) << name << p << " " << m;
                for (const RankSummary& r : s.ranks)
                    EXPECT_EQ(r.idle, (p - 1) * 9 * kSecond);
            }
        }
    }
}

TEST(EngineClosedForms, InterleavedIdlesAChunkOfPMinusOneRounds) {
    // Narayanan et al. 2021, section 2.2: (p - 1) / v rounds; share (p - 1) / (v m + p - 1).
    for (int p = 2; p <= 6; ++p) {
        for (int v = 2; v <= 4; ++v) {
            for (const int m : {p, 2 * p, 4 * p}) {
                const ScheduleSummary s = alone("interleaved", shape_of(p, v, m), 1, 1, 1);
                EXPECT_EQ(s.times.period, (v * m + p - 1) * 3 * kSecond) << p << " " << v << " " << m;
                EXPECT_DOUBLE_EQ(s.bubble_fraction, static_cast<double>(p - 1) / (v * m + p - 1));
            }
        }
    }
}

TEST(EngineClosedForms, ZeroBubbleHandcraftedIdlesAsThePaperSays) {
    // Qi et al. 2024 (arXiv 2401.10241), table 2: (p - 1)(F + B - W) and (p - 1)(F + B - 2W).
    struct Times {
        SimTime f, b, w;
    };
    for (const Times t : {Times{1, 1, 1}, Times{3, 4, 2}, Times{5, 5, 4}}) {
        for (int p = 2; p <= 6; ++p) {
            const int m = 4 * p;
            const SimTime busy = m * (t.f + t.b + t.w);
            const ScheduleSummary h1 = alone("zb-h1", shape_of(p, 1, m), t.f, t.b, t.w);
            EXPECT_EQ(h1.times.period, (busy + (p - 1) * (t.f + t.b - t.w)) * kSecond)
                << "H1 p" << p << " F" << t.f;
            const ScheduleSummary h2 = alone("zb-h2", shape_of(p, 1, m), t.f, t.b, t.w);
            const SimTime idle = std::max<SimTime>(0, (p - 1) * (t.f + t.b - 2 * t.w));
            EXPECT_EQ(h2.times.period, (busy + idle) * kSecond) << "H2 p" << p << " F" << t.f;
        }
    }
}

TEST(EngineClosedForms, PipeDreamsPeriodHasNoBubble) {
    // Harlap et al. 2018, section 3.2: in the steady state every worker is always busy.
    for (int p = 1; p <= 8; ++p) {
        for (const int m : {1, 4, p, 3 * p}) {
            const ScheduleSummary s = alone("pipedream", shape_of(p, 1, m), 3, 4, 2);
            EXPECT_EQ(s.times.period, m * 9 * kSecond) << p << " " << m;
            EXPECT_DOUBLE_EQ(s.bubble_fraction, 0) << p << " " << m;
        }
    }
}

}  // namespace
}  // namespace tw
