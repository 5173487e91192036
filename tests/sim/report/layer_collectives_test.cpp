// ZeRO-3's gathers and reductions are drawn beside the stages they belong to, and their memory in the curves.
#include "sim/report/layer_collectives.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "models/families/registry.hpp"
#include "models/load_model.hpp"
#include "plan/frameworks/framework.hpp"
#include "plan/stage_partition.hpp"
#include "plan/trace/analyze.hpp"
#include "plan/trace/compare.hpp"
#include "sim/report/trace_labels.hpp"
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

// Of what the allocator holds.
double highest(const SimulationReport& report) {
    const std::vector<std::string>& categories = report.trace.memory_categories;
    std::int64_t most = 0;
    for (const MemorySample& sample : report.trace.ranks.front().memory) {
        std::int64_t sum = 0;
        for (std::size_t i = 0; i < sample.bytes.size(); ++i)
            sum += categories[i] == "outside the allocator" ? 0 : sample.bytes[i];
        most = std::max(most, sum);
    }
    return static_cast<double>(most);
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

TEST(LayerCollectives, LieOnNoCriticalPath) {
    const Simulated s = simulated(3);
    EXPECT_EQ(describe(s.report.trace, analyze(s.report.trace).critical_path), s.report.critical_path);
}

// On processors the first layer's gradient is on its way into what comes after a backward, whatever the
// order.
TEST(MemoryCurves, RiseToTheLedgersPeakOnProcessors) {
    ModelConfig config;
    config.name = "wide vocabulary";
    config.family = "gpt";
    config.layers = 4, config.hidden = 64, config.heads = 4, config.ffn = 192, config.vocab = 8192;
    config.positions = PositionKind::Learned;
    const LayerGraph graph = build_model(config).value();
    for (const char* schedule : {"1f1b", "gpipe"}) {
        for (const std::int64_t microbatches : {1, 2, 4}) {
            const auto environment = make_environment(graph, load_cluster("cpu:2").value()).value();
            ParallelPlan plan;
            plan.mesh.dp = 2;
            plan.zero_stage = 3;
            plan.schedule = schedule;
            plan.precision.compute = Precision::Fp32;
            apply_framework(framework_defaults("trainwright"), false, plan);
            plan.microbatches = microbatches;
            plan.global_batch = 2 * microbatches;
            plan.seq_len = 16;
            plan.stages = uniform_partition(graph, 1, RecomputeMode::None);
            SimulateOptions options;
            options.trace = true;
            const SimulationReport report = Simulator(environment).simulate(plan, options).value();
            EXPECT_NEAR(highest(report), report.memory.front().peak_allocated_bytes,
                        1e-3 * report.memory.front().peak_allocated_bytes)
                << schedule << " of " << microbatches;
        }
    }
}

TEST(MemoryCurves, RiseToTheLedgersPeak) {
    for (const int zero : {1, 3}) {
        const Simulated s = simulated(zero);
        EXPECT_NEAR(highest(s.report), s.report.memory.front().peak_allocated_bytes,
                    1e-3 * s.report.memory.front().peak_allocated_bytes)
            << "ZeRO-" << zero;
    }
}

}  // namespace
}  // namespace tw
