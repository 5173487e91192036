#include "plan/frameworks/export/export_plan.hpp"

#include <algorithm>
#include <functional>
#include <set>

#include <gtest/gtest.h>

#include "plan/plan_order.hpp"
#include "plan/schedule/pytorch_csv.hpp"
#include "plan/stage_partition.hpp"
#include "tests/plan/export_fixtures.hpp"

namespace tw {
namespace {

using test::document_of;
using test::exported;
using test::set_mesh;

TEST(ExportPlan, EveryFrameworkButOursHasOneExporter) {
    std::set<TargetFramework> targets;
    for (const PlanExporter& exporter : plan_exporters())
        EXPECT_TRUE(targets.insert(exporter.target).second);
    EXPECT_EQ(targets.size() + 1, target_framework_names().size());
    PlanDocument document = document_of("llama3-8b", "h100:8");
    set_mesh(document, {});
    const auto ours = export_plan(document, TargetFramework::Trainwright, "job");
    ASSERT_FALSE(ours.has_value());
    EXPECT_EQ(ours.error().context, "--to");
}

TEST(ExportPlan, TorchtitanRunsOurOwnOrders) {
    PlanDocument document = document_of("llama3-8b", "h100:8");
    document.plan.schedule = "zb-h1";
    set_mesh(document, {.pp = 4});
    document.plan.microbatch = 2;
    document.plan.global_batch *= 2;
    document.plan.zero_stage = 3;
    const auto made = export_plan(document, TargetFramework::Torchtitan, "job");
    ASSERT_TRUE(made.has_value()) << to_string(made.errors());
    for (const char* line :
         {"local_batch_size = 16", "global_batch_size = 32", "data_parallel_shard_degree = 2",
          "data_parallel_replicate_degree = 1", "fsdp_reshard_after_forward = \"always\"",
          "pipeline_parallel_degree = 4", "pipeline_parallel_microbatch_size = 2",
          "pipeline_parallel_schedule = \"1F1B\"", "pipeline_parallel_schedule_csv = \"job.csv\"",
          "pipeline_parallel_first_stage_less_layers = 0", "pipeline_parallel_last_stage_less_layers = 0",
          "pipeline_parallel_layers_per_stage = 8"}) {
        EXPECT_NE(made->text.find(line), std::string::npos) << line << " in\n" << made->text;
    }
    ASSERT_EQ(made->beside.size(), 1U);
    const auto order = read_pytorch_csv(made->beside.front().text);
    ASSERT_TRUE(order.has_value());
    EXPECT_EQ(order_digest(*order), order_digest(*plan_order(document.plan)));

    // Its own rule: embedding and head count as a block each; what it cannot make is a list of modules.
    for (const auto& [counts, option] :
         {std::pair{std::vector<int>{8, 9, 8, 7}, "pipeline_parallel_last_stage_less_layers = 1"},
          {std::vector<int>{9, 7, 7, 9}, "\"layers.31\", \"norm\", \"output\""}}) {
        document.plan.stages = *explicit_partition(document.graph, counts, RecomputeMode::None);
        const std::string text = exported(document, TargetFramework::Torchtitan);
        EXPECT_NE(text.find(option), std::string::npos) << option << " in\n" << text;
    }

    document.plan.schedule = "zb-v";
    document.plan.virtual_stages = 2;
    document.plan.stages = uniform_partition(document.graph, 8, RecomputeMode::None);
    const auto placed = export_plan(document, TargetFramework::Torchtitan, "job");
    ASSERT_TRUE(placed.has_value());
    EXPECT_TRUE(placed->beside.empty());
    EXPECT_NE(placed->text.find("\"ZBVZeroBubble\""), std::string::npos);
    bool flag = false;
    for (const auto& [name, value] : placed->flags)
        flag = flag || (name == "--parallelism.pipeline_parallel_schedule" && value == "ZBVZeroBubble");
    EXPECT_TRUE(flag);
}

TEST(ExportPlan, TorchtitanOverlapsAndRecomputes) {
    PlanDocument document = document_of("llama3-8b", "h100:8");
    document.plan.recompute = RecomputeMode::SelectiveOps;
    set_mesh(document, {.tp = 4});
    document.plan.zero_stage = 2;
    document.plan.overlap.tp = true;
    document.plan.precision.gradient_reduce = Precision::Bf16;
    const auto made = export_plan(document, TargetFramework::Torchtitan, "job");
    ASSERT_TRUE(made.has_value()) << to_string(made.errors());
    for (const char* line : {"fsdp_reshard_after_forward = \"never\"", "enable_async_tensor_parallel = true",
                             "[compile]\nenable = true", "mode = \"selective\"",
                             "selective_ac_option = \"op\"", "mixed_precision_reduce = \"float32\""}) {
        EXPECT_NE(made->text.find(line), std::string::npos) << line << " in\n" << made->text;
    }
    EXPECT_EQ(made->remarks.front(), "torchtitan reduces gradients in fp32");
    // By axis nothing but this project's prediction can force a collective.
    document.plan.collectives = {{"tp", "ring"}};
    const auto forced = export_plan(document, TargetFramework::Torchtitan, "job");
    ASSERT_TRUE(forced.has_value()) << to_string(forced.errors());
    ASSERT_EQ(forced->remarks.size(), made->remarks.size() + 1);
    EXPECT_NE(forced->remarks.back().find("NCCL_ALGO"), std::string::npos) << forced->remarks.back();
}

TEST(ExportPlan, DeepSpeedsBatchIsAProduct) {
    PlanDocument document = document_of("llama3-8b", "h100:16");
    document.plan.cp_kind = WorkShape::Cp::AllToAll;
    set_mesh(document, {.cp = 2});
    document.plan.zero_stage = 3;
    document.plan.zero_shard = 8;
    const auto json = parse_json(exported(document, TargetFramework::DeepSpeed), "");
    ASSERT_TRUE(json.has_value());
    EXPECT_EQ((*json)["train_batch_size"].get<int>(), (*json)["train_micro_batch_size_per_gpu"].get<int>() *
                                                          (*json)["gradient_accumulation_steps"].get<int>() *
                                                          8);
    EXPECT_EQ((*json)["sequence_parallel_size"], 2);
    EXPECT_EQ((*json)["zero_optimization"]["mics_shard_size"], 8);
    document.plan.cp_kind = WorkShape::Cp::Ring;
    document.plan.zero_shard = 0;
    document.plan.zero_stage = 1;
    set_mesh(document, {.pp = 4});
    const auto pipe = parse_json(exported(document, TargetFramework::DeepSpeed), "");
    EXPECT_EQ((*pipe)["pipeline"]["stages"], 4);
}

TEST(ExportPlan, NanotronSplitsByItsOwnCosts) {
    // Blocks of 4 h^2 + 3 f h, a head of v h: the head of a small model weighs as much as three blocks.
    const LayerGraph graph = load_model("llama3.2-1b")->graph;
    const auto split = own_split(graph, TargetFramework::Nanotron, 4);
    ASSERT_TRUE(split.has_value());
    int sum = 0;
    for (const int blocks : *split)
        sum += blocks;
    EXPECT_EQ(sum, graph.blocks);
    EXPECT_LT(split->back(), split->front());
    PlanDocument document = document_of("llama3.2-1b", "h100:8");
    set_mesh(document, {.pp = 4, .tp = 2});
    const auto refused = export_plan(document, TargetFramework::Nanotron, "job");
    ASSERT_FALSE(refused.has_value());
    EXPECT_TRUE(refused.error().hint.starts_with("its own split: "));
    document.plan.stages = *explicit_partition(document.graph, *split, RecomputeMode::None);
    const std::string text = exported(document, TargetFramework::Nanotron);
    for (const char* line : {"  dp: 1\n", "  pp: 4\n", "  tp: 2\n", "  tp_mode: REDUCE_SCATTER\n",
                             "  pp_engine: 1f1b\n", "  batch_accumulation_per_replica: 8\n"}) {
        EXPECT_NE(text.find(line), std::string::npos) << line << " in\n" << text;
    }
}

TEST(ExportPlan, AcceleratesDegreesMakeTheWorld) {
    PlanDocument document = document_of("llama3-8b", "h100:16");
    set_mesh(document, {.tp = 2, .cp = 2});
    document.plan.sequence_parallel = false;
    document.plan.zero_stage = 3;
    document.plan.zero_shard = 4;
    const std::string text = exported(document, TargetFramework::Accelerate);
    for (const char* line :
         {"parallelism_config_dp_replicate_size: 2\n", "parallelism_config_dp_shard_size: 2\n",
          "parallelism_config_tp_size: 2\n", "parallelism_config_cp_size: 2\n", "num_processes: 16\n",
          "num_machines: 2\n", "fsdp_reshard_after_forward: true\n"}) {
        EXPECT_NE(text.find(line), std::string::npos) << line << " in\n" << text;
    }
    set_mesh(document, {});
    document.plan.zero_stage = document.plan.zero_shard = 0;
    EXPECT_NE(exported(document, TargetFramework::Accelerate).find("distributed_type: MULTI_GPU"),
              std::string::npos);
}

struct Refusal {
    TargetFramework target;
    std::function<void(PlanDocument&)> change;
    std::string key, hint;
};

TEST(ExportPlan, WhatAFrameworkCannotDoIsRefusedByItsOwnKey) {
    using enum TargetFramework;
    const auto recompute = [](RecomputeMode mode, int blocks) {
        return [mode, blocks](PlanDocument& d) {
            d.plan.recompute = mode;
            for (StageSpec& stage : d.plan.stages) {
                stage.recompute = mode;
                stage.recompute_layers = blocks;
            }
        };
    };
    const std::vector<Refusal> refusals = {
        {Megatron, [](PlanDocument& d) { d.plan.schedule = "zb-h1"; }, "--pipeline-model-parallel-size",
         "schedule 1f1b, or interleaved with vpp 2 and more"},
        {Megatron, [](PlanDocument& d) { d.plan.optimizer = OptimizerKind::Lamb; }, "--optimizer",
         "optimizer adam or sgd or sgd-momentum"},
        {Megatron, recompute(RecomputeMode::SelectiveOps, -1), "--recompute-granularity",
         "recompute selective or modules or full or none"},
        {Megatron, [](PlanDocument& d) { d.plan.zero_stage = 2; }, "--data-parallel-sharding-strategy",
         "zero 1, or pp 1"},
        {Megatron, [](PlanDocument& d) { d.plan.precision.autocast = true; }, "--fp8-format",
         "precision.parameters bf16, precision.autocast false"},
        {Megatron, [](PlanDocument& d) { d.plan.offload_activations = true; }, "--cpu-offloading-num-layers",
         "offload_activations false, or recompute full"},
        {Torchtitan, [](PlanDocument& d) { d.plan.sequence_parallel = false; },
         "parallelism.tensor_parallel_degree", "sp on, or tp 1"},
        {Torchtitan, recompute(RecomputeMode::Selective, -1), "activation_checkpoint.mode",
         "recompute selective-ops"},
        {Torchtitan, recompute(RecomputeMode::Full, 2), "activation_checkpoint.mode",
         "recompute full, or none"},
        {Torchtitan, [](PlanDocument& d) { d.plan.rank_order = "tp-cp-ep-pp-dp"; }, "parallelism",
         "tp-cp-ep-dp-pp"},
        {DeepSpeed,
         [](PlanDocument& d) {
             d.plan.stages = *explicit_partition(d.graph, std::vector<int>{15, 17}, RecomputeMode::None);
         },
         "pipeline.partition", "its own split: 16,16"},
        {DeepSpeed, [](PlanDocument& d) { d.plan.precision.compute = Precision::Fp8; }, "bf16.enabled",
         "precision bf16 or fp16 or fp32"},
        {DeepSpeed, [](PlanDocument& d) { set_mesh(d, {.pp = 2, .cp = 2}); }, "sequence_parallel_size",
         "cp 1, or pp 1 and tp 1"},
        {Nanotron, [](PlanDocument& d) { d.plan.zero_stage = 2; }, "optimizer.zero_stage", "zero 1"},
        {Accelerate, [](PlanDocument& d) { d.plan.zero_stage = 1; }, "fsdp_reshard_after_forward",
         "zero 2 (fsdp_reshard_after_forward false), or zero 0"},
    };
    for (const Refusal& refusal : refusals) {
        PlanDocument document = document_of("llama3-8b", "h100:16");
        set_mesh(document, {.pp = 2, .tp = 2});
        refusal.change(document);
        const auto made = export_plan(document, refusal.target, "job");
        ASSERT_FALSE(made.has_value()) << refusal.key;
        bool named = false;
        for (const Error& error : made.errors())
            named = named || (error.context == refusal.key && error.hint == refusal.hint);
        EXPECT_TRUE(named) << refusal.key << " in\n" << to_string(made.errors());
    }
}

TEST(ExportPlan, ModelsThatAFrameworkDoesNotTrainAreRefused) {
    using enum TargetFramework;
    const auto refused = [](const char* model, TargetFramework target,
                            Precision precision = Precision::Bf16) {
        PlanDocument document = document_of(model, "h100:8");
        set_mesh(document, {});
        document.plan.precision.compute = precision;
        const auto made = export_plan(document, target, "job");
        if (made) return std::string();
        return to_string(made.errors());
    };
    for (const TargetFramework target : {Megatron, Torchtitan, Nanotron}) {
        EXPECT_NE(refused("t5-11b", target).find("has an encoder before its decoder"), std::string::npos);
        EXPECT_NE(refused("vit-b-16", target).find("trains transformers over tokens"), std::string::npos);
    }
    EXPECT_EQ(refused("bert-large", Megatron).find("is an encoder"), std::string::npos);
    EXPECT_NE(refused("bert-large", Torchtitan).find("is an encoder"), std::string::npos);
    EXPECT_NE(refused("mixtral-8x7b", Megatron, Precision::Fp16).find("grouped products of experts"),
              std::string::npos);
}

TEST(ExportPlan, TorchtitanAndNanotronHaveModelsOfTheirOwn) {
    using enum TargetFramework;
    const auto errors = [](const char* model, TargetFramework target, DeviceMesh mesh = {}) {
        PlanDocument document = document_of(model, "h100:8");
        document.plan.zero_stage = target == Torchtitan ? 3 : 1;
        set_mesh(document, mesh);
        if (const auto split = own_split(document.graph, target, mesh.pp))
            document.plan.stages = *explicit_partition(document.graph, *split, RecomputeMode::None);
        const auto made = export_plan(document, target, "job");
        return made ? std::string() : to_string(made.errors());
    };
    for (const char* model : {"llama2-7b", "llama3-8b", "llama4-scout", "qwen3-8b", "qwen3-30b-a3b",
                              "deepseek-v3", "deepseek-v2-lite", "kimi-k2", "gpt-oss-20b"}) {
        EXPECT_EQ(errors(model, Torchtitan), "") << model;
    }
    for (const char* model : {"gpt2-xl", "mixtral-8x22b", "qwen2.5-7b", "olmo2-7b", "gemma-7b", "mpt-7b",
                              "falcon-40b", "grok-1", "phi-2"}) {
        EXPECT_NE(errors(model, Torchtitan)
                      .find("has the models llama3, llama4, qwen3, deepseek_v3, gpt_oss: " +
                            std::string(model) + " is like none of them"),
                  std::string::npos)
            << model << ": " << errors(model, Torchtitan);
    }
    EXPECT_EQ(errors("llama3-8b", Torchtitan, {.pp = 2}), "");
    EXPECT_EQ(errors("deepseek-v2-lite", Torchtitan, {.pp = 3, .cp = 1}).find("no pipeline for"),
              std::string::npos);
    for (const char* model : {"gpt-oss-20b", "qwen3-8b"}) {
        EXPECT_NE(errors(model, Torchtitan, {.pp = 2}).find("torchtitan has no pipeline for"),
                  std::string::npos)
            << model;
        EXPECT_NE(errors(model, Torchtitan, {.cp = 2}).find("no context parallelism for"), std::string::npos)
            << model;
    }
    for (const char* model : {"llama3-8b", "qwen2.5-7b", "qwen3-30b-a3b"})
        EXPECT_EQ(errors(model, Nanotron), "") << model;
    for (const char* model : {"gpt2-xl", "deepseek-v3", "gpt-oss-20b", "mpt-7b"}) {
        EXPECT_NE(errors(model, Nanotron).find("nanotron has the models llama, qwen2 and starcoder2"),
                  std::string::npos)
            << model;
    }
}

TEST(ExportPlan, TorchtitansDualPipeVRecomputesWithoutItsOverlap) {
    PlanDocument document = document_of("llama4-scout", "h100:16");
    document.plan.schedule = "dualpipev";
    document.plan.virtual_stages = 2;
    document.plan.zero_stage = 3;
    set_mesh(document, {.pp = 2, .ep = 8});
    const std::string option = "pipeline_parallel_expert_parallel_overlap = false";
    const std::string text = exported(document, TargetFramework::Torchtitan);
    EXPECT_NE(text.find("\"DualPipeV\""), std::string::npos) << text;
    EXPECT_EQ(text.find(option), std::string::npos) << text;
    for (StageSpec& stage : document.plan.stages)
        stage.recompute = RecomputeMode::Full;
    EXPECT_NE(exported(document, TargetFramework::Torchtitan).find(option), std::string::npos);
}

TEST(ExportPlan, TorchtitansExpertsLieWithinItsShards) {
    PlanDocument document = document_of("qwen3-30b-a3b", "h100:16");
    set_mesh(document, {.ep = 8});
    document.plan.zero_stage = 0;  // one shard: no ranks to spread experts over
    const auto made = export_plan(document, TargetFramework::Torchtitan, "job");
    ASSERT_FALSE(made);
    EXPECT_NE(to_string(made.errors()).find("experts spread over"), std::string::npos);
}

TEST(ExportPlan, FrameworksThatPadNothingAreSaidToPadNothing) {
    PlanDocument document = document_of("llama3-8b", "h100:8");
    set_mesh(document, {.tp = 8});
    document.plan.sequence_parallel = false;
    document.plan.zero_stage = 1;
    const auto made = export_plan(document, TargetFramework::DeepSpeed, "job");
    ASSERT_TRUE(made) << to_string(made.errors());
    const std::string said =
        "vocabulary 128256 padded to 129024: 768 dummy rows in the prediction, which deepspeed does not add";
    EXPECT_NE(std::find(made->remarks.begin(), made->remarks.end(), said), made->remarks.end());
    document.plan.vocab_divisor = 1;
    const auto unpadded = export_plan(document, TargetFramework::DeepSpeed, "job");
    ASSERT_TRUE(unpadded) << to_string(unpadded.errors());
    for (const std::string& remark : unpadded->remarks)
        EXPECT_EQ(remark.find("dummy"), std::string::npos) << remark;
}

TEST(ExportPlan, DeepSpeedIsNotToldWhatItWouldMiscount) {
    PlanDocument document = document_of("llama3-8b", "h100:16");
    set_mesh(document, {.tp = 2});
    document.plan.sequence_parallel = false;
    document.plan.zero_stage = 1;
    document.plan.optimizer = OptimizerKind::Lamb;
    std::string text = exported(document, TargetFramework::DeepSpeed);
    EXPECT_EQ(text.find("train_batch_size"), std::string::npos) << text;
    EXPECT_NE(text.find("\"zero_allow_untested_optimizer\": true"), std::string::npos) << text;
    set_mesh(document, {.cp = 4});
    document.plan.cp_kind = WorkShape::Cp::AllToAll;
    document.plan.optimizer = OptimizerKind::Adam;
    text = exported(document, TargetFramework::DeepSpeed);
    EXPECT_NE(text.find("\"sequence_parallel_size\": 4"), std::string::npos) << text;
    EXPECT_NE(text.find("\"data_parallel_size\": 4"), std::string::npos) << text;
    EXPECT_EQ(text.find("zero_allow_untested_optimizer"), std::string::npos) << text;
}

}  // namespace
}  // namespace tw
