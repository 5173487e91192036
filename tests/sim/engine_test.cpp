#include "sim/engine/engine.hpp"

#include <gtest/gtest.h>

#include "plan/schedule/lower.hpp"
#include "sim/engine/unit_costs.hpp"

namespace tw {
namespace {

constexpr SimTime kUnit = kPicosecondsPerSecond;

ScheduleSummary run(const std::string& name, int p, int m, int v = 1, UnitStageCosts costs = {}) {
    ScheduleShape shape;
    shape.ranks = p;
    shape.virtual_stages = v;
    shape.microbatches = m;
    auto summary = run_schedule_alone(name, shape, costs);
    EXPECT_TRUE(summary.has_value()) << (summary.has_value() ? "" : to_string(summary.errors()));
    return std::move(*summary);
}

TEST(Engine, GPipeAndOneForwardOneBackwardIdlePMinusOneOfMPlusPMinusOne) {
    for (const char* name : {"gpipe", "1f1b"}) {
        for (int p = 1; p <= 8; ++p) {
            for (int m = p; m <= 4 * p; m += p) {
                const ScheduleSummary s = run(name, p, m);
                EXPECT_EQ(s.times.period, (m + p - 1) * 3 * kUnit) << name << " p" << p << " m" << m;
                EXPECT_EQ(s.times.makespan, s.times.period);
                EXPECT_DOUBLE_EQ(s.bubble_fraction, static_cast<double>(p - 1) / (m + p - 1));
                for (int r = 0; r < p; ++r) {
                    const int in_flight = std::string(name) == "gpipe" ? m : std::min(m, p - r);
                    EXPECT_EQ(s.ranks[static_cast<std::size_t>(r)].peak_in_flight, in_flight);
                }
            }
        }
    }
}

TEST(Engine, FewerMicrobatchesThanStagesFinishes) {
    // PP 4, M 1: makespan 4 (tf + tb), bubble 75 %.
    const ScheduleSummary s = run("1f1b", 4, 1);
    EXPECT_EQ(s.times.makespan, 4 * 3 * kUnit);
    EXPECT_DOUBLE_EQ(s.bubble_fraction, 0.75);
}

TEST(Engine, DoublingEveryDurationDoublesTheStep) {
    UnitStageCosts once{Seconds(1.25e-3), Seconds(2.5e-3), Seconds(0.75e-3), Seconds(1e-4)};
    UnitStageCosts twice{Seconds(2.5e-3), Seconds(5e-3), Seconds(1.5e-3), Seconds(2e-4)};
    EXPECT_EQ(2 * run("1f1b", 5, 13, 1, once).times.period, run("1f1b", 5, 13, 1, twice).times.period);
}

TEST(Engine, HostDispatchBoundsAStepOfTinyKernels) {
    ScheduleShape shape;
    shape.ranks = 1;
    shape.microbatches = 4;
    auto order = generate_order("1f1b", shape);
    LoweringOptions options;
    options.grad_sync = LoweringOptions::GradSync::None;
    const Schedule schedule = lower(*order, "1f1b", options);
    auto compiled = compile_schedule(schedule);
    ASSERT_TRUE(compiled.has_value());
    CostTable table =
        unit_cost_table(schedule, *compiled, {Seconds(1e-6), Seconds(1e-6), Seconds(1e-6), Seconds(0)});
    table.enable_host();
    for (std::size_t k = 0; k < schedule.duration_classes.size(); ++k) {
        const std::uint32_t slot = compiled->slot_of(0, static_cast<int>(k));
        if (!is_compute(schedule.duration_classes[k].opcode)) continue;
        table.dispatch[slot] = to_sim_time(Seconds(1e-3));
        table.host_path[slot] = to_sim_time(Seconds(1e-3));
    }
    EngineWorkspace workspace;
    const StepTimes times = run_engine(*compiled, table, workspace);
    EXPECT_EQ(times.period, to_sim_time(Seconds(8e-3)));  // 4 forwards and 4 backwards of 1 ms dispatch each
}

TEST(Engine, TraceAgreesWithTheRun) {
    const ScheduleSummary s = run("1f1b", 4, 8);
    ASSERT_EQ(s.trace.step_end.size(), 2U);
    EXPECT_EQ(s.trace.step_end[0], s.times.makespan);
    EXPECT_EQ(s.trace.step_end[1] - s.trace.step_end[0], s.times.period);
    for (const RankTrace& rank : s.trace.ranks) {
        for (const TraceEvent& e : rank.events) {
            EXPECT_LE(e.arrival, e.start);
            EXPECT_LE(e.start, e.end);
        }
    }
}

}  // namespace
}  // namespace tw
