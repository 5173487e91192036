// What synchronisations other than all-reduce and ZeRO cost, and what the report says of them.
#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "models/load_model.hpp"
#include "plan/gradient_sync/gradient_sync.hpp"
#include "plan/stage_partition.hpp"
#include "sim/report/report_json.hpp"
#include "sim/report/report_text.hpp"
#include "sim/scenario/asynchronous.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/simulator.hpp"

namespace tw {
namespace {

struct Case {
    std::shared_ptr<const Environment> environment;
    ParallelPlan plan;

    explicit Case(const char* method, SyncOptions options = {}, const std::string& cluster = "h100:4",
                  int dp = 4, int pp = 1) {
        auto made = make_environment(load_model("gpt2-small").value().graph, load_cluster(cluster).value());
        auto devices = std::make_shared<Environment>(**made);
        devices->dispatch_s = 0;  // the host would hide what a device does
        environment = devices;
        plan.mesh.dp = dp;
        plan.mesh.pp = pp;
        plan.microbatches = 4;
        plan.global_batch = std::int64_t{4} * dp;
        plan.seq_len = 1024;
        plan.overlap.grad_reduce = false;
        plan.stages = uniform_partition(environment->graph, pp, RecomputeMode::None);
        plan.gradient_sync = method;
        plan.gradient_sync_options = options;
        plan.semantics = (*find_gradient_sync(method))->info().semantics;
    }
    [[nodiscard]] StageCostSet stage() const {
        ShapeCostCache shapes;
        std::vector<std::uint16_t> ranks(plan.stages.size());
        std::iota(ranks.begin(), ranks.end(), std::uint16_t{0});
        return PlanCost(*environment, plan, ranks, shapes).stage(0);
    }
    [[nodiscard]] SimulationReport report() const {
        auto result = Simulator(environment).simulate(plan);
        EXPECT_TRUE(result.has_value()) << (result.has_value() ? "" : to_string(result.errors()));
        return result.has_value() ? std::move(*result) : SimulationReport{};
    }
    [[nodiscard]] ScenarioResult run(const Scenario& scenario) const {
        auto result = simulate_scenario(Simulator(environment), plan, scenario);
        EXPECT_TRUE(result.has_value()) << (result.has_value() ? "" : to_string(result.errors()));
        return result.has_value() ? std::move(*result) : ScenarioResult{};
    }
    [[nodiscard]] double port() const { return environment->node_group(0).type.link_bandwidth.value; }
};

double exposed_dp(const SimulationReport& report) {
    return report.ranks.front().breakdown.exposed_dp;
}

// A plan's own options decide what is sent.
TEST(GradientSyncCost, FollowsThePlansOptions) {
    const double parameters = Case("top-k").stage().dense_parameters;
    EXPECT_DOUBLE_EQ(Case("top-k").stage().sync.wire_bytes, 3 * 0.01 * parameters * 8);
    EXPECT_DOUBLE_EQ(Case("top-k", {.density = 0.1}).stage().sync.wire_bytes, 3 * 0.1 * parameters * 8);
    EXPECT_GT(Case("top-k", {.density = 0.1}).report().step_time_s, Case("top-k").report().step_time_s);
    EXPECT_DOUBLE_EQ(Case("8-bit", {.block = 32}).stage().gradient_sync.bytes,
                     2 * parameters * (1 + 4.0 / 32));
}

// The servers' port takes in all pushes at once, then sends all parameters.
TEST(GradientSyncCost, SynchronousServersArePacedByTheirPortInBothDirections) {
    for (const int servers : {1, 2}) {
        const Case c("ps-sync", {.servers = servers});
        const StageCostSet stage = c.stage();
        EXPECT_NEAR(stage.gradient_sync.seconds, 4 * 4 * stage.dense_parameters / servers / c.port(), 1e-12);
        EXPECT_NEAR(stage.parameter_gather.seconds, 4 * 2 * stage.dense_parameters / servers / c.port(),
                    1e-12);
    }
    // One behind the other, where nothing overlaps.
    const Case one("ps-sync", {.servers = 1}), two("ps-sync", {.servers = 2});
    EXPECT_NEAR(one.report().step_time_s - two.report().step_time_s,
                4 * 6 * one.stage().dense_parameters / 2 / one.port(), 1e-6);
}

// A worker waits for its own answer alone; what all of them push passes one port in a step.
TEST(GradientSyncCost, AsynchronousServersTakeTheLongerOfOwnWorkAndPort) {
    const Case many("ps-async", {.servers = 4}), one("ps-async", {.servers = 1});
    const SimulationReport own = many.report();
    const double port = 4 * 4 * one.stage().dense_parameters / one.port();
    EXPECT_LT(many.stage().sync.server_s, own.step_time_s);
    EXPECT_LT(own.step_time_s, Case("ps-sync", {.servers = 4}).report().step_time_s);
    EXPECT_NEAR(one.report().step_time_s, std::max(own.step_time_s, port), 1e-9);
    // Three times the work behind the same port.
    Case slow("ps-async", {.servers = 1});
    slow.environment = [&] {
        auto scarce = std::make_shared<Environment>(*slow.environment);
        for (NodeGroup& group : scarce->cluster.groups)
            group.type.link_bandwidth.value /= 200;
        return scarce;
    }();
    const SimulationReport paced = slow.report();
    EXPECT_NEAR(paced.step_time_s, slow.stage().sync.server_s, 1e-9);
    EXPECT_NEAR(paced.step_time_s, 200 * port, 1e-6);
    EXPECT_GT(exposed_dp(paced), exposed_dp(own));
    EXPECT_NE(report_text(paced).find("it paces the step"), std::string::npos) << report_text(paced);
    EXPECT_NEAR(paced.ranks.front().breakdown.total(), paced.step_time_s, 1e-9);
}

// An average of the parameters every H steps, behind the update: its share is part of every step.
TEST(GradientSyncCost, LocalStepsBearTheirShareOfAnAverage) {
    const Case every("local-sgd", {.local_steps = 1}), tenth("local-sgd", {.local_steps = 10});
    const double average = every.stage().average.seconds;
    EXPECT_GT(average, 0);
    EXPECT_NEAR(tenth.stage().average.seconds, average / 10, 1e-12);
    EXPECT_NEAR(every.report().step_time_s - tenth.report().step_time_s, 0.9 * average, 1e-9);
    EXPECT_NEAR(exposed_dp(every.report()) - exposed_dp(tenth.report()), 0.9 * average, 1e-9);
    EXPECT_NEAR(every.report().ranks.front().breakdown.total(), every.report().step_time_s, 1e-9);
    EXPECT_DOUBLE_EQ(tenth.report().gradient_sync.wire_bytes, every.report().gradient_sync.wire_bytes / 10);
}

// Everyone waits for the slow one; asynchronous workers do not, within a bound they do.
TEST(GradientSyncCost, StragglersPaceSynchronousServersAlone) {
    Scenario scenario;
    scenario.slow_ranks = {{{2, -1}, 2.0}};
    const auto mean = [&](const Case& c) { return c.run(scenario); };
    const ScenarioResult synchronous = mean(Case("ps-sync")), apart = mean(Case("ps-async"));
    const ScenarioResult bounded = mean(Case("ps-async", {.staleness = 1}));
    EXPECT_GT(synchronous.slowdown, 1.8);
    EXPECT_EQ(synchronous.straggler, 2);
    // Three at full pace, one at little more than half of it.
    const double slow = bounded.mean_step_s / bounded.clean_step_s;
    EXPECT_GT(slow, 1.7);
    EXPECT_NEAR(apart.slowdown, 4 / (3 + 1 / slow), 1e-6);
    EXPECT_EQ(apart.straggler, -1);
    EXPECT_EQ(bounded.straggler, 2);
    EXPECT_EQ(apart.programs, 2);
    EXPECT_EQ(apart.ranks.size(), 2U);
    Scenario healthy;
    healthy.all_ranks = true;
    const ScenarioResult all = Case("ps-async").run(healthy);
    EXPECT_NEAR(all.slowdown, 1, 1e-6);
    EXPECT_EQ(all.ranks.size(), 4U);
    // And in a pipeline, where a replica is as slow as its slow stage makes it.
    const Case deep("ps-async", {}, "h100:8", 4, 2);
    const ScenarioResult stages = deep.run(scenario);
    EXPECT_GT(stages.slowdown, 1.05);
    EXPECT_LT(stages.slowdown, Case("ps-sync", {}, "h100:8", 4, 2).run(scenario).slowdown);
}

TEST(GradientSyncCost, StepsOfReplicasThatDoNotWait) {
    const std::vector<std::vector<double>> own = {{1, 1, 1, 1}, {2, 2, 4, 4}};
    EXPECT_EQ(asynchronous_steps(own, {1, 1}, -1, 0)[0], 2 / (1 + 0.5));
    EXPECT_EQ(asynchronous_steps(own, {3, 1}, -1, 0)[2], 4 / (3 + 0.25));
    EXPECT_EQ(asynchronous_steps(own, {3, 1}, 0, 0), (std::vector<double>{2, 2, 4, 4}));
    EXPECT_EQ(asynchronous_steps(own, {3, 1}, 2, 0), (std::vector<double>{8. / 3, 8. / 3, 8. / 3, 4}));
    EXPECT_EQ(asynchronous_steps(own, {1, 1}, -1, 3)[0], 3);
    // Turns: within a bound each waits less often than with none.
    const std::vector<std::vector<double>> turns = {{1, 3}, {3, 1}};
    EXPECT_EQ(asynchronous_steps(turns, {1, 1}, 0, 0), (std::vector<double>{3, 3}));
    EXPECT_EQ(asynchronous_steps(turns, {1, 1}, 1, 0), (std::vector<double>{2, 2}));
}

TEST(GradientSyncCost, ReportSaysBytesCostAndStaleness) {
    const SimulationReport served = Case("ps-async", {.servers = 2, .staleness = 1}).report();
    const GradientSyncReport& sync = served.gradient_sync;
    EXPECT_EQ(sync.method, "ps-async");
    EXPECT_EQ(sync.options, "servers 2, staleness 1");
    EXPECT_EQ(sync.semantics, "asynchronous");
    EXPECT_FALSE(sync.exact);
    const double parameters = Case("ps-async").stage().dense_parameters;
    EXPECT_DOUBLE_EQ(sync.wire_bytes, 4 * parameters);
    EXPECT_DOUBLE_EQ(sync.server_bytes, 4 * 4 * parameters / 2);
    EXPECT_EQ(sync.staleness.max(), 3);  // one clock of each of the three others
    const Json json = report_to_json(served)["gradient_sync"];
    EXPECT_EQ(json["staleness"]["max"], 3);
    EXPECT_EQ(json["staleness"]["probability"].size(), 4U);
    EXPECT_NEAR(json["staleness"]["mean"].get<double>(), sync.staleness.mean(), 1e-12);
    EXPECT_EQ(json["options"], "servers 2, staleness 1");
    const std::string text = report_text(served);
    for (const char* part : {"Gradient synchronisation", "servers 2, staleness 1", "updates of others missed",
                             "never more than 3", "server's port", "approximate"})
        EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
    EXPECT_TRUE(report_to_json(Case("ps-async").report())["gradient_sync"]["staleness"]["max"].is_null());

    const GradientSyncReport packed = Case("8-bit").report().gradient_sync;
    EXPECT_GT(packed.kernel_s, 0);
    EXPECT_GT(packed.kernel_bytes, 10 * parameters);
    EXPECT_GT(packed.memory_bytes, 4 * parameters);
    EXPECT_TRUE(packed.staleness.probability.empty());

    // Sums say all in the report's communication.
    EXPECT_TRUE(Case("all-reduce").report().gradient_sync.method.empty());
    EXPECT_FALSE(report_to_json(Case("all-reduce").report()).contains("gradient_sync"));
}

TEST(GradientSyncCost, ReportSaysTheStalenessOfStages) {
    Case c("all-reduce", {}, "h100:4", 1, 4);
    c.plan.schedule = "pipedream";
    c.plan.semantics = Semantics::Asynchronous;
    const SimulationReport report = c.report();
    EXPECT_EQ(report.gradient_sync.stage_staleness, (std::vector<int>{3, 2, 1, 0}));
    EXPECT_EQ(report_to_json(report)["gradient_sync"]["stage_staleness"], Json({3, 2, 1, 0}));
    EXPECT_NE(report_text(report).find("3, 2, 1, 0 of its own updates missed"), std::string::npos);
}

}  // namespace
}  // namespace tw
