// ZeRO-3's gathers and reductions are drawn beside the stages they belong to, and their memory in the curves.
#include "sim/report/layer_collectives.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "models/load_model.hpp"
#include "plan/stage_partition.hpp"
#include "plan/trace/compare.hpp"
#include "sim/simulator.hpp"

namespace tw {
namespace {

struct Simulated {
    ParallelPlan plan;
    SimulationReport report;
};

Simulated simulated(int zero) {
    const auto environment =
        make_environment(load_model("llama2-7b").value().graph, load_cluster("h100:16").value()).value();
    Simulated s;
    s.plan.mesh.dp = 16;
    s.plan.zero_stage = zero;
    s.plan.microbatches = 2;
    s.plan.global_batch = 32;
    s.plan.seq_len = 4096;
    s.plan.stages = uniform_partition(environment->graph, 1, RecomputeMode::None);
    SimulateOptions options;
    options.trace = true;
    s.report = Simulator(environment).simulate(s.plan, options).value();
    return s;
}

std::vector<const TraceEvent*> inside(const SimulationReport& report) {
    std::vector<const TraceEvent*> events;
    for (const TraceEvent& event : report.trace.ranks.front().events) {
        if ((event.index & kInsideAnother) != 0) events.push_back(&event);
    }
    return events;
}

TEST(LayerCollectives, StandBesideTheirStage) {
    const Simulated s = simulated(3);
    const auto& events = s.report.trace.ranks.front().events;
    const auto drawn = inside(s.report);
    // Two steps of two microbatches: a gather in each pass, a reduction in each backward.
    ASSERT_EQ(std::count_if(drawn.begin(), drawn.end(),
                            [](const auto* e) { return e->instruction.opcode == Opcode::Unshard; }),
              8);
    ASSERT_EQ(std::count_if(drawn.begin(), drawn.end(),
                            [](const auto* e) { return e->instruction.opcode == Opcode::ReduceScatter; }),
              4);
    SimTime last = 0;
    for (const TraceEvent* part : drawn) {
        EXPECT_EQ(part->instruction.stream, Stream::Dp);
        EXPECT_GE(part->start, last);  // one after the other on their lane
        EXPECT_LT(part->start, part->end);
        last = part->end;
        const auto whole = std::find_if(events.begin(), events.end(), [&](const TraceEvent& e) {
            return e.step == part->step && e.index == (part->index & ~kInsideAnother);
        });
        ASSERT_NE(whole, events.end());
        EXPECT_TRUE(is_compute(whole->instruction.opcode));
        EXPECT_GE(part->start, whole->start);
        EXPECT_LE(part->end, whole->end);
    }
    EXPECT_TRUE(inside(simulated(1).report).empty());
}

TEST(LayerCollectives, AreNotCompared) {
    const Simulated s = simulated(3);
    Trace bare = s.report.trace;
    std::erase_if(bare.ranks.front().events,
                  [](const TraceEvent& e) { return (e.index & kInsideAnother) != 0; });
    EXPECT_FALSE(compare_traces(s.report.trace, bare).order_divergence);
}

TEST(MemoryCurves, RiseToTheLedgersPeak) {
    for (const int zero : {1, 3}) {
        const Simulated s = simulated(zero);
        std::int64_t highest = 0;
        for (const MemorySample& sample : s.report.trace.ranks.front().memory) {
            std::int64_t sum = 0;
            for (const std::int64_t bytes : sample.bytes)
                sum += bytes;
            highest = std::max(highest, sum);
        }
        EXPECT_NEAR(static_cast<double>(highest), s.report.memory.front().peak_allocated_bytes,
                    1e-3 * s.report.memory.front().peak_allocated_bytes)
            << "ZeRO-" << zero;
    }
}

}  // namespace
}  // namespace tw
