#include "plan/frameworks/export/export_plan.hpp"

#include <fstream>
#include <functional>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "plan/plan_order.hpp"
#include "plan/schedule/pytorch_csv.hpp"
#include "plan/stage_partition.hpp"

namespace tw {
namespace {

PlanDocument document_of(const char* model, const char* cluster) {
    PlanDocument document;
    document.model_name = model;
    document.graph = load_model(model)->graph;
    document.model_document = *read_model_document(model);
    document.cluster = *load_cluster(cluster);
    document.plan.seq_len = 4096;
    return document;
}

// Sets the mesh with what follows from it; one sequence a microbatch.
void set_mesh(PlanDocument& document, DeviceMesh mesh, std::int64_t microbatches = 8) {
    ParallelPlan& plan = document.plan;
    mesh.dp = document.cluster.devices() / (mesh.tp * mesh.pp * mesh.cp);
    plan.mesh = mesh;
    plan.sequence_parallel = mesh.tp > 1;
    plan.microbatches = microbatches;
    plan.global_batch = microbatches * mesh.dp;
    plan.stages = uniform_partition(document.graph, mesh.pp * plan.virtual_stages, plan.recompute);
}

std::string exported(const PlanDocument& document, TargetFramework target) {
    const auto made = export_plan(document, target, "job");
    EXPECT_TRUE(made.has_value()) << (made ? "" : to_string(made.errors()));
    return made ? made->text : "";
}

// The words of Megatron's arrays: "--name" and what follows it.
bool has_argument(const std::string& text, const std::string& line) {
    return text.find("    " + line + "\n") != std::string::npos;
}

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

TEST(ExportPlan, MegatronsLayout) {  // NVIDIA/Megatron-LM#1304; modelscope/ms-swift#5737
    EXPECT_EQ(megatron_layout(std::vector<int>{7, 8, 8, 7}, 0), "Et*7|(t*8|)*2t*7L");
    EXPECT_EQ(megatron_layout(std::vector<int>{11, 12, 12, 11}, 0), "Et*11|(t*12|)*2t*11L");
    EXPECT_EQ(megatron_layout(std::vector<int>{3, 1}, 0), "Et*3|tL");
    EXPECT_EQ(megatron_layout(std::vector<int>{0, 2, 3, 3, 1, 0}, 1), "E|t*2|(t*3|)*2t|mL");
}

TEST(ExportPlan, MegatronSaysTheWholeLayout) {
    PlanDocument document = document_of("llama3-8b", "h100:64");
    document.plan.virtual_stages = 4;
    document.plan.schedule = "interleaved";
    set_mesh(document, {.pp = 4, .tp = 2, .cp = 2});
    document.plan.zero_stage = 1;
    document.plan.overlap.param_gather = true;
    document.plan.recompute = RecomputeMode::Full;
    for (StageSpec& stage : document.plan.stages) {
        stage.recompute = RecomputeMode::Full;
        stage.recompute_layers = 1;
    }
    const std::string text = exported(document, TargetFramework::Megatron);
    for (const char* line : {"--tensor-model-parallel-size 2",
                             "--pipeline-model-parallel-size 4",
                             "--context-parallel-size 2",
                             "--cp-comm-type p2p",
                             "--sequence-parallel",
                             "--num-virtual-stages-per-pipeline-rank 4",
                             "--micro-batch-size 1",
                             "--global-batch-size 32",
                             "--seq-length 4096",
                             "--use-distributed-optimizer",
                             "--overlap-grad-reduce",
                             "--overlap-param-gather",
                             "--bf16",
                             "--recompute-granularity full",
                             "--recompute-method block",
                             "--recompute-num-layers 1",
                             "--num-layers 32",
                             "--hidden-size 4096",
                             "--num-query-groups 8",
                             "--swiglu"}) {
        EXPECT_TRUE(has_argument(text, line)) << line << " in\n" << text;
    }
    EXPECT_NE(text.find("export CUDA_DEVICE_MAX_CONNECTIONS=1"), std::string::npos);
    EXPECT_EQ(text.find("--no-overlap-p2p-communication"), std::string::npos);
    EXPECT_EQ(text.find("--expert"), std::string::npos);

    document.plan.overlap.p2p = false;
    document.plan.rank_order = "tp-cp-ep-pp-dp";
    document.plan.zero_shard = 4;
    const std::string other = exported(document, TargetFramework::Megatron);
    for (const char* line : {"--no-overlap-p2p-communication", "--use-tp-pp-dp-mapping",
                             "--num-distributed-optimizer-instances 2"}) {
        EXPECT_TRUE(has_argument(other, line)) << line << " in\n" << other;
    }
    document.plan.rank_order = "tp-cp-ep-dp-pp";
    document.plan.zero_stage = 3;
    const std::string sharded = exported(document, TargetFramework::Megatron);
    EXPECT_TRUE(has_argument(sharded, "--data-parallel-sharding-strategy optim_grads_params"));
    EXPECT_NE(sharded.find("unset CUDA_DEVICE_MAX_CONNECTIONS"), std::string::npos);
}

TEST(ExportPlan, MegatronSplitsUnevenlyByALayoutString) {
    PlanDocument document = document_of("llama3-8b", "h100:8");
    set_mesh(document, {.pp = 4});
    document.plan.stages =
        *explicit_partition(document.graph, std::vector<int>{7, 9, 9, 7}, RecomputeMode::None);
    EXPECT_TRUE(has_argument(exported(document, TargetFramework::Megatron),
                             "--pipeline-model-parallel-layout 'Et*7|(t*9|)*2t*7L'"));
}

// Plans that together write every flag that the exporter knows.
std::vector<PlanDocument> megatron_plans() {
    std::vector<PlanDocument> plans;
    const auto add = [&plans](const char* model, DeviceMesh mesh,
                              const std::function<void(PlanDocument&)>& change) {
        PlanDocument document = document_of(model, "h100:64");
        set_mesh(document, mesh);
        change(document);
        plans.push_back(std::move(document));
    };
    add("llama3-8b", {.pp = 2, .tp = 2, .cp = 2}, [](PlanDocument& d) {
        d.plan.zero_stage = 1;
        d.plan.zero_shard = 4;
        d.plan.overlap = {true, true, false, true};
        d.plan.bucket_bytes = 1e8;
        d.plan.offload_optimizer = 0.5;
        d.plan.precision.optimizer_states = Precision::Bf16;
        d.plan.precision.gradient_reduce = Precision::Bf16;
        d.plan.rank_order = "tp-cp-ep-pp-dp";
        d.plan.stages = *explicit_partition(d.graph, std::vector<int>{15, 17}, RecomputeMode::Selective);
    });
    add("llama3-8b", {.pp = 4}, [](PlanDocument& d) {
        d.plan.virtual_stages = 2;
        d.plan.schedule = "interleaved";
        d.plan.microbatch_group = 8;
        d.plan.overlap.p2p = false;
        d.plan.precision.compute = Precision::Fp8;
        d.plan.recompute = RecomputeMode::Full;
        d.plan.stages = uniform_partition(d.graph, 8, RecomputeMode::Full);
    });
    add("mixtral-8x7b", {.tp = 2, .ep = 8, .etp = 2},
        [](PlanDocument& d) { d.plan.optimizer = OptimizerKind::Sgd; });
    add("deepseek-v3", {.pp = 1, .ep = 8}, [](PlanDocument& d) { d.plan.zero_stage = 2; });
    add("gpt2-xl", {}, [](PlanDocument& d) {
        d.plan.dropout = true;
        d.plan.seq_len = 1024;
        d.plan.attention = AttentionKernel::Unfused;
    });
    add("qwen2.5-7b", {.tp = 2},
        [](PlanDocument& d) { d.plan.precision.compute = d.plan.precision.parameters = Precision::Fp16; });
    return plans;
}

TEST(ExportPlan, EveryFlagIsMegatrons) {
    const char* const path = TW_SOURCE_DIR "/../shared/megatron_flags.tsv";
    std::ifstream file(path);
    if (!file) GTEST_SKIP() << path << " is not here: the list of Megatron-LM's flags";
    std::set<std::string> known;
    for (std::string line; std::getline(file, line);) {
        std::istringstream names(line.substr(0, line.find('\t')));
        for (std::string name; names >> name;)
            known.insert(name);
    }
    ASSERT_GT(known.size(), 800U);
    std::set<std::string> written;
    for (const PlanDocument& document : megatron_plans()) {
        std::istringstream words(exported(document, TargetFramework::Megatron));
        for (std::string word; words >> word;) {
            if (word.starts_with("--")) written.insert(word);
        }
    }
    for (const std::string& flag : written)
        EXPECT_TRUE(known.contains(flag)) << flag;
    EXPECT_GT(written.size(), 60U);
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
         "recompute selective or full or none"},
        {Megatron, [](PlanDocument& d) { d.plan.precision.autocast = true; }, "--fp8-format",
         "precision.parameters bf16, precision.autocast false"},
        {Megatron, [](PlanDocument& d) { d.plan.offload_activations = true; }, "--cpu-offloading-num-layers",
         "offload_activations false, or recompute full"},
        {Torchtitan, [](PlanDocument& d) { d.plan.sequence_parallel = false; },
         "parallelism.enable_sequence_parallel", "sp on, or tp 1"},
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

TEST(ExportPlan, TorchtitansExpertsLieWithinItsShards) {
    PlanDocument document = document_of("mixtral-8x7b", "h100:16");
    set_mesh(document, {.ep = 8});
    document.plan.zero_stage = 0;  // one shard: no ranks to spread experts over
    const auto made = export_plan(document, TargetFramework::Torchtitan, "job");
    ASSERT_FALSE(made);
    EXPECT_NE(to_string(made.errors()).find("experts spread over"), std::string::npos);
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
