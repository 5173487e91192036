// What ZeRO's collectives cost: pieces, precision, how often, over which ranks.
#include <gtest/gtest.h>

#include "models/load_model.hpp"
#include "plan/check_plan.hpp"
#include "plan/frameworks/framework.hpp"
#include "plan/lower_plan.hpp"
#include "plan/sharded_layers.hpp"
#include "plan/stage_partition.hpp"
#include "sim/collectives/collective_cost.hpp"
#include "sim/memory/model_states.hpp"
#include "sim/report/make_report.hpp"
#include "sim/simulator.hpp"

namespace tw {
namespace {

struct Case {
    std::shared_ptr<const Environment> environment;
    ParallelPlan plan;
    ShapeCostCache shapes;
    std::vector<std::uint16_t> ranks;

    Case(const char* model, const std::string& cluster, const char* framework, const DeviceMesh& mesh,
         int zero) {
        environment = *make_environment(load_model(model).value().graph, load_cluster(cluster).value());
        plan.mesh = mesh;
        plan.precision.compute = Precision::Bf16;
        apply_framework(framework_defaults(framework), true, plan);
        plan.zero_stage = zero;
        plan.microbatches = 4;
        plan.global_batch = std::int64_t{4} * mesh.dp;
        plan.seq_len = 4096;
        plan.stages = uniform_partition(environment->graph, mesh.pp, RecomputeMode::None);
        for (int r = 0; r < mesh.pp; ++r)
            ranks.push_back(static_cast<std::uint16_t>(r));
    }

    StageCostSet stage(int s = 0) { return PlanCost(*environment, plan, ranks, shapes).stage(s); }
    [[nodiscard]] RankPlacement placement() const { return place_plan(environment->cluster, plan); }
    [[nodiscard]] double seconds(CollectiveKind kind, double bytes, const GroupPlacement& group) const {
        return collective_cost(kind, bytes, group, environment->node_group(0).type, &environment->profile(0))
            .seconds;
    }
};

DeviceMesh mesh(int dp, int pp = 1, int ep = 1) {
    DeviceMesh m;
    m.dp = dp;
    m.pp = pp;
    m.ep = ep;
    return m;
}

// real_exec/runtime/executor_sync.cpp, start_parameters: one all-gather of all that a stage holds.
TEST(ShardingCost, TheExecutorGathersAStageAtOnceOnGpusToo) {
    Case c("llama3-8b", "h100:64", "trainwright", mesh(64), 1);
    const StageCostSet stage = c.stage();
    const GroupPlacement all = c.placement().group({Axis::Dp});
    EXPECT_DOUBLE_EQ(stage.parameter_gather.seconds,
                     c.seconds(CollectiveKind::AllGather, stage.dense_parameters * 2, all));
    EXPECT_DOUBLE_EQ(stage.gradient_sync.seconds,
                     c.seconds(CollectiveKind::ReduceScatter, stage.dense_parameters * 4, all));
}

// The same under ZeRO-2: each layer's gradients are scattered inside its backward (layer_sharding.cpp),
// HSDP's sum over copies among them, and no second time by the schedule.
TEST(ShardingCost, TheExecutorScattersEachLayerUnderZero2) {
    Case c("llama3-8b", "h100:64", "trainwright", mesh(64), 2);
    EXPECT_DOUBLE_EQ(c.stage().gradient_sync.seconds, 0);
    EXPECT_GT(c.stage().parameter_gather.seconds, 0);
    const double whole = c.stage().backward.dp.total_s;
    EXPECT_GT(whole, 0);
    c.plan.zero_shard = 8;
    EXPECT_DOUBLE_EQ(c.stage().gradient_sync.seconds, 0);
    EXPECT_NE(c.stage().backward.dp.total_s, whole);
}

// Megatron-LM core/distributed/param_and_grad_buffer.py, finish_param_sync: a layer waits for its own bucket
// and lets the next one go.
TEST(ShardingCost, AForwardWaitsForItsFirstBucket) {
    Case c("llama3-8b", "h100:64", "megatron", mesh(64), 1);
    c.plan.overlap.grad_reduce = c.plan.overlap.param_gather = true;
    const PlanCost cost(*c.environment, c.plan, c.ranks, c.shapes);
    const StageCostSet& stage = cost.stage(0);
    const double all = stage.parameter_gather.seconds;
    EXPECT_DOUBLE_EQ(stage.gather_pieces, std::ceil(stage.dense_parameters / 64e6));  // 1e6 dp
    EXPECT_GT(stage.gather_pieces, 100);
    EXPECT_DOUBLE_EQ(cost.waited_gather(0), std::max(all / stage.gather_pieces,
                                                     all - to_seconds(stage.forward.device_time()).value));
    EXPECT_LT(cost.waited_gather(0), 0.05 * all);
    // A step of one microbatch that gathers beside its forward hides what the forward takes, no more.
    const auto step = [&](bool beside) {
        ParallelPlan plan = c.plan;
        plan.overlap.param_gather = beside;
        return to_seconds(Simulator(c.environment).evaluate(plan)->step_time).value;
    };
    EXPECT_NEAR(step(false) - step(true), all - cost.waited_gather(0), 0.01 * all);
    c.plan.overlap.param_gather = false;
    EXPECT_DOUBLE_EQ(PlanCost(*c.environment, c.plan, c.ranks, c.shapes).waited_gather(0), all);
    Case own("llama3-8b", "h100:64", "trainwright", mesh(64), 1);  // sends all of it at once
    own.plan.overlap.param_gather = true;
    const PlanCost whole(*own.environment, own.plan, own.ranks, own.shapes);
    EXPECT_DOUBLE_EQ(whole.waited_gather(0), whole.stage(0).parameter_gather.seconds);
}

// fully_shard without resharding after the forward gathers before each forward, in the compute precision, and
// scatters in each backward.
TEST(ShardingCost, FsdpWithoutReshardingGathersOnceAMicrobatch) {
    Case c("llama3-8b", "h100:64", "torchtitan", mesh(64), 3);
    const StageCostSet three = c.stage();
    c.plan.zero_stage = 2;
    const StageCostSet two = c.stage();
    EXPECT_GT(two.forward.dp.total_s, 0);
    EXPECT_DOUBLE_EQ(two.forward.dp.total_s, three.forward.dp.total_s);
    EXPECT_NEAR(two.forward.dp.bytes, 2 * two.dense_parameters, 1);
    EXPECT_NEAR(two.backward.dp.bytes, 4 * two.dense_parameters, 1);
    EXPECT_NEAR(three.backward.dp.bytes, (2 + 4) * two.dense_parameters, 1);
    EXPECT_DOUBLE_EQ(two.gradient_sync.seconds + two.parameter_gather.seconds, 0);
    EXPECT_EQ(lowering_options(c.environment->graph, c.plan, {two.dense_parameters}).grad_sync,
              LoweringOptions::GradSync::None);
}

// torch/distributed/pipelining/stage.py, backward_maybe_with_nosync: neither reduced nor resharded until the
// last backward.
TEST(ShardingCost, FsdpInAPipelineReducesOnce) {
    Case c("llama3-8b", "h100:64", "torchtitan", mesh(32, 2), 2);
    const StageCostSet two = c.stage();
    EXPECT_DOUBLE_EQ(two.forward.dp.total_s + two.backward.dp.total_s, 0);
    EXPECT_NEAR(two.parameter_gather.bytes, 2 * two.dense_parameters, 1);
    EXPECT_NEAR(two.gradient_sync.bytes, 4 * two.dense_parameters, 1);
    const LoweringOptions options =
        lowering_options(c.environment->graph, c.plan, {two.dense_parameters, two.dense_parameters});
    EXPECT_EQ(options.grad_sync, LoweringOptions::GradSync::ReduceScatter);
    EXPECT_FALSE(options.sync_every_microbatch);
    EXPECT_TRUE(options.overlap_param_gather);
    EXPECT_TRUE(options.buckets.empty());
    // Gradients whole in fp32; parameters a shard in fp32 and whole in bf16.
    for (const int stage : {2, 3}) {
        c.plan.zero_stage = stage;
        EXPECT_DOUBLE_EQ(model_state_bytes(c.plan, 1e9, 0).gradients, 4e9);
        EXPECT_DOUBLE_EQ(model_state_bytes(c.plan, 1e9, 0).parameters, 4e9 / 32 + 2e9);
    }
    // Resharded after each forward: gathered once a microbatch, for what a backward gathers stays until the
    // next forward.
    const StageCostSet three = c.stage();
    EXPECT_NEAR(three.forward.dp.bytes, 2 * three.dense_parameters, 1);
    EXPECT_DOUBLE_EQ(three.backward.dp.total_s + three.parameter_gather.seconds, 0);
    EXPECT_NEAR(three.gradient_sync.bytes, 4 * three.dense_parameters, 1);
    c.plan.mesh = mesh(64);  // without one a gradient is a shard
    EXPECT_DOUBLE_EQ(model_state_bytes(c.plan, 1e9, 0).gradients, 4e9 / 64);
}

TEST(ShardingCost, LayersFeelAnOversubscribedFabric) {
    Case c("llama3-8b", "h100:16", "torchtitan", mesh(16), 3);
    Environment narrow = *c.environment;
    narrow.cluster.nodes_per_pod = 1;
    const double flat = PlanCost(narrow, c.plan, c.ranks, c.shapes).stage(0).forward.dp.total_s;
    narrow.cluster.oversubscription = 4;
    EXPECT_GT(PlanCost(narrow, c.plan, c.ranks, c.shapes).stage(0).forward.dp.total_s, 2 * flat);
}

// Megatron-LM core/parallel_state.py: intra_partial_expert_data_parallel_size = expert_data_parallel_size //
// num_distributed_optimizer_instances.
TEST(ShardingCost, ExpertsHaveAsManyCopiesAsDenseParameters) {
    Case c("mixtral-8x7b", "h100:24", "megatron", mesh(24, 1, 2), 1);
    c.plan.zero_shard = 8;                          // three copies
    EXPECT_EQ(zero_shard_ranks(c.plan).expert, 4);  // of 12 replicas
    const StageCostSet one = c.stage();
    const RankPlacement placement = c.placement();
    EXPECT_NEAR(one.parameter_gather.seconds,
                c.seconds(CollectiveKind::AllGather, 2 * one.dense_parameters,
                          placement.shard_group({Axis::Dp, Axis::Cp}, 8)) +
                    c.seconds(CollectiveKind::AllGather, 2 * one.expert_parameters,
                              placement.shard_group({Axis::Edp}, 4)),
                1e-9);
    EXPECT_NEAR(model_state_bytes(c.plan, 0, 12e9).optimizer, 8 * 12e9 / 4, 1);
    // ZeRO-3 sums the experts' shards over their copies too.
    c.plan.zero_stage = 3;
    const double copies = c.stage().backward.dp.bytes;
    c.plan.zero_shard = 0;
    EXPECT_NEAR(copies - c.stage().backward.dp.bytes,
                4 * (one.dense_parameters / 8 + one.expert_parameters / 4), 10);
    // The executor makes groups of the same size.
    c.plan.zero_stage = 1;
    c.plan.zero_shard = 8;
    c.plan.framework = "trainwright";
    c.plan.virtual_stages = 1;
    const PlanCheck check = check_plan(c.environment->graph, c.environment->cluster, c.plan);
    ASSERT_FALSE(check.errors.empty());
    EXPECT_NE(to_string(check.errors.front()).find("the 12 replicas of experts"), std::string::npos)
        << to_string(check.errors.front());
    EXPECT_NE(to_string(check.errors.front()).find("legal: 1, 2, 3, 4, 6, 12, 24"), std::string::npos)
        << to_string(check.errors.front());
}

TEST(ShardingCost, GradientsSentEveryMicrobatchAreReportedSo) {
    Case c("llama3-8b", "h100:64", "deepspeed", mesh(64), 2);
    const StageCostSet stage = c.stage();
    const auto report = Simulator(c.environment).simulate(c.plan);
    ASSERT_TRUE(report);
    ASSERT_EQ(report->communication.size(), 1U);
    EXPECT_NEAR(report->communication.front().bytes,
                4 * stage.gradient_sync.bytes + stage.parameter_gather.bytes, 1);
    EXPECT_NEAR(report->communication.front().total_s,
                4 * stage.gradient_sync.seconds + stage.parameter_gather.seconds, 1e-9);
}

// 2 sockets of 8 channels of DDR5-4800: 614.4 GB/s for 8 devices. Adam on the host reads the gradient, reads
// and writes master weights and two states, and writes the copy: 30 bytes; 4 come down and 2 go up.
TEST(ShardingCost, AnOffloadedOptimizerRunsAtTheHostsRate) {
    Case c("llama3-8b", "h100:8", "megatron", mesh(8), 1);
    c.plan.offload_optimizer = 1;
    const StageCostSet stage = c.stage();
    const double updated = stage.dense_parameters / 8;
    const double norm = stage.dense_parameters * 4 + updated * 4;
    Op op;
    op.body = MemoryOp{MemoryOpKind::Copy, norm};
    EXPECT_NEAR(
        stage.optimizer_s,
        updated * (30 / (614.4e9 / 8) + 6 / 55.4e9) + kernel_time(c.environment->profile(0), op).seconds,
        0.01 * stage.optimizer_s);
    EXPECT_DOUBLE_EQ(offloaded_bytes(c.plan, 8e9, 0), 1e9 * (4 + 8 + 4));
    // A tenth of the host's memory does not hold it.
    auto narrow = std::make_shared<Environment>(*c.environment);
    narrow->cluster.groups.front().type.host_memory = Bytes(std::int64_t{100} << 30);
    c.plan.recompute = RecomputeMode::Full;
    c.plan.stages = uniform_partition(c.environment->graph, 1, RecomputeMode::Full);
    EXPECT_TRUE(Simulator(c.environment).simulate(c.plan)->fits);
    const auto report = Simulator(narrow).simulate(c.plan);
    EXPECT_FALSE(report->fits);
    ASSERT_FALSE(report->warnings.empty());
    EXPECT_NE(report->warnings.front().find("does not fit the host"), std::string::npos);
}

TEST(ShardingCost, AShardOfTheGradientBufferIsCleared) {
    ParallelPlan plan;
    plan.mesh.dp = 8;
    plan.precision.compute = Precision::Bf16;
    plan.precision.gradient_fp32 = true;
    const auto bytes = [&](int stage) {
        plan.zero_stage = stage;
        return update_traffic(plan, 8e9, 0).gradient_norm_bytes;
    };
    EXPECT_DOUBLE_EQ(bytes(0), 4 * (8e9 + 8e9));  // norm, clearing
    EXPECT_DOUBLE_EQ(bytes(1), 4 * (1e9 + 8e9));
    EXPECT_DOUBLE_EQ(bytes(2), 4 * (1e9 + 1e9));
    EXPECT_DOUBLE_EQ(bytes(3), 4 * (1e9 + 1e9));
}

// Modules in fp8 cast what FSDP has gathered in 16 bits, in a pipeline too.
TEST(ShardingCost, FsdpInAPipelineGathersSixteenBitsForFp8) {
    Case bf16("llama3-8b", "h100:16", "torchtitan", mesh(8, 2), 2);
    Case fp8("llama3-8b", "h100:16", "torchtitan", mesh(8, 2), 2);
    fp8.plan.precision.compute = Precision::Fp8;
    ASSERT_TRUE(fsdp_in_pipeline(fp8.plan));
    EXPECT_GT(bf16.stage().parameter_gather.bytes, 0);
    EXPECT_DOUBLE_EQ(fp8.stage().parameter_gather.bytes, bf16.stage().parameter_gather.bytes);
}

// FSDP's hybrid shards: copies reduce over the network while layers gather and scatter inside nodes.
TEST(ShardingCost, CopiesReduceBesideTheShards) {
    Case c("llama3-8b", "h100:64", "torchtitan", mesh(64), 3);
    c.plan.zero_shard = 8;
    const PlanCost costs(*c.environment, c.plan, c.ranks, c.shapes);
    const auto block = static_cast<std::size_t>(c.environment->graph.layer(1).layer_class);
    const auto parameters = static_cast<double>(costs.shape(0).works[block].dense_parameters);
    const PhaseCost& backward = costs.shape(0).layers[block].phase(RecomputeMode::None, Opcode::Backward);
    const AxisSet axes{Axis::Dp, Axis::Cp};
    const GroupPlacement shard = c.placement().shard_group(axes, 8);
    const double gradient = bytes_per_element(c.plan.precision.gradient_reduce);
    const double inside = c.seconds(CollectiveKind::AllGather, parameters * 2, shard) +
                          c.seconds(CollectiveKind::ReduceScatter, parameters * gradient, shard);
    const double outside =
        c.seconds(CollectiveKind::AllReduce, parameters * gradient / 8, c.placement().replica_group(axes, 8));
    const double lane = to_seconds(backward.matrix.get(CostStream::Shard, CostStream::Shard)).value;
    EXPECT_NEAR(lane, std::max(inside, outside), 1e-9);
    // All of it is on the wires.
    EXPECT_NEAR(backward.dp.total_s, inside + outside, 1e-9);
}

}  // namespace
}  // namespace tw
