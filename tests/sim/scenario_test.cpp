// Scenarios on real plans: what a slow rank, a slow or dead interface and jitter do, and who is named.
#include "sim/scenario/scenario.hpp"

#include <gtest/gtest.h>

#include "models/load_model.hpp"
#include "plan/stage_partition.hpp"

namespace tw {
namespace {

ParallelPlan make_plan(const LayerGraph& graph, DeviceMesh mesh, int microbatches) {
    ParallelPlan plan;
    plan.mesh = mesh;
    plan.microbatches = microbatches;
    plan.global_batch = std::int64_t{microbatches} * mesh.dp;
    plan.seq_len = 1024;
    plan.zero_stage = 1;
    plan.sequence_parallel = mesh.tp > 1;
    plan.framework = "megatron";
    plan.stages = uniform_partition(graph, mesh.pp, RecomputeMode::None);
    return plan;
}

struct Case {
    std::shared_ptr<const Environment> environment;
    ParallelPlan plan;

    Case(const std::string& model, const std::string& cluster, DeviceMesh mesh, int microbatches) {
        auto loaded = load_model(model);
        auto machines = load_cluster(cluster);
        EXPECT_TRUE(loaded.has_value() && machines.has_value());
        plan = make_plan(loaded->graph, mesh, microbatches);
        auto made = make_environment(std::move(loaded->graph), std::move(*machines));
        EXPECT_TRUE(made.has_value());
        // Without the host: these models are so small that they wait for it, which hides what a device does.
        auto devices = std::make_shared<Environment>(**made);
        devices->dispatch_s = 0;
        environment = devices;
    }
    [[nodiscard]] ScenarioResult run(const Scenario& scenario) const {
        const Simulator simulator(environment);
        auto result = simulate_scenario(simulator, plan, scenario);
        EXPECT_TRUE(result.has_value()) << (result.has_value() ? "" : to_string(result.errors()));
        return result.has_value() ? std::move(*result) : ScenarioResult{};
    }
};

DeviceMesh mesh(int dp, int pp, int tp) {
    DeviceMesh m;
    m.dp = dp;
    m.pp = pp;
    m.tp = tp;
    return m;
}

Case data_parallel() {
    return {"gpt2-small", "h100:4", mesh(4, 1, 1), 2};
}
Case three_axes() {
    return {"gpt2-large", "dgx-h100:16", mesh(4, 2, 2), 4};
}

const ScenarioRank& rank_of(const ScenarioResult& result, int rank) {
    for (const ScenarioRank& r : result.ranks)
        if (r.rank == rank) return r;
    ADD_FAILURE() << "rank " << rank << " is not in the result";
    return result.ranks.front();
}

TEST(Scenario, WithoutTroubleNothingChangesAndNobodyIsNamed) {
    for (const Case& c : {data_parallel(), three_axes()}) {
        Scenario clean;
        const ScenarioResult one = c.run(clean);
        EXPECT_EQ(one.slowdown, 1.0);
        EXPECT_EQ(one.straggler, -1);
        EXPECT_EQ(one.programs, c.plan.mesh.pp);
        // Every rank by itself: symmetry gave the same.
        clean.all_ranks = true;
        const ScenarioResult all = c.run(clean);
        EXPECT_EQ(all.programs, c.plan.mesh.devices());
        EXPECT_NEAR(all.mean_step_s, one.mean_step_s, 1e-9 * one.mean_step_s);
        EXPECT_EQ(all.straggler, -1);
        EXPECT_EQ(all.ranks.size(), static_cast<std::size_t>(c.plan.mesh.devices()));
        // Without contention it is what `simulate` says.
        clean.all_ranks = clean.contention = false;
        const ScenarioResult nominal = c.run(clean);
        EXPECT_NEAR(nominal.mean_step_s, nominal.nominal_step_s, 1e-9 * nominal.mean_step_s);
        EXPECT_GE(one.mean_step_s, nominal.mean_step_s * (1 - 1e-9));
    }
}

// 200 ms injected into rank 1's backward: the gradients' all-reduce equalises everybody's
// backward, but ranks 0, 2 and 3 wait about 200 ms at it and rank 1 does not.
TEST(Scenario, TheRankThatOthersWaitForIsNamed) {
    const Case c = data_parallel();
    Scenario scenario;
    scenario.delays = {{{1, -1}, true, 0.2}};
    const ScenarioResult result = c.run(scenario);
    EXPECT_EQ(result.straggler, 1);
    EXPECT_NEAR(result.straggler_delay_s, 0.2, 0.01);
    EXPECT_NEAR(result.mean_step_s - result.clean_step_s, 0.2, 0.01);
    EXPECT_NEAR(rank_of(result, 1).wait_s, 0, 0.005);
    EXPECT_NEAR(rank_of(result, 0).wait_s, 0.2, 0.01);
    EXPECT_EQ(result.programs, 2);  // rank 1, and rank 0 for the three others

    scenario.all_ranks = true;
    const ScenarioResult all = c.run(scenario);
    EXPECT_EQ(all.straggler, 1);
    EXPECT_EQ(all.programs, 4);
    EXPECT_NEAR(all.mean_step_s, result.mean_step_s, 1e-9);
    for (const int other : {0, 2, 3})
        EXPECT_NEAR(rank_of(all, other).wait_s, 0.2, 0.01);
}

TEST(Scenario, ASlowRankIsFoundInsideThePipelineAndTheTensorGroup) {
    const Case c = three_axes();  // ranks: tp + 2 dp + 8 pp
    for (const int slow : {0, 3, 10, 13}) {
        Scenario scenario;
        scenario.slow_ranks = {{{slow, -1}, 1.5}};
        const ScenarioResult result = c.run(scenario);
        EXPECT_EQ(result.straggler, slow) << result.symmetry;
        EXPECT_GT(result.slowdown, 1.1);
        EXPECT_LT(result.slowdown, 1.5 + 1e-9);
        EXPECT_EQ(result.programs, 4);  // two data replicas of a pipeline of two
        scenario.all_ranks = true;
        const ScenarioResult all = c.run(scenario);
        EXPECT_NEAR(all.mean_step_s, result.mean_step_s, 2e-3 * result.mean_step_s);
        EXPECT_EQ(all.straggler, slow);
    }
}

TEST(Scenario, SlowingEveryRankAlikeNeedsNoReplicas) {
    const Case c = three_axes();
    Scenario scenario;
    scenario.slow_ranks = {{{-1, 0}, 1.25}, {{-1, 1}, 1.25}};
    const ScenarioResult result = c.run(scenario);
    EXPECT_EQ(result.programs, 2);
    EXPECT_EQ(result.straggler, -1);
    EXPECT_GT(result.slowdown, 1.05);
    EXPECT_LE(result.slowdown, 1.25 + 1e-9);
}

// Gradients cross nodes here: 16 nodes of one device's worth each would hide it, so tp 8 fills a node.
Case across_nodes() {
    Case c{"llama2-7b", "dgx-h100:32", mesh(4, 1, 8), 2};
    return c;
}

TEST(Scenario, ASlowInterfaceSlowsTheGradients) {
    const Case c = across_nodes();
    Scenario scenario;
    scenario.slow_nics = {{2, 5, 0.1}};
    const ScenarioResult result = c.run(scenario);
    EXPECT_GT(result.slowdown, 1.02);
    EXPECT_EQ(result.straggler, -1);  // nobody computes late
    EXPECT_GT(result.slowed_share, 0);
    double previous = 1;
    for (const double rate : {0.5, 0.2, 0.05}) {
        scenario.slow_nics = {{2, 5, rate}};
        const double slowdown = c.run(scenario).slowdown;
        EXPECT_GE(slowdown, previous);
        previous = slowdown;
    }
}

TEST(Scenario, ADeadInterfaceSharesItsNeighbours) {
    const Case c = across_nodes();
    Scenario scenario;
    scenario.dead_nics = {{1, 3}};
    const ScenarioResult dead = c.run(scenario);
    EXPECT_GT(dead.slowdown, 1.005);
    // Two devices on one interface: as if that one had half its rate.
    Scenario half;
    half.slow_nics = {{1, 4, 0.5}};
    EXPECT_NEAR(dead.mean_step_s, c.run(half).mean_step_s, 0.02 * dead.mean_step_s);
}

// Collectives inside a stage are part of its compute: ZeRO-3's over all ranks, tensor and context parallel
// ones across nodes wait for the slow interface too.
TEST(Scenario, ASlowInterfaceSlowsTheCollectivesInsideStages) {
    DeviceMesh context = mesh(1, 1, 8);
    context.cp = 2;
    for (const auto& [shape, zero] :
         {std::pair(mesh(16, 1, 1), 3), std::pair(mesh(1, 1, 16), 1), std::pair(context, 1)}) {
        Case c("llama2-7b", "dgx-h100:16", shape, 4);
        c.plan.zero_stage = zero;
        SCOPED_TRACE(summary(c.plan));
        double previous = 1;
        for (const double rate : {0.5, 0.2, 0.05}) {
            Scenario scenario;
            scenario.slow_nics = {{1, 3, rate}};
            const ScenarioResult result = c.run(scenario);
            EXPECT_GE(result.slowdown, previous);
            previous = result.slowdown;
            // As a network that is slow everywhere: a ring is as fast as its slowest link.
            auto slow = std::make_shared<Environment>(*c.environment);
            slow->cluster.groups.front().type.nic_bandwidth.value *= rate;
            const auto everywhere = Simulator(slow).simulate(c.plan);
            ASSERT_TRUE(everywhere);
            EXPECT_NEAR(result.mean_step_s, everywhere->step_time_s, 0.1 * everywhere->step_time_s);
        }
        EXPECT_GT(previous, 1.2);
        // A dead interface's device shares its neighbour's: half the rate for both.
        Scenario dead, half;
        dead.dead_nics = {{1, 3}};
        half.slow_nics = {{1, 4, 0.5}};
        EXPECT_NEAR(c.run(dead).mean_step_s, c.run(half).mean_step_s, 1e-3 * c.run(half).mean_step_s);
    }
    // Where such collectives stay inside nodes nothing of the compute changes.
    const Case inside = three_axes();
    Scenario scenario;
    scenario.slow_nics = {{1, 3, 0.2}};
    const ScenarioResult result = inside.run(scenario);
    EXPECT_EQ(rank_of(result, 0).busy_s, rank_of(inside.run({}), 0).busy_s);
}

// Whether replicas that fare alike were simulated once or each by itself, the same rank is named, and it is
// as late: a rank that is faster than 15 others is no straggler, and neither are these.
TEST(Scenario, ReplicasThatWereNotSimulatedCountToo) {
    const Case c("gpt2-large", "dgx-h100:16", mesh(16, 1, 1), 2);
    for (const auto& [rank, factor] : {std::pair(5, 0.5), std::pair(5, 2.0), std::pair(0, 0.5)}) {
        Scenario scenario;
        scenario.slow_ranks = {{{rank, -1}, factor}};
        const ScenarioResult merged = c.run(scenario);
        EXPECT_EQ(merged.programs, 2);
        scenario.all_ranks = true;
        const ScenarioResult all = c.run(scenario);
        EXPECT_EQ(merged.straggler, all.straggler) << rank << " " << factor;
        EXPECT_EQ(merged.straggler, factor > 1 ? rank : -1);
        EXPECT_NEAR(merged.straggler_delay_s, all.straggler_delay_s, 1e-6);
        int counted = 0;
        for (const ScenarioRank& r : merged.ranks)
            counted += r.alike;
        EXPECT_EQ(counted, 16);
    }
}

TEST(Scenario, JitterHasItsMeanAndDependsOnTheSeedAlone) {
    const Case c = data_parallel();
    Scenario scenario;
    scenario.jitter = {7, 0.05, 0.02};
    scenario.steps = 8;
    const ScenarioResult first = c.run(scenario), again = c.run(scenario);
    EXPECT_EQ(first.step_s, again.step_s);
    EXPECT_EQ(first.step_s.size(), 8U);
    EXPECT_EQ(first.programs, 4);
    EXPECT_GT(first.mean_step_s, first.clean_step_s);  // the slowest of four sets the pace
    EXPECT_LT(first.mean_step_s, 1.3 * first.clean_step_s);
    EXPECT_GE(first.max_step_s, first.mean_step_s);
    scenario.jitter.seed = 8;
    EXPECT_NE(first.step_s, c.run(scenario).step_s);
    // Which replicas are simulated does not change a draw.
    scenario.jitter.seed = 7;
    scenario.all_ranks = true;
    EXPECT_EQ(first.step_s, c.run(scenario).step_s);
}

// Other parallelisms: experts, context, ZeRO-3, chunks, each step boundary, pipelines inside a node, odd
// orders.
struct Variant {
    const char* name;
    const char* model;
    DeviceMesh mesh;
    const char* schedule = "1f1b";
    int virtual_stages = 1;
    int zero = 1;
    const char* rank_order = "tp-cp-ep-dp-pp";
    const char* cluster = "dgx-h100:16";
    double tolerance = 1e-6;
};

std::vector<Variant> variants() {
    DeviceMesh experts = mesh(8, 2, 1), context = mesh(2, 2, 2);
    experts.ep = 4;
    context.cp = 2;
    return {{"experts", "mixtral-8x7b", experts},
            {"context", "llama3-8b", context},
            {"zero-3", "llama3-8b", mesh(16, 1, 1), "1f1b", 1, 3},
            {"zero-0", "llama3-8b", mesh(4, 2, 2), "1f1b", 1, 0},
            {"chunks", "llama3-8b", mesh(2, 4, 2), "interleaved", 2},
            {"zero bubble", "llama3-8b", mesh(2, 4, 2), "zb-h1"},
            {"never flushed", "llama3-8b", mesh(2, 4, 2), "pipedream", 1, 0},
            {"inside a node", "llama3-8b", mesh(2, 8, 1)},
            {"pipeline first", "llama3-8b", mesh(4, 2, 2), "1f1b", 1, 1, "tp-cp-pp-ep-dp"},
            {"shared interfaces", "llama3-8b", mesh(4, 2, 2), "1f1b", 1, 1, "tp-cp-ep-dp-pp", "a3-high:16"},
            {"four nodes of four", "llama3-8b", mesh(4, 2, 2), "1f1b", 1, 1, "tp-cp-ep-dp-pp", "alps:16"},
            // Two members of a gradient group on one interface are one flow where both are simulated, two
            // half interfaces where one stands for both: shares against transfers differ.
            {"gradients and transfers share", "llama3-8b", mesh(2, 4, 2), "1f1b", 1, 1, "dp-tp-cp-ep-pp",
             "a3-high:16", 2e-3}};
}

TEST(Scenario, SymmetryHoldsForEveryKindOfPlan) {
    for (const Variant& v : variants()) {
        Case c(v.model, v.cluster, v.mesh, 8);
        c.plan.schedule = v.schedule;
        c.plan.virtual_stages = v.virtual_stages;
        c.plan.zero_stage = v.zero;
        c.plan.rank_order = v.rank_order;
        c.plan.stages =
            uniform_partition(c.environment->graph, v.mesh.pp * v.virtual_stages, RecomputeMode::None);
        if (std::string(v.schedule) == "pipedream") c.plan.semantics = Semantics::Asynchronous;
        SCOPED_TRACE(v.name);
        Scenario clean;
        const ScenarioResult one = c.run(clean);
        EXPECT_NEAR(one.slowdown, 1, 1e-9);
        EXPECT_EQ(one.straggler, -1);
        EXPECT_GE(one.clean_step_s, one.nominal_step_s * (1 - 1e-9));
        EXPECT_LE(one.clean_step_s, one.nominal_step_s * 1.25);
        clean.all_ranks = true;
        const ScenarioResult all = c.run(clean);
        EXPECT_NEAR(all.mean_step_s, one.mean_step_s, v.tolerance * one.mean_step_s) << all.symmetry;
        EXPECT_EQ(all.ranks.size(), 16U);
        // A slow rank never makes a fixed order of streams faster, and is the one that is named.
        for (const int slow : {1, 6, 15}) {
            Scenario scenario;
            scenario.contention = false;
            scenario.slow_ranks = {{{slow, -1}, 1.4}};
            const ScenarioResult result = c.run(scenario);
            EXPECT_GE(result.slowdown, 1 - 1e-9);
            EXPECT_LE(result.slowdown, 1.4 + 1e-9);
            EXPECT_EQ(result.straggler, slow) << result.symmetry;
            double previous = result.mean_step_s;
            scenario.slow_ranks[0].time_factor = 2;
            EXPECT_GE(c.run(scenario).mean_step_s, previous);
        }
    }
}

// PipeDream's replicated stages: three devices run the first stage, one the second.
TEST(Scenario, ReplicatedStagesAreRanksOfTheirOwn) {
    Case c("vgg16", "h100:4", mesh(1, 2, 1), 12);
    c.plan.schedule = "pipedream";
    c.plan.semantics = Semantics::Asynchronous;
    c.plan.zero_stage = 0;
    c.plan.stages[0].replicas = 3;
    Scenario scenario;
    const ScenarioResult clean = c.run(scenario);
    EXPECT_NEAR(clean.slowdown, 1, 1e-9);
    EXPECT_EQ(clean.ranks.size(), 4U);
    scenario.slow_ranks = {{{1, -1}, 2}};
    const ScenarioResult slow = c.run(scenario);
    EXPECT_GE(slow.slowdown, 1);
    EXPECT_GT(rank_of(slow, 1).busy_s, 1.9 * rank_of(clean, 1).busy_s);
}

TEST(Scenario, RefusesMoreThanFitsInMemory) {
    Case c("gpt2-small", "h100:4", mesh(4, 1, 1), 1000);
    Scenario scenario;
    scenario.jitter.compute_sigma = 0.1;
    scenario.steps = 1'000'000;
    const auto result = simulate_scenario(Simulator(c.environment), c.plan, scenario);
    ASSERT_FALSE(result.has_value());
    EXPECT_NE(result.error().hint.find("at most"), std::string::npos);
}

TEST(Scenario, RefusesMoreThanTimeHolds) {
    const Case c("gpt3-175b", "h100:64", mesh(1, 8, 8), 2000);
    Scenario scenario;
    scenario.slow_ranks = {{{3, -1}, 1000}};
    scenario.steps = 100;
    const Simulator simulator(c.environment);
    const auto refused = simulate_scenario(simulator, c.plan, scenario);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("days, at most 23 are simulated"), std::string::npos)
        << to_string(refused.errors());
}

TEST(Scenario, RefusesWhatIsNotThere) {
    const Case c = data_parallel();
    const Simulator simulator(c.environment);
    Scenario scenario;
    scenario.slow_ranks = {{{4, -1}, 2}, {{-1, 9}, 2}};
    scenario.delays = {{{77, -1}, true, 1}};
    scenario.slow_nics = {{3, -1, 0.5}};
    scenario.dead_nics = {{0, 99}};
    const auto result = simulate_scenario(simulator, c.plan, scenario);
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.errors().size(), 5U) << to_string(result.errors());
    EXPECT_NE(result.error().message.find("rank 4"), std::string::npos);

    scenario = {};
    const Case apart = across_nodes();
    scenario.slow_nics = {{1, 3, 0.5}};
    scenario.contention = false;
    const auto apart_from_links = simulate_scenario(Simulator(apart.environment), apart.plan, scenario);
    ASSERT_FALSE(apart_from_links.has_value());
    EXPECT_EQ(apart_from_links.error().hint, "\"contention\": true, or neither of them");
    scenario = {};
    for (int nic = 0; nic < 8; ++nic)
        scenario.dead_nics.push_back({1, nic});
    const auto dark = simulate_scenario(Simulator(apart.environment), apart.plan, scenario);
    ASSERT_FALSE(dark.has_value());
    EXPECT_EQ(dark.error().code, ErrorCode::Infeasible);
}

}  // namespace
}  // namespace tw
