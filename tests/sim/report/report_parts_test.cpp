// Reports of single plans: what the host is blamed for, updates after every microbatch, what the addends of
// memory are made of.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "models/load_model.hpp"
#include "plan/frameworks/framework.hpp"
#include "plan/stage_partition.hpp"
#include "sim/simulator.hpp"

namespace tw {
namespace {

std::shared_ptr<const Environment> environment_of(const std::string& model, const std::string& cluster) {
    return *make_environment(load_model(model).value().graph, load_cluster(cluster).value());
}

ParallelPlan plan_of(const Environment& environment, DeviceMesh mesh, const std::string& schedule,
                     int microbatches, std::int64_t seq_len) {
    ParallelPlan plan;
    plan.framework = "megatron";
    plan.mesh = mesh;
    plan.schedule = schedule;
    plan.microbatches = microbatches;
    plan.global_batch = std::int64_t{microbatches} * mesh.dp;
    plan.seq_len = seq_len;
    plan.sequence_parallel = mesh.tp > 1;
    plan.stages = uniform_partition(environment.graph, mesh.pp, RecomputeMode::None);
    return plan;
}

SimulationReport simulate(const std::shared_ptr<const Environment>& environment, const ParallelPlan& plan,
                          bool trace = false) {
    SimulateOptions options;
    options.trace = trace;
    auto report = Simulator(environment).simulate(plan, options);
    EXPECT_TRUE(report) << to_string(report.errors());
    return report ? std::move(*report) : SimulationReport{};
}

const MemoryAddend& addend(const std::vector<MemoryAddend>& addends, std::string_view name) {
    static const MemoryAddend none;
    const auto found =
        std::find_if(addends.begin(), addends.end(), [&](const auto& a) { return a.name == name; });
    EXPECT_NE(found, addends.end()) << name;
    return found == addends.end() ? none : *found;
}

// No step waits longer for the host than it would shrink if the host took no time.
TEST(ReportParts, TheHostIsBlamedForWhatAFasterOneSaves) {
    const auto environment = environment_of("llama3-8b", "dgx-h100:16");
    DeviceMesh mesh;
    mesh.dp = 4, mesh.pp = 4;
    for (const char* schedule : {"1f1b", "zb-h1", "zb-h2"}) {
        ParallelPlan plan = plan_of(*environment, mesh, schedule, 16, 4096);
        plan.zero_stage = 1;
        const SimulationReport report = simulate(environment, plan);
        auto faster = std::make_shared<Environment>(*environment);
        faster->dispatch_s *= 1e-6;
        const double saved = report.step_time_s - simulate(faster, plan).step_time_s;
        for (const RankReport& rank : report.ranks)
            EXPECT_LE(rank.breakdown.host, saved + 1e-6 * report.step_time_s) << schedule << " " << rank.rank;
    }
}

// PipeDream updates, and its replicas reduce, after every microbatch.
TEST(ReportParts, PipeDreamUpdatesAfterEveryMicrobatch) {
    const auto environment = environment_of("llama3-8b", "dgx-h100:8");
    DeviceMesh mesh;
    mesh.dp = 2, mesh.pp = 4;
    ParallelPlan plan = plan_of(*environment, mesh, "pipedream", 8, 2048);
    plan.semantics = Semantics::Asynchronous;
    const SimulationReport report = simulate(environment, plan, true);
    ParallelPlan flushed = plan;
    flushed.schedule = "1f1b";
    flushed.semantics = Semantics::Synchronous;
    const SimulationReport once = simulate(environment, flushed);
    const auto dp = [](const SimulationReport& r) {
        return std::find_if(r.communication.begin(), r.communication.end(),
                            [](const CommunicationReport& c) { return c.kind == "dp"; });
    };
    ASSERT_NE(dp(report), report.communication.end());
    ASSERT_NE(dp(once), once.communication.end());
    EXPECT_NEAR(dp(report)->bytes / dp(once)->bytes, 8, 0.01);
    for (std::size_t r = 0; r < 4; ++r) {
        const TimeBreakdown& b = report.ranks[r].breakdown;
        EXPECT_NEAR(b.optimizer / once.ranks[r].breakdown.optimizer, 8, 0.1);
        EXPECT_NEAR(b.total(), report.step_time_s, 1e-6 * report.step_time_s);
    }
    // Every step has its own updates and reductions.
    for (const RankTrace& rank : report.trace.ranks) {
        std::vector<int> updates(static_cast<std::size_t>(report.trace.steps), 0);
        for (const TraceEvent& event : rank.events)
            updates[static_cast<std::size_t>(event.step)] +=
                event.instruction.opcode == Opcode::OptimizerStep;
        for (const int n : updates)
            EXPECT_EQ(n, 8);
    }
}

// The replicas of a stage wait for the sum of their gradients.
TEST(ReportParts, ReplicatedStagesReduce) {
    const auto environment = environment_of("vgg16", "h100:4");
    DeviceMesh mesh;
    mesh.pp = 2;
    ParallelPlan plan = plan_of(*environment, mesh, "pipedream", 12, 1024);
    plan.semantics = Semantics::Asynchronous;
    plan.stages[0].replicas = 3;
    const SimulationReport report = simulate(environment, plan, true);
    ASSERT_EQ(report.ranks.size(), 4U);
    int reductions = 0;
    for (const RankTrace& rank : report.trace.ranks) {
        for (const TraceEvent& event : rank.events) {
            if (event.instruction.opcode != Opcode::AllReduce) continue;
            ++reductions;
            EXPECT_GT(event.end, event.start);
        }
    }
    EXPECT_GT(reductions, 0);
    for (const RankReport& rank : report.ranks)
        EXPECT_NEAR(rank.breakdown.total(), report.step_time_s, 1e-6 * report.step_time_s);
}

// Backwards that reductions slow down: more than nothing, and named.
TEST(ReportParts, ReductionsBesideBackwardsTakeTheirTime) {
    const auto environment = environment_of("llama3-8b", "dgx-h100:16");
    DeviceMesh mesh;
    mesh.dp = 16;
    ParallelPlan plan = plan_of(*environment, mesh, "1f1b", 4, 4096);
    plan.zero_stage = 1;
    plan.overlap.grad_reduce = true;
    const SimulationReport report = simulate(environment, plan);
    EXPECT_GT(report.ranks[0].breakdown.slowed, 0);
    EXPECT_NEAR(report.ranks[0].breakdown.total(), report.step_time_s, 1e-6 * report.step_time_s);
}

TEST(ReportParts, AddendsNameTensorsAndSizes) {
    const auto environment = environment_of("llama3-8b", "dgx-h100:8");
    DeviceMesh mesh;
    mesh.tp = 2, mesh.pp = 4;
    const ParallelPlan plan = plan_of(*environment, mesh, "1f1b", 8, 8192);
    const SimulationReport report = simulate(environment, plan);
    const std::string first = addend(report.memory[0].addends, "activations").formula;
    EXPECT_NE(first.find("4 microbatches x ("), std::string::npos) << first;
    EXPECT_NE(first.find("blocks x "), std::string::npos) << first;
    const std::string last = addend(report.memory[3].addends, "activations").formula;
    // 128,256 rows are 501 times 256.
    EXPECT_NE(last.find("[8192, 64128] fp32"), std::string::npos) << last;
    EXPECT_NE(last.find("1 microbatch x ("), std::string::npos) << last;
    const std::string work = addend(report.memory[3].addends, "temporaries").formula;
    EXPECT_NE(work.find("B x [8192, 64128]"), std::string::npos) << work;
    // 8 blocks (or so) of the first stage's: the words' numbers are the bytes.
    EXPECT_GT(addend(report.memory[0].beside, "communicators").bytes, 0);
    EXPECT_GT(addend(report.memory[0].beside, "context").bytes, 0);
    EXPECT_EQ(report.vocabulary, 128256);
    EXPECT_EQ(report.padded_vocabulary, 128256);
}

// Devices of two sizes: each rank's curve is judged by its own.
TEST(ReportParts, CurvesOfMixedDevicesHaveTheirOwnCapacity) {
    Cluster machines = load_cluster("h100:8").value();
    const Cluster smaller = load_cluster("l40s:8").value();
    machines.groups.insert(machines.groups.end(), smaller.groups.begin(), smaller.groups.end());
    const std::shared_ptr<const Environment> environment =
        *make_environment(load_model("gpt2-large").value().graph, machines);
    DeviceMesh mesh;
    mesh.dp = 8, mesh.pp = 2;
    ParallelPlan plan = plan_of(*environment, mesh, "1f1b", 4, 1024);
    plan.stages.back().node_group = 1;
    const SimulationReport report = simulate(environment, plan, true);
    ASSERT_EQ(report.trace.ranks.size(), 2U);
    for (std::size_t r = 0; r < 2; ++r) {
        EXPECT_NEAR(static_cast<double>(report.trace.capacity_of(report.trace.ranks[r])),
                    report.memory[r].capacity_bytes, 1);
        EXPECT_EQ(report.trace.ranks[r].memory.front().time, 0);
    }
    EXPECT_LT(report.trace.capacity_of(report.trace.ranks[1]),
              report.trace.capacity_of(report.trace.ranks[0]));
}

}  // namespace
}  // namespace tw
