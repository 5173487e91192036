// The cases that people met with real frameworks, each with its exact numbers.
#include "plan/check_plan.hpp"

#include <cmath>
#include <utility>

#include <gtest/gtest.h>

#include "plan/rules/rule.hpp"
#include "plan/schedule/generator.hpp"
#include "tests/plan/plan_fixtures.hpp"

namespace tw {
namespace {

using testing::make_cluster;
using testing::make_model;
using testing::make_plan;
using testing::stages_of;
using testing::text_of;

bool mentions(const PlanCheck& check, std::string_view text) {
    return text_of(check).find(text) != std::string::npos;
}

// The one error of a plan; fails where there are none or more.
Error only_error(const PlanCheck& check) {
    EXPECT_EQ(check.errors.size(), 1U) << text_of(check);
    return check.errors.empty() ? Error{} : check.errors.front();
}

TEST(CheckPlan, AcceptsAnOrdinaryPlan) {
    const LayerGraph graph = make_model({.blocks = 96, .heads = 96, .kv_heads = 96});
    const Cluster cluster = make_cluster(1024);
    ParallelPlan plan = make_plan(graph, cluster, {.pp = 16, .tp = 8}, 1536);
    plan.sequence_parallel = true;
    plan.zero_stage = 1;
    for (const char* name : {"trainwright", "megatron", "deepspeed"}) {
        const PlanCheck check = check_plan(graph, cluster, plan, *parse_target_framework(name));
        EXPECT_TRUE(check.errors.empty()) << name << ": " << text_of(check);
        EXPECT_TRUE(check.warnings.empty()) << name << ": " << text_of(check);
    }
}

TEST(CheckPlan, LostLayersAreRefused) {
    const LayerGraph graph = make_model({.blocks = 30});
    const Cluster cluster = make_cluster(4);
    ParallelPlan plan = make_plan(graph, cluster, {.pp = 4}, 8);
    EXPECT_TRUE(check_plan(graph, cluster, plan).errors.empty());
    EXPECT_EQ(blocks_per_stage(graph, plan.stages), (std::vector<int>{7, 8, 8, 7}));
    for (int s = 0; s < 4; ++s) {
        StageSpec& stage = plan.stages[static_cast<std::size_t>(s)];
        stage.first_layer = s == 0 ? 0 : 1 + 7 * s;
        stage.last_layer = 8 + 7 * s;
    }
    const Error error = only_error(check_plan(graph, cluster, plan));
    EXPECT_EQ(error.message, "the stages hold 28 of 30 blocks (7,7,7,7) and end at layer 29 of 32");
    EXPECT_EQ(error.hint, "a legal split is 7,8,8,7");

    const LayerGraph twenty = make_model({.blocks = 20});  // pp 1 that builds one layer of twenty
    ParallelPlan one = make_plan(twenty, make_cluster(1), {}, 1);
    one.stages[0].last_layer = 2;
    EXPECT_NE(only_error(check_plan(twenty, make_cluster(1), one)).message.find("hold 1 of 20 blocks"),
              std::string::npos);
}

TEST(CheckPlan, VirtualStagesThatLoseLayersAreRefused) {  // 80 layers, pp 16, 2 a virtual stage
    const LayerGraph graph = make_model({.blocks = 80});
    const Cluster cluster = make_cluster(16);
    ParallelPlan plan = make_plan(graph, cluster, {.pp = 16}, 16);
    plan.virtual_stages = 2;
    plan.schedule = "interleaved";
    plan.stages.clear();
    for (int s = 0; s < 32; ++s) {
        StageSpec stage;
        stage.first_layer = s == 0 ? 0 : 1 + 2 * s;
        stage.last_layer = 3 + 2 * s;
        plan.stages.push_back(stage);
    }
    const PlanCheck check = check_plan(graph, cluster, plan, TargetFramework::Megatron);
    EXPECT_TRUE(mentions(check, "the stages hold 64 of 80 blocks")) << text_of(check);
    EXPECT_TRUE(mentions(check, "(legal: 1, 5)")) << text_of(check);
    EXPECT_TRUE(mentions(check, "--pipeline-model-parallel-layout")) << text_of(check);
}

TEST(CheckPlan, ExpertModelOnSixtyFourDevicesIdles) {  // GLM-4.5-Air
    const LayerGraph graph =
        make_model({.blocks = 46, .heads = 96, .kv_heads = 8, .ffn = 10944, .experts = 128});
    const Cluster cluster = make_cluster(64);
    ParallelPlan plan = make_plan(graph, cluster, {.pp = 4, .tp = 8, .ep = 16}, 16, 2);
    EXPECT_EQ(plan.mesh.dp, 2);
    EXPECT_EQ(plan.microbatches, 4);
    EXPECT_EQ(blocks_per_stage(graph, plan.stages), (std::vector<int>{11, 12, 12, 11}));
    const PlanCheck check = check_plan(graph, cluster, plan, TargetFramework::Megatron);
    EXPECT_TRUE(check.errors.empty()) << text_of(check);
    ASSERT_EQ(check.warnings.size(), 1U);
    EXPECT_NE(check.warnings[0].find("42.9 %"), std::string::npos) << check.warnings[0];

    const Cluster half = make_cluster(96);
    ParallelPlan other = make_plan(graph, half, {.pp = 4, .tp = 8, .ep = 16}, 12, 2);
    const Error error = only_error(check_plan(graph, half, other, TargetFramework::Megatron));
    EXPECT_EQ(error.context, "--expert-model-parallel-size");
    EXPECT_EQ(error.message, "the cluster's 96 devices are not a multiple of etp 1 * ep 16 * pp 4 = 64");
    EXPECT_NE(error.hint.find("lcm(32, 64) = 64"), std::string::npos) << error.hint;
    EXPECT_NE(error.hint.find("ep 8 (legal: 1, 2, 4, 8)"), std::string::npos) << error.hint;
}

TEST(CheckPlan, EmbeddingAloneInAStageIsLegalAnEmptyStageIsNot) {
    const LayerGraph graph = make_model({.blocks = 4});
    const Cluster cluster = make_cluster(4);
    ParallelPlan plan = make_plan(graph, cluster, {.pp = 4}, 16);
    plan.stages = stages_of(graph, {0, 2, 2, 0});
    EXPECT_TRUE(check_plan(graph, cluster, plan).errors.empty());
    plan.stages = stages_of(graph, {2, 0, 2, 0});
    EXPECT_EQ(only_error(check_plan(graph, cluster, plan)).message, "stage 1 is empty");
    plan.stages.pop_back();
    const PlanCheck check = check_plan(graph, cluster, plan);
    EXPECT_TRUE(mentions(check, "3 stages, expected pp 4 * vpp 1 = 4")) << text_of(check);
    EXPECT_TRUE(mentions(check, "end at layer 5 of 6")) << text_of(check);
}

TEST(CheckPlan, HeadsThatDoNotDivide) {
    const LayerGraph graph = make_model({.heads = 52, .kv_heads = 52, .ffn = 52 * 1024});
    const Cluster cluster = make_cluster(8);
    const Error error = only_error(check_plan(graph, cluster, make_plan(graph, cluster, {.tp = 8}, 8)));
    EXPECT_EQ(error.context, "tp");
    EXPECT_EQ(error.message, "num_attention_heads 52 is not a multiple of tp 8");
    EXPECT_EQ(error.hint, "tp 4 (legal: 1, 2, 4, 13, 26, 52)");
    EXPECT_EQ(legal_tp(graph, 64), (std::vector<int>{1, 2, 4, 13, 26, 52}));
    EXPECT_EQ(legal_tp(graph, 8), (std::vector<int>{1, 2, 4}));

    const LayerGraph moe = make_model({.heads = 64, .kv_heads = 64, .ffn = 64 * 99, .experts = 256});
    EXPECT_EQ(legal_tp(moe, 64), (std::vector<int>{1, 2, 4, 8, 16, 32, 64}));
    EXPECT_EQ(legal_ep(moe, 8), (std::vector<int>{1, 2, 4, 8}));
    const Cluster nine = make_cluster(9, 9);
    const PlanCheck check = check_plan(moe, nine, make_plan(moe, nine, {.tp = 3, .ep = 3}, 3));
    EXPECT_TRUE(mentions(check, "num_attention_heads 64 is not a multiple of tp 3")) << text_of(check);
    EXPECT_TRUE(mentions(check, "256 experts do not divide by ep 3")) << text_of(check);
}

TEST(CheckPlan, KvHeadsAreReplicatedByMegatronAlone) {
    const LayerGraph graph = make_model({.heads = 16, .kv_heads = 2});
    const Cluster cluster = make_cluster(4);
    ParallelPlan plan = make_plan(graph, cluster, {.tp = 4}, 4);
    plan.sequence_parallel = true;
    EXPECT_TRUE(check_plan(graph, cluster, plan, TargetFramework::Megatron).errors.empty());
    EXPECT_TRUE(check_plan(graph, cluster, plan, TargetFramework::Trainwright).errors.empty());
    const Error error = only_error(check_plan(graph, cluster, plan, TargetFramework::Torchtitan));
    EXPECT_EQ(error.context, "parallelism.tensor_parallel_degree");
    EXPECT_EQ(error.message,
              "num_key_value_heads 2 is not a multiple of tp 4 (torchtitan does not replicate kv heads)");
    EXPECT_EQ(error.hint, "tp 2 (legal: 1, 2)");
    EXPECT_EQ(legal_tp(graph, 16, TargetFramework::Megatron), (std::vector<int>{1, 2, 4, 8, 16}));
    EXPECT_EQ(legal_tp(graph, 16, TargetFramework::Torchtitan), (std::vector<int>{1, 2}));
    // Neither a divisor nor a multiple.
    const LayerGraph odd = make_model({.heads = 24, .kv_heads = 6, .ffn = 24 * 128});
    EXPECT_EQ(legal_tp(odd, 24, TargetFramework::Megatron), (std::vector<int>{1, 2, 3, 6, 12, 24}));
}

TEST(CheckPlan, ExpertMeshIsNotBoundByDp) {  // tp 1, pp 1, cp 16, dp 2 on 32 devices
    const LayerGraph graph = make_model({.experts = 128});
    const Cluster cluster = make_cluster(32);
    for (const auto& [ep, expert_dp] : {std::pair{16, 2}, std::pair{32, 1}}) {
        ParallelPlan plan = make_plan(graph, cluster, {.cp = 16, .ep = ep}, 8);
        EXPECT_EQ(plan.mesh.dp, 2);
        EXPECT_TRUE(check_plan(graph, cluster, plan).errors.empty())
            << text_of(check_plan(graph, cluster, plan));
        EXPECT_EQ(plan.mesh.expert_dp(), expert_dp);
    }
}

TEST(CheckPlan, ExpertProductMustDivideTheWorld) {
    const LayerGraph graph = make_model({.experts = 8});
    const Cluster cluster = make_cluster(4);
    EXPECT_TRUE(check_plan(graph, cluster, make_plan(graph, cluster, {.pp = 2, .ep = 2}, 8)).errors.empty());
    EXPECT_TRUE(check_plan(graph, cluster, make_plan(graph, cluster, {.tp = 4, .ep = 4}, 8)).errors.empty());
    const auto error_of = [&](DeviceMesh mesh) {
        return only_error(
                   check_plan(graph, cluster, make_plan(graph, cluster, mesh, 8), TargetFramework::Megatron))
            .message;
    };
    EXPECT_EQ(error_of({.pp = 2, .ep = 4}),
              "the cluster's 4 devices are not a multiple of etp 1 * ep 4 * pp 2 = 8");
    EXPECT_EQ(error_of({.tp = 4, .ep = 4, .etp = 4}),
              "the cluster's 4 devices are not a multiple of etp 4 * ep 4 * pp 1 = 16");
    EXPECT_EQ(error_of({.ep = 8}), "ep 8 is larger than the cluster's 4 devices");
    const LayerGraph dense = make_model({});
    EXPECT_TRUE(mentions(check_plan(dense, cluster, make_plan(dense, cluster, {.ep = 2}, 8)),
                         "the model has no experts"));
}

TEST(CheckPlan, AMessageForEachNodeIsMegatronsAndNeedsExpertsElsewhere) {
    const LayerGraph graph = make_model({.experts = 8});
    const Cluster cluster = make_cluster(8);
    ParallelPlan plan = make_plan(graph, cluster, {.dp = 8, .ep = 8}, 8);
    plan.expert_dispatch = WorkShape::ExpertDispatch::PerNode;
    plan.framework = "megatron";
    EXPECT_TRUE(check_plan(graph, cluster, plan, TargetFramework::Megatron).errors.empty());
    plan.mesh.ep = 1, plan.framework = "trainwright";
    const PlanCheck check = check_plan(graph, cluster, plan);
    EXPECT_TRUE(mentions(check, "ep is 1") && mentions(check, "Megatron's flex dispatcher"));
}

TEST(CheckPlan, BatchArithmeticNamesTheUsersKey) {
    const LayerGraph graph = make_model({.blocks = 32});
    const Cluster cluster = make_cluster(1472);
    ParallelPlan plan = make_plan(graph, cluster, {.pp = 8, .tp = 8}, 32);
    EXPECT_EQ(plan.mesh.dp, 23);
    const std::pair<TargetFramework, const char*> keys[] = {
        {TargetFramework::Trainwright, "global_batch"},
        {TargetFramework::Megatron, "--global-batch-size"},
        {TargetFramework::DeepSpeed, "train_batch_size"}};
    for (const auto& [target, key] : keys) {
        const Error error = only_error(check_plan(graph, cluster, plan, target));
        EXPECT_EQ(error.context, key);
        EXPECT_EQ(error.message, "global batch 32 is not a multiple of mbs 1 * dp 23 = 23 (remainder 9)");
        EXPECT_EQ(error.hint, "global batch 23 or 46");
    }
    const Cluster eight = make_cluster(8);
    ParallelPlan wrong = make_plan(graph, eight, {}, 32, 2);
    wrong.microbatches = 3;
    const Error error = only_error(check_plan(graph, eight, wrong));
    EXPECT_EQ(error.message, "mbs 2 * microbatches 3 * dp 8 = 48, the global batch is 32");
    EXPECT_EQ(error.hint, "microbatches 2");
    wrong.microbatch = 3;
    EXPECT_EQ(only_error(check_plan(graph, eight, wrong)).hint,
              "global batch 24 or 48, or mbs 2 (legal: 1, 2, 4)");
}

TEST(CheckPlan, DpIsDerived) {  // 8 devices, tp 8, "dp 8"
    const LayerGraph graph = make_model({});
    const Cluster cluster = make_cluster(8);
    ParallelPlan plan = make_plan(graph, cluster, {.tp = 8}, 8);
    EXPECT_EQ(plan.mesh.dp, 1);
    plan.mesh.dp = 8;
    plan.microbatches = 1;
    const Error error = only_error(check_plan(graph, cluster, plan, TargetFramework::Megatron));
    EXPECT_EQ(error.message, "dp is derived: 8 devices / (tp 8 * pp 1 * cp 1) = 1, the plan says 8");
    EXPECT_EQ(error.hint, "dp 1, or a cluster of 64 devices");
    EXPECT_TRUE(error.context.starts_with("data parallel size (derived")) << error.context;

    const Cluster ten = make_cluster(10, 10);
    const PlanCheck check = check_plan(graph, ten, make_plan(graph, ten, {.pp = 4}, 8));
    EXPECT_TRUE(mentions(check, "the cluster's 10 devices are not a multiple of tp 1 * pp 4 * cp 1 = 4"))
        << text_of(check);
    EXPECT_TRUE(mentions(check, "use 8 or 12 devices, or pp 5 (legal: 1, 2, 5, 10)")) << text_of(check);
}

TEST(CheckPlan, MegatronOverlapsTensorParallelWithSequenceParallelAlone) {
    const LayerGraph graph = make_model({});
    const Cluster cluster = make_cluster(8);
    ParallelPlan plan = make_plan(graph, cluster, {.tp = 8}, 8);
    plan.overlap.tp = true;
    plan.sequence_parallel = false;
    const Error error = only_error(check_plan(graph, cluster, plan, TargetFramework::Megatron));
    EXPECT_EQ(error.context, "--sequence-parallel");
    EXPECT_EQ(error.hint, "sequence_parallel true, or overlap.tp false");
    plan.sequence_parallel = true;
    EXPECT_TRUE(check_plan(graph, cluster, plan, TargetFramework::Megatron).errors.empty());
}

TEST(CheckPlan, FewerMicrobatchesThanStagesIdle) {  // pp 4, one microbatch: 75 %
    const LayerGraph graph = make_model({});
    const Cluster cluster = make_cluster(4);
    const ParallelPlan plan = make_plan(graph, cluster, {.pp = 4}, 1);
    const PlanCheck ours = check_plan(graph, cluster, plan);
    EXPECT_TRUE(ours.errors.empty()) << text_of(ours);
    EXPECT_TRUE(mentions(ours, "1 microbatch on 4 pipeline ranks idles 75.0 %")) << text_of(ours);
    const Error error = only_error(check_plan(graph, cluster, plan, TargetFramework::Torchtitan));
    EXPECT_EQ(error.context, "training.local_batch_size");
    EXPECT_EQ(error.hint, "training.local_batch_size 4, or pp 1");
}

TEST(CheckPlan, ZbVPlacesTwoStagesOnARank) {
    if (!find_schedule("zb-v")) GTEST_SKIP() << "no schedule zb-v in this build";
    const LayerGraph graph = make_model({});
    const Cluster cluster = make_cluster(4);
    ParallelPlan plan = make_plan(graph, cluster, {.pp = 4}, 16);
    plan.schedule = "zb-v";
    const Error error = only_error(check_plan(graph, cluster, plan, TargetFramework::Torchtitan));
    EXPECT_EQ(error.context, "parallelism.pipeline_parallel_layers_per_stage");
    plan.virtual_stages = 2;
    plan.stages = uniform_partition(graph, 8, RecomputeMode::None);
    EXPECT_TRUE(check_plan(graph, cluster, plan, TargetFramework::Torchtitan).errors.empty());
    EXPECT_TRUE(mentions(check_plan(graph, cluster, plan, TargetFramework::Megatron),
                         "megatron does not run schedule zb-v"));
}

TEST(CheckPlan, InterleavedGroupsOfMicrobatches) {  // p = N = 4
    if (!find_schedule("interleaved")) GTEST_SKIP() << "no schedule interleaved in this build";
    const LayerGraph graph = make_model({.blocks = 16});
    const Cluster cluster = make_cluster(4);
    for (const auto& [microbatches, legal] : {std::pair{4, true},
                                              {8, true},
                                              {12, true},
                                              {3, false},
                                              {5, false},
                                              {6, false},
                                              {7, false},
                                              {10, false}}) {
        ParallelPlan plan = make_plan(graph, cluster, {.pp = 4}, microbatches);
        plan.schedule = "interleaved";
        plan.virtual_stages = 2;
        plan.microbatch_group = 4;
        plan.stages = uniform_partition(graph, 8, RecomputeMode::None);
        const PlanCheck check = check_plan(graph, cluster, plan, TargetFramework::Megatron);
        EXPECT_EQ(check.errors.empty(), legal) << "m " << microbatches << ": " << text_of(check);
    }
}

TEST(CheckPlan, OneStageARankUnlessTheScheduleAllowsMore) {
    const LayerGraph graph = make_model({});
    const Cluster cluster = make_cluster(4);
    ParallelPlan plan = make_plan(graph, cluster, {.pp = 4}, 16);
    plan.virtual_stages = 2;
    plan.stages = uniform_partition(graph, 8, RecomputeMode::None);
    EXPECT_EQ(only_error(check_plan(graph, cluster, plan, TargetFramework::Megatron)).context,
              "--num-virtual-stages-per-pipeline-rank");
    plan.schedule = "1f1";
    const Error error = only_error(check_plan(graph, cluster, plan));
    EXPECT_EQ(error.context, "schedule");
    EXPECT_NE(error.hint.find("'1f1b'"), std::string::npos);
}

TEST(CheckPlan, SequenceSplits) {
    const LayerGraph graph = make_model({.heads = 32, .kv_heads = 32});
    const Cluster cluster = make_cluster(16, 16);
    ParallelPlan plan = make_plan(graph, cluster, {.tp = 4, .cp = 4}, 4);
    plan.seq_len = 4100;
    EXPECT_EQ(only_error(check_plan(graph, cluster, plan)).message,
              "seq_len 4100 is not a multiple of 2 * cp = 8");
    EXPECT_EQ(only_error(check_plan(graph, cluster, plan)).hint,
              "seq_len 4096 or 4104, or cp 2 (legal: 1, 2)");
    plan.cp_kind = WorkShape::Cp::AllToAll;
    EXPECT_TRUE(check_plan(graph, cluster, plan).errors.empty());
    plan.sequence_parallel = true;
    EXPECT_EQ(only_error(check_plan(graph, cluster, plan)).message,
              "seq_len 4100 is not a multiple of tp * cp = 16 (sequence parallel)");
    plan = make_plan(graph, cluster, {.tp = 1, .cp = 16}, 4);
    plan.seq_len = 4096;
    plan.sequence_parallel = true;
    EXPECT_EQ(only_error(check_plan(graph, cluster, plan)).context, "sp");
    const LayerGraph few = make_model({.heads = 8, .kv_heads = 8});
    plan = make_plan(few, cluster, {.tp = 4, .cp = 4}, 4);
    plan.cp_kind = WorkShape::Cp::AllToAll;
    const Error error = only_error(check_plan(few, cluster, plan, TargetFramework::Megatron));
    EXPECT_EQ(error.context, "--context-parallel-size");
    EXPECT_EQ(error.message, "8 heads are not a multiple of tp * cp = 16 (all-to-all)");
    EXPECT_EQ(error.hint, "cp 2 (legal: 1, 2), or cp_kind ring");
    plan = make_plan(few, cluster, {.tp = 1, .cp = 4}, 4);
    plan.cp_kind = WorkShape::Cp::Ring;
    EXPECT_EQ(only_error(check_plan(few, cluster, plan, TargetFramework::DeepSpeed)).context,
              "sequence_parallel_size");
}

TEST(CheckPlan, ZeroCombinesAsTheFrameworkAllows) {
    const LayerGraph graph = make_model({});
    const Cluster cluster = make_cluster(8);
    ParallelPlan plan = make_plan(graph, cluster, {.pp = 2}, 32);
    const auto legal = [&](int zero, TargetFramework target) {
        plan.zero_stage = zero;
        return check_plan(graph, cluster, plan, target).errors.empty();
    };
    for (int zero = 0; zero <= 3; ++zero) {
        EXPECT_EQ(legal(zero, TargetFramework::DeepSpeed), zero <= 1);
        EXPECT_EQ(legal(zero, TargetFramework::Torchtitan), zero != 1);
        EXPECT_TRUE(legal(zero, TargetFramework::Trainwright));
    }
    EXPECT_FALSE(legal(4, TargetFramework::Trainwright));
    plan.zero_shard = 3;
    plan.zero_stage = 3;
    EXPECT_EQ(only_error(check_plan(graph, cluster, plan)).hint, "zero_shard 2 (legal: 1, 2, 4)");
}

TEST(CheckPlan, RecomputeCountsAndPrecision) {
    const LayerGraph graph = make_model({.blocks = 8});
    Cluster cluster = make_cluster(2);
    ParallelPlan plan = make_plan(graph, cluster, {.pp = 2}, 32);
    plan.stages[1].recompute_layers = 2;
    EXPECT_NE(only_error(check_plan(graph, cluster, plan)).message.find("its recompute is none"),
              std::string::npos);
    plan.stages[1].recompute = RecomputeMode::Full;
    EXPECT_TRUE(check_plan(graph, cluster, plan).errors.empty());
    plan.stages[1].recompute_layers = 5;
    EXPECT_EQ(only_error(check_plan(graph, cluster, plan)).hint, "0 to 4");
    plan.stages[1].recompute_layers = -1;
    plan.precision.compute = Precision::Fp8;
    EXPECT_TRUE(check_plan(graph, cluster, plan).errors.empty());
    cluster.groups[0].device.peak_fp8 = FlopRate(0);
    EXPECT_EQ(only_error(check_plan(graph, cluster, plan)).message, "h100 has no fp8 arithmetic");
    plan.precision.compute = Precision::Bf16;
    cluster.groups[0].device.peak_bf16 = FlopRate(0);
    EXPECT_EQ(only_error(check_plan(graph, cluster, plan)).message, "h100 has no bf16 arithmetic");
    EXPECT_EQ(only_error(check_plan(graph, cluster, plan)).hint, "fp16");
}

TEST(CheckPlan, TensorParallelAcrossNodesIsAWarning) {
    const LayerGraph graph = make_model({});
    const Cluster cluster = make_cluster(16, 4);
    const PlanCheck check = check_plan(graph, cluster, make_plan(graph, cluster, {.tp = 8}, 32));
    EXPECT_TRUE(check.errors.empty()) << text_of(check);
    ASSERT_EQ(check.warnings.size(), 1U);
    EXPECT_EQ(check.warnings[0],
              "tp 8 crosses nodes of 4 devices: tensor-parallel traffic goes over the network");
}

TEST(CheckPlan, PipeDreamsReplicasCountAsDevices) {  // VGG-16 in PipeDream 2019, table 1: 15 replicas and 1
    const LayerGraph graph = make_model({});
    const Cluster cluster = make_cluster(16);
    ParallelPlan plan = make_plan(graph, make_cluster(2), {.pp = 2}, 30);
    plan.schedule = "pipedream";
    plan.semantics = Semantics::Asynchronous;
    plan.stages[0].replicas = 15;
    EXPECT_EQ(model_devices(plan), 16);
    EXPECT_TRUE(check_plan(graph, cluster, plan).errors.empty()) << text_of(check_plan(graph, cluster, plan));
    plan.stages[0].replicas = 16;
    EXPECT_TRUE(mentions(check_plan(graph, cluster, plan),
                         "16 devices are not a multiple of tp * cp * the stages' replicas = 17"));
    plan.stages[0].replicas = 15;
    plan.semantics = Semantics::Synchronous;
    const Error error = only_error(check_plan(graph, cluster, plan));
    EXPECT_EQ(error.context, "semantics");
    EXPECT_EQ(error.hint, "semantics asynchronous");
    plan.semantics = Semantics::Asynchronous;
    plan.schedule = "1f1b";  // neither replicates single stages nor trains asynchronously
    EXPECT_EQ(check_plan(graph, cluster, plan).errors.size(), 2U);
}

TEST(CheckPlan, GradientSynchronisationStatesItsSemantics) {
    const LayerGraph graph = make_model({});
    const Cluster cluster = make_cluster(8);
    ParallelPlan plan = make_plan(graph, cluster, {}, 8);
    plan.gradient_sync = "local-sgd";
    EXPECT_EQ(only_error(check_plan(graph, cluster, plan)).hint, "semantics local-steps");
    plan.semantics = Semantics::LocalSteps;
    EXPECT_TRUE(check_plan(graph, cluster, plan).errors.empty());
    plan.zero_stage = 1;
    EXPECT_EQ(only_error(check_plan(graph, cluster, plan)).context, "gradient_sync");
    plan.gradient_sync = "zero";
    plan.semantics = Semantics::Synchronous;
    EXPECT_TRUE(check_plan(graph, cluster, plan).errors.empty());
    plan.zero_stage = 0;
    EXPECT_EQ(only_error(check_plan(graph, cluster, plan)).hint, "zero_stage 1, or gradient_sync all-reduce");
    plan.gradient_sync = "powersgd";
    EXPECT_TRUE(check_plan(graph, cluster, plan).errors.empty());
    LayerGraph narrow = graph;
    narrow.hidden = 7;  // twice the rank of 4 is more
    EXPECT_EQ(only_error(check_plan(narrow, cluster, plan)).context, "gradient_sync");
    plan.gradient_sync = "alreduce";
    EXPECT_NE(only_error(check_plan(graph, cluster, plan)).hint.find("'all-reduce'"), std::string::npos);
}

TEST(CheckPlan, RankOrderNamesEachAxisOnce) {
    const LayerGraph graph = make_model({});
    const Cluster cluster = make_cluster(8);
    ParallelPlan plan = make_plan(graph, cluster, {}, 8);
    for (const char* order : {"tp-cp-ep-dp", "tp-tp-ep-dp-pp", "", "tp-cp-ep-dp-pp-"}) {
        plan.rank_order = order;
        EXPECT_EQ(only_error(check_plan(graph, cluster, plan)).context, "rank_order") << order;
    }
    plan.rank_order = "pp-dp-ep-cp-tp";
    EXPECT_TRUE(check_plan(graph, cluster, plan).errors.empty());
    EXPECT_FALSE(check_plan(graph, cluster, plan, TargetFramework::Megatron).errors.empty());
}

TEST(CheckPlan, ReportsAllViolationsAtOnce) {
    const LayerGraph graph = make_model({.blocks = 30, .heads = 52, .kv_heads = 52});
    const Cluster cluster = make_cluster(12, 12);
    ParallelPlan plan = make_plan(graph, cluster, {.pp = 1, .tp = 8, .cp = 2}, 7, 2);
    plan.seq_len = 2049;
    plan.stages[0].last_layer = 20;
    plan.schedule = "2f2b";
    plan.zero_shard = 4;
    plan.rank_order = "tp";
    const PlanCheck check = check_plan(graph, cluster, plan);
    EXPECT_EQ(check.errors.size(), 9U) << text_of(check);
    for (const Error& error : check.errors)
        EXPECT_EQ(error.code, ErrorCode::Unreadable);
    EXPECT_EQ(check.errors[0].hint, "use 16 devices, or tp 2 (legal: 1, 2)");
}

TEST(CheckPlan, ValuesOutOfRangeAreNamedAndStopTheRest) {
    const LayerGraph graph = make_model({});
    const Cluster cluster = make_cluster(8);
    ParallelPlan plan = make_plan(graph, cluster, {}, 8);
    plan.mesh.tp = 0;
    plan.microbatch = -1;
    plan.stages[0].node_group = 1;
    plan.stages[0].replicas = 0;
    plan.offload_optimizer = std::nan("");
    plan.expert_imbalance = 0.5;
    const PlanCheck check = check_plan(graph, cluster, plan);
    EXPECT_EQ(check.errors.size(), 6U) << text_of(check);
    plan = make_plan(graph, cluster, {}, 8);
    plan.mesh = {.dp = 1 << 20, .pp = 1 << 20, .tp = 1 << 20, .cp = 1 << 20};  // products overflow int
    EXPECT_TRUE(mentions(check_plan(graph, cluster, plan), "dp * tp * pp * cp are more than the 1048576"));
}

}  // namespace
}  // namespace tw
