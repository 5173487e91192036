// Gathers of parameters and reductions of gradients have a communicator of their own: the collectives of
// tensor, context and expert parallelism do not wait for them, nor they for those.
#include <gtest/gtest.h>

#include "models/load_model.hpp"
#include "plan/stage_partition.hpp"
#include "sim/collectives/collective_cost.hpp"
#include "sim/cost/layer_cost.hpp"
#include "sim/simulator.hpp"

namespace tw {
namespace {

constexpr int kLayers = 16;
constexpr double kRounding = 1e-10;

GroupPlacement group(int nodes, int per_node) {
    GroupPlacement at;
    at.size = nodes * per_node;
    at.nodes = nodes;
    at.per_node = per_node;
    return at;
}

// Layers of one product and one collective that compute waits for, forward and backward, on 8 nodes of 8.
class ShardStream : public testing::TestWithParam<Axis> {
  protected:
    ShardStream() {
        environment_ =
            make_environment(load_model("llama3-8b").value().graph, load_cluster("h100:64").value()).value();
        context_.profile = &environment_->profile(0);
        context_.node = &environment_->node_group(0).type;
        context_.tp = context_.cp = context_.ep = group(1, 2);
        context_.shard = group(8, 4);
        Op product{.name = "mlp.up", .body = Gemm{8192, 8192, 8192}};
        const Op exchange{.name = "mlp.down",
                          .body = CollectiveOp{CollectiveKind::AllReduce, GetParam(), 1e8}};
        work_.forward = {product, exchange};
        product.phase = Phase::BackwardInput;
        work_.backward = {product, exchange};
        for (Op& op : work_.backward)
            op.phase = Phase::BackwardInput;
        both_ = seconds(Opcode::Forward, 1);
        context_.sharded = {.gathers_forward = true, .gathers_backward = true, .scatters = true};
    }

    [[nodiscard]] double seconds(Opcode opcode, int layers) const {
        const LayerCost cost(work_, context_);
        return to_seconds(cost.phase(RecomputeMode::None, opcode).repeated(layers).device_time()).value;
    }
    [[nodiscard]] double over_shard(CollectiveKind kind, double bytes_each) const {
        return collective_cost(kind, bytes_each * static_cast<double>(work_.dense_parameters), context_.shard,
                               *context_.node, context_.profile)
            .seconds;
    }
    [[nodiscard]] double gather() const { return over_shard(CollectiveKind::AllGather, 2); }
    [[nodiscard]] double scatter() const { return over_shard(CollectiveKind::ReduceScatter, 4); }

    std::shared_ptr<const Environment> environment_;
    CostContext context_;
    LayerWork work_;
    double both_ = 0;  // product and collective, one after the other
};

TEST_P(ShardStream, AGatherHidesBehindProductAndCollective) {
    work_.dense_parameters = 20'000'000;
    ASSERT_LT(gather(), both_);
    EXPECT_NEAR(seconds(Opcode::Forward, kLayers), gather() + kLayers * both_, kRounding);
    work_.dense_parameters = 200'000'000;  // gathers follow each other without a gap
    ASSERT_GT(gather(), both_);
    EXPECT_NEAR(seconds(Opcode::Forward, kLayers), kLayers * gather() + both_, kRounding);
}

TEST_P(ShardStream, AReductionDoesToo) {
    work_.dense_parameters = 10'000'000;
    ASSERT_LT(gather() + scatter(), both_);
    // The first layer's reduction, which stands for the one of a layer before, is over before its product.
    EXPECT_NEAR(seconds(Opcode::Backward, kLayers), gather() + kLayers * both_, kRounding);
}

// Inside a node both pass the same links, which do not send faster for two.
TEST_P(ShardStream, TakesTurnsWhereBothPassTheSamePorts) {
    work_.dense_parameters = 20'000'000;
    const double apart = seconds(Opcode::Forward, kLayers);
    context_.shard = group(1, 4);
    const double exchange =
        collective_cost(CollectiveKind::AllReduce, 1e8, context_.tp, *context_.node, context_.profile)
            .seconds;
    work_.dense_parameters = 2'000'000'000;
    ASSERT_GT(gather() + exchange, both_);
    EXPECT_GE(seconds(Opcode::Forward, kLayers), kLayers * (gather() + exchange) * (1 - kRounding));
    EXPECT_GT(seconds(Opcode::Forward, kLayers), apart);
}

// One thread makes all collectives, and computes.
TEST_P(ShardStream, OneThreadTakesTurns) {
    context_.one_thread = OneThread{};
    work_.dense_parameters = 20'000'000;
    EXPECT_NEAR(seconds(Opcode::Forward, kLayers), kLayers * (gather() + both_), kRounding);
}

INSTANTIATE_TEST_SUITE_P(Axes, ShardStream, testing::Values(Axis::Tp, Axis::Cp, Axis::Ep),
                         [](const auto& of) { return std::string(to_string(of.param)); });

ParallelPlan zero3(const Environment& environment, int tp) {
    ParallelPlan plan;
    plan.mesh.tp = tp;
    plan.mesh.dp = environment.cluster.devices() / tp;
    plan.zero_stage = 3;
    plan.microbatches = tp;
    plan.global_batch = environment.cluster.devices();
    plan.seq_len = 8192;
    plan.stages = uniform_partition(environment.graph, 1, RecomputeMode::None);
    return plan;
}

TEST(ShardStreams, Zero3BesideTensorParallelismTakesTheLongerOfBoth) {
    const auto environment =
        make_environment(load_model("llama3-8b").value().graph, load_cluster("h100:64").value()).value();
    for (const int tp : {2, 8}) {
        const ParallelPlan plan = zero3(*environment, tp);
        ShapeCostCache shapes;
        const std::vector<std::uint16_t> ranks{0};
        const PlanCost costs(*environment, plan, ranks, shapes);
        for (const PhaseCost* phase : {&costs.stage(0).forward, &costs.stage(0).backward}) {
            const double computes = phase->kernel_s + phase->tp.blocking_s;
            const double longer = std::max(computes, phase->dp.total_s);
            EXPECT_GE(to_seconds(phase->device_time()).value, longer * 0.999);
            EXPECT_LE(to_seconds(phase->device_time()).value, longer * 1.2);
            EXPECT_FALSE(phase->tp.algorithm.empty());
            EXPECT_FALSE(phase->dp.algorithm.empty());
        }
    }
}

TEST(ShardStreams, TheReportNamesEveryAxisAlgorithm) {
    const auto environment =
        make_environment(load_model("llama3-8b").value().graph, load_cluster("h100:64").value()).value();
    ParallelPlan plan = zero3(*environment, 4);
    const auto algorithm = [&](std::string_view kind) -> std::string {
        const auto report = Simulator(environment).simulate(plan);
        EXPECT_TRUE(report) << to_string(report.errors());
        for (const CommunicationReport& one : report->communication) {
            if (one.kind == kind) return one.algorithm;
        }
        return "none";
    };
    const std::string usual = algorithm("dp");
    EXPECT_NE(usual, "");
    EXPECT_NE(algorithm("tp"), "");
    // By name.
    plan.collectives = {{"tp", "tree"}};
    EXPECT_EQ(algorithm("tp"), "tree");
    EXPECT_EQ(algorithm("dp"), usual);
    const double tree = Simulator(environment).simulate(plan)->step_time_s;
    plan.collectives = {};
    EXPECT_LT(Simulator(environment).simulate(plan)->step_time_s, tree);
}

}  // namespace
}  // namespace tw
