// Rules about sequences, attention kernels, experts and microbatches, and the numbers in their messages.
#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "models/load_model.hpp"
#include "plan/padded_vocabulary.hpp"
#include "plan/plan_json.hpp"
#include "plan/rules/attention_kernel.hpp"
#include "tests/plan/plan_fixtures.hpp"

namespace tw {
namespace {

using testing::make_cluster;
using testing::make_model;
using testing::make_plan;
using testing::text_of;

Error only_error(const PlanCheck& check) {
    EXPECT_EQ(check.errors.size(), 1U) << text_of(check);
    return check.errors.empty() ? Error{} : check.errors.front();
}

struct RealPlan {
    LayerGraph graph;
    Cluster cluster;
    ParallelPlan plan;
    [[nodiscard]] PlanCheck check(TargetFramework target = TargetFramework::Trainwright) const {
        return check_plan(graph, cluster, plan, target);
    }
};

RealPlan real_plan(const std::string& model, const char* cluster, std::int64_t seq_len = 0) {
    auto loaded = load_model(model);
    if (!loaded) loaded = load_model_text(model, "config.json");
    RealPlan real{std::move(loaded->graph), *load_cluster(cluster), {}};
    real.plan = make_plan(real.graph, real.cluster, {}, real.cluster.devices());
    real.plan.seq_len = seq_len > 0 ? seq_len : real.graph.default_seq_len;
    return real;
}

TEST(PlanRules, ImagesHaveTheirOwnSequence) {
    EXPECT_TRUE(real_plan("vit-b-16", "h100:8").check().errors.empty());
    const Error error = only_error(real_plan("vit-b-16", "h100:8", 2048).check());
    EXPECT_EQ(error.context, "seq_len");
    EXPECT_EQ(error.message,
              "seq_len 2048, but an image is 14 x 14 patches and 1 more: (image / patch)^2 + 1 = 197 tokens");
    EXPECT_EQ(error.hint, "seq_len 197, or leave it out");
}

TEST(PlanRules, SequencesAreNotLongerThanLearnedPositions) {
    struct Case {
        const char* model;
        std::int64_t longest;
    };
    for (const auto& [model, longest] :
         {Case{"gpt2-small", 1024}, Case{"bert-large", 512}, Case{"opt-1.3b", 2048}, Case{"bart-large", 1024},
          Case{R"({"model_type": "roberta", "max_position_embeddings": 514})", 512}}) {
        EXPECT_TRUE(real_plan(model, "h100:8", longest).check().errors.empty()) << model;
        const Error error = only_error(real_plan(model, "h100:8", longest + 1).check());
        EXPECT_EQ(error.message, "seq_len " + std::to_string(longest + 1) + " is longer than the " +
                                     std::to_string(longest) + " positions that the model has learned");
        EXPECT_EQ(error.hint,
                  "seq_len " + std::to_string(longest) + ", or a model with a longer table of positions");
    }
    EXPECT_TRUE(real_plan("llama2-7b", "h100:8", 32768).check().errors.empty());  // rotary
    EXPECT_TRUE(real_plan("t5-3b", "h100:8", 4096).check().errors.empty());       // relative
    EXPECT_TRUE(real_plan("resnet50", "h100:8", 4096).check().errors.empty());
}

TEST(PlanRules, ADocumentWithoutSequenceLengthTakesTheModels) {
    for (const char* model : {"vit-b-16", "gpt2-small", "bert-large", "llama3-8b"}) {
        const LayerGraph graph = load_model(model)->graph;
        const auto plan = plan_from_json(
            *parse_json(R"({"mesh": {}, "schedule": "1f1b", "global_batch": 8})", "plan"), graph, "");
        ASSERT_TRUE(plan) << to_string(plan.errors());
        EXPECT_EQ(plan->seq_len, graph.default_seq_len) << model;
    }
}

TEST(PlanRules, NanotronNeedsMicrobatchesForItsPipeline) {
    const LayerGraph graph = make_model({.blocks = 16});
    const Cluster cluster = make_cluster(4);
    const auto check = [&](int microbatches, const char* schedule) {
        ParallelPlan plan = make_plan(graph, cluster, {.pp = 4}, microbatches);
        plan.schedule = schedule;
        const auto own = own_split(graph, TargetFramework::Nanotron, 4);
        plan.stages = *explicit_partition(graph, *own, RecomputeMode::None);
        return check_plan(graph, cluster, plan, TargetFramework::Nanotron);
    };
    const Error error = only_error(check(2, "1f1b"));
    EXPECT_EQ(error.context, "tokens.batch_accumulation_per_replica");
    EXPECT_EQ(error.message, "2 microbatches on 4 pipeline ranks: nanotron's 1f1b needs at least pp - 1 = 3");
    EXPECT_EQ(error.hint, "tokens.batch_accumulation_per_replica 3, schedule gpipe, or pp 3");
    EXPECT_TRUE(check(3, "1f1b").errors.empty()) << text_of(check(3, "1f1b"));
    EXPECT_TRUE(check(2, "gpipe").errors.empty()) << text_of(check(2, "gpipe"));
}

TEST(PlanRules, MicrobatchesAreSaidInTheUsersBatch) {
    const LayerGraph graph = make_model({.blocks = 16});
    const Cluster cluster = make_cluster(16);
    ParallelPlan plan = make_plan(graph, cluster, {.pp = 4}, 80, 2);  // dp 4, mbs 2, 10 microbatches
    plan.schedule = "interleaved";
    plan.virtual_stages = 2;
    plan.stages = uniform_partition(graph, 8, RecomputeMode::None);
    Error error = only_error(check_plan(graph, cluster, plan, TargetFramework::Megatron));
    EXPECT_EQ(error.context, "--global-batch-size");
    EXPECT_EQ(
        error.message,
        "global batch 80 / 8 = 10 microbatches: 10 microbatches in groups of 4 leave 2, fewer than the 4 "
        "pipeline ranks");
    EXPECT_EQ(error.hint, "--global-batch-size 64 or 96");
    error = only_error(check_plan(graph, cluster, plan));
    EXPECT_EQ(error.context, "microbatches");
    EXPECT_EQ(error.hint, "microbatches 8 or 12");

    plan = make_plan(graph, cluster, {.pp = 4}, 8, 2);
    error = only_error(check_plan(graph, cluster, plan, TargetFramework::Torchtitan));
    EXPECT_EQ(
        error.message,
        "local batch 2 / 2 = 1 microbatch: 1 microbatch on 4 pipeline ranks: torchtitan needs at least as "
        "many microbatches");
    EXPECT_EQ(error.hint, "training.local_batch_size 8, or pp 1");
}

// Transformer Engine divides the heads of keys and values too; elsewhere ranks share copies of them.
TEST(PlanRules, UlyssesDividesKeyAndValueHeads) {
    const LayerGraph graph = make_model({.heads = 32, .kv_heads = 8});
    const Cluster cluster = make_cluster(16);
    const auto check = [&](int tp, int cp, TargetFramework target) {
        ParallelPlan plan = make_plan(graph, cluster, {.tp = tp, .cp = cp}, 16);
        plan.cp_kind = WorkShape::Cp::AllToAll;
        return check_plan(graph, cluster, plan, target);
    };
    EXPECT_TRUE(check(1, 8, TargetFramework::Megatron).errors.empty());
    EXPECT_TRUE(check(2, 4, TargetFramework::Megatron).errors.empty());
    const Error error = only_error(check(2, 8, TargetFramework::Megatron));
    EXPECT_EQ(error.context, "--context-parallel-size");
    EXPECT_EQ(error.message,
              "the 4 key and value heads of a rank (of 8, tp 2) do not divide by cp 8 (all-to-all)");
    EXPECT_EQ(error.hint, "cp 4 (legal: 1, 2, 4), or cp_kind ring");
    EXPECT_TRUE(check(2, 8, TargetFramework::Trainwright).errors.empty());
}

TEST(PlanRules, MegatronSplitsSequencesWithFusedKernels) {
    const LayerGraph graph = make_model({});
    const Cluster cluster = make_cluster(8);
    ParallelPlan plan = make_plan(graph, cluster, {.cp = 2}, 8);
    EXPECT_TRUE(check_plan(graph, cluster, plan, TargetFramework::Megatron).errors.empty());
    plan.attention = AttentionKernel::Unfused;
    const Error error = only_error(check_plan(graph, cluster, plan, TargetFramework::Megatron));
    EXPECT_EQ(error.context, "--attention-backend");
    EXPECT_EQ(error.hint, "cp 1, or attention flash2 in 16 bits");
    EXPECT_TRUE(check_plan(graph, cluster, plan).errors.empty());
}

TEST(PlanRules, AttentionKernelsRunOnTheirDevicesInTheirPrecision) {
    struct Case {
        const char* cluster;
        AttentionKernel kernel;
        const char* precision;
        const char* framework;
        const char* message;  // "": legal
        const char* hint;
    };
    using Kernel = AttentionKernel;
    for (const Case& c :
         {Case{"h100:8", Kernel::Flash3, "bf16", "megatron", "", ""},
          Case{"a100:8", Kernel::Flash3, "bf16", "megatron", "attention flash3 does not run on a100 (ampere)",
               "attention flash2"},
          Case{"v100:8", Kernel::Flash3, "fp16", "trainwright",
               "attention flash3 does not run on v100-32 (volta)", "attention unfused"},
          Case{"v100:8", Kernel::Flash2, "fp16", "megatron",
               "attention flash2 does not run on v100-32 (volta)", "attention unfused"},
          Case{"a100:8", Kernel::CuDnn, "bf16", "megatron", "", ""},
          Case{"h100:8", Kernel::CuDnn, "fp32", "trainwright",
               "attention cudnn computes in 16 bits or less, the plan in fp32", "attention flash2"},
          Case{"h100:8", Kernel::CuDnn, "fp32", "megatron",
               "attention cudnn computes in 16 bits or less, the plan in fp32", "attention unfused"},
          Case{"h100:8", Kernel::Flash2, "fp32", "trainwright", "", ""},  // the executor's own
          Case{"h100:8", Kernel::Unfused, "fp32", "megatron", "", ""}}) {
        RealPlan real = real_plan("gpt2-small", c.cluster);
        real.plan.attention = c.kernel;
        real.plan.precision = precision_named(c.precision);
        real.plan.framework = c.framework;
        const PlanCheck check = real.check();
        if (*c.message == '\0') {
            EXPECT_TRUE(check.errors.empty()) << text_of(check);
            continue;
        }
        const Error error = only_error(check);
        EXPECT_EQ(error.context, "attention");
        EXPECT_EQ(error.message, c.message);
        EXPECT_EQ(error.hint, c.hint);
    }
    const auto fastest = [](const char* cluster, Precision precision, const char* framework) {
        return fastest_attention(*load_cluster(cluster), precision, framework);
    };
    EXPECT_EQ(fastest("h100:8", Precision::Bf16, "trainwright"), Kernel::CuDnn);
    EXPECT_EQ(fastest("h100:8", Precision::Fp32, "trainwright"), Kernel::Flash2);
    EXPECT_EQ(fastest("h100:8", Precision::Fp32, "megatron"), Kernel::Unfused);
    EXPECT_EQ(fastest("a100:8", Precision::Bf16, "megatron"), Kernel::Flash2);
    EXPECT_EQ(fastest("v100:8", Precision::Fp16, "megatron"), Kernel::Unfused);
}

TEST(PlanRules, WhatHasNoEffectIsRefused) {
    const LayerGraph dense = make_model({});
    const Cluster cluster = make_cluster(8);
    ParallelPlan plan = make_plan(dense, cluster, {}, 8);
    plan.expert_imbalance = 1.5;
    Error error = only_error(check_plan(dense, cluster, plan));
    EXPECT_EQ(error.context, "expert_imbalance");
    EXPECT_EQ(error.message, "expert_imbalance 1.5, but the model has no experts");
    const LayerGraph sparse = make_model({.experts = 8});
    EXPECT_TRUE(check_plan(sparse, cluster, plan).errors.empty());

    plan = make_plan(dense, cluster, {}, 8);
    plan.cp_kind = WorkShape::Cp::AllToAll;
    error = only_error(check_plan(dense, cluster, plan));
    EXPECT_EQ(error.context, "cp_kind");
    EXPECT_EQ(error.hint, "cp 2 and more, or cp_kind ring");
    EXPECT_TRUE(
        check_plan(dense, cluster, plan, TargetFramework::DeepSpeed).errors.empty());  // its only kind
}

TEST(PlanRules, ExpertsAreSplitEvenly) {
    const LayerGraph graph = load_model("mixtral-8x7b")->graph;  // experts of 14336
    const Cluster cluster = make_cluster(8);
    for (const auto& [etp, hint] : {std::pair{2, ""}, {4, ""}, {3, "etp 2"}, {6, "etp 4"}, {12, "etp 8"}}) {
        ParallelPlan plan = make_plan(graph, cluster, {}, 8);
        plan.mesh.etp = etp;
        std::string found;
        for (const Error& error : check_plan(graph, cluster, plan).errors) {
            if (error.message == fmt::format("etp {} does not divide the experts' width", etp))
                found = error.hint;
        }
        EXPECT_EQ(found, hint) << etp;
    }
}

TEST(PlanRules, ModulesAreThoseOfTheModel) {
    const LayerGraph dense = load_model("llama3.2-1b")->graph, sparse = load_model("qwen3-30b-a3b")->graph;
    const Cluster cluster = make_cluster(8);
    const auto check = [&](const LayerGraph& graph, RecomputeModules modules,
                           TargetFramework target = TargetFramework::Trainwright) {
        ParallelPlan plan = make_plan(graph, cluster, {}, 8);
        plan.recompute = RecomputeMode::Modules;
        plan.recompute_modules = modules;
        for (StageSpec& stage : plan.stages)
            stage.recompute = RecomputeMode::Modules;
        return check_plan(graph, cluster, plan, target);
    };
    EXPECT_TRUE(check(dense, {RecomputeModule::Mlp}).errors.empty());
    EXPECT_TRUE(check(sparse, {RecomputeModule::ExpertActivation, RecomputeModule::Norm}).errors.empty());
    Error error = only_error(check(dense, {RecomputeModule::LatentUpProjection}));
    EXPECT_EQ(error.context, "recompute_modules");
    EXPECT_EQ(error.message, dense.name + " has no module mla_up_proj");
    EXPECT_EQ(error.hint, "recompute_modules of core_attn, mlp");
    error = only_error(check(dense, {RecomputeModule::Norm}));
    EXPECT_EQ(error.message,
              dense.name + " has no module layernorm: its norms are parts of what follows them");
    error = only_error(check(sparse, {}));
    EXPECT_EQ(error.message, "recompute is modules, and none is named");
    EXPECT_EQ(error.hint, "recompute_modules of core_attn, moe_act, layernorm, moe");
    // Megatron's flag; other frameworks have none.
    error = only_error(check(sparse, {RecomputeModule::Mlp}, TargetFramework::Megatron));
    EXPECT_EQ(error.context, "--recompute-modules");
    const PlanCheck fsdp = check(sparse, {RecomputeModule::Experts}, TargetFramework::Torchtitan);
    EXPECT_NE(to_string(fsdp.errors).find("torchtitan has no recompute modules"), std::string::npos)
        << to_string(fsdp.errors);
}

TEST(PlanRules, CombinedPassesDoNotRunExchangesAgain) {
    const LayerGraph graph = load_model("deepseek-v3")->graph;
    const Cluster cluster = *load_cluster("h100:128");
    ParallelPlan plan = make_plan(graph, cluster, {.dp = 16, .pp = 8, .ep = 16}, 32);
    plan.virtual_stages = 2;
    plan.schedule = "interleaved-overlap";
    plan.recompute = RecomputeMode::Modules;
    plan.stages = uniform_partition(graph, 16, plan.recompute);
    const auto refused = [&](RecomputeModules modules) {
        plan.recompute_modules = modules;
        const Errors errors = check_plan(graph, cluster, plan, TargetFramework::Megatron).errors;
        return std::count_if(errors.begin(), errors.end(),
                             [](const Error& error) { return error.context == "--recompute-modules"; });
    };
    EXPECT_EQ(refused({RecomputeModule::Experts}), 1);
    EXPECT_EQ(refused({RecomputeModule::LatentUpProjection, RecomputeModule::Mlp}), 0);
}

TEST(PlanRules, TensorParallelHintsDivideTheDevices) {
    const LayerGraph graph = make_model({.heads = 32, .kv_heads = 32, .ffn = 11008});
    const Cluster cluster = make_cluster(7);
    const PlanCheck check = check_plan(graph, cluster, make_plan(graph, cluster, {.tp = 7}, 7));
    ASSERT_EQ(check.errors.size(), 2U) << text_of(check);
    EXPECT_EQ(check.errors[0].hint, "tp 1 (legal: 1, 2, 4, 8, 16, 32)");
}

TEST(PlanRules, PaddedVocabularies) {
    LayerGraph graph = make_model({.vocab = 32002});
    ParallelPlan plan;
    plan.mesh.tp = 2;
    EXPECT_EQ(padded_vocab(graph, plan), 32256);
    EXPECT_EQ(padding_sentence(graph, plan), "vocabulary 32002 padded to 32256: 254 dummy rows");
    graph.vocab = 32255;
    EXPECT_EQ(padding_sentence(graph, plan), "vocabulary 32255 padded to 32256: 1 dummy row");
    graph.vocab = 32256;
    EXPECT_EQ(padding_sentence(graph, plan), "");
}

}  // namespace
}  // namespace tw
