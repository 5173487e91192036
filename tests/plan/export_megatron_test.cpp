#include <fstream>
#include <functional>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "plan/frameworks/export/export_plan.hpp"
#include "tests/plan/export_fixtures.hpp"

namespace tw {
namespace {

using test::document_of;
using test::exported;
using test::has_argument;
using test::set_mesh;

TEST(ExportMegatron, MegatronsLayout) {  // NVIDIA/Megatron-LM#1304; modelscope/ms-swift#5737
    EXPECT_EQ(megatron_layout(std::vector<int>{7, 8, 8, 7}, 0), "Et*7|(t*8|)*2t*7L");
    EXPECT_EQ(megatron_layout(std::vector<int>{11, 12, 12, 11}, 0), "Et*11|(t*12|)*2t*11L");
    EXPECT_EQ(megatron_layout(std::vector<int>{3, 1}, 0), "Et*3|tL");
    EXPECT_EQ(megatron_layout(std::vector<int>{0, 2, 3, 3, 1, 0}, 1), "E|t*2|(t*3|)*2t|mL");
}

TEST(ExportMegatron, MegatronSaysTheWholeLayout) {
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
    document.plan.virtual_stages = 1;
    document.plan.schedule = "1f1b";
    set_mesh(document, {.tp = 2, .cp = 2});
    const std::string sharded = exported(document, TargetFramework::Megatron);
    EXPECT_TRUE(has_argument(sharded, "--data-parallel-sharding-strategy optim_grads_params"));
    EXPECT_NE(sharded.find("unset CUDA_DEVICE_MAX_CONNECTIONS"), std::string::npos);
}

TEST(ExportMegatron, MegatronSplitsUnevenlyByALayoutString) {
    PlanDocument document = document_of("llama3-8b", "h100:8");
    set_mesh(document, {.pp = 4});
    document.plan.stages =
        *explicit_partition(document.graph, std::vector<int>{7, 9, 9, 7}, RecomputeMode::None);
    EXPECT_TRUE(has_argument(exported(document, TargetFramework::Megatron),
                             "--pipeline-model-parallel-layout 'Et*7|(t*9|)*2t*7L'"));
}

std::string model_arguments(const char* model) {
    PlanDocument document = document_of(model, "h100:64");
    set_mesh(document, {});
    return exported(document, TargetFramework::Megatron);
}

TEST(ExportMegatron, MegatronNormalisesLatents) {  // core/models/gpt/gpt_layer_specs.py
    for (const char* model : {"deepseek-v3", "deepseek-v2-lite", "kimi-k2", "qwen3-8b"})
        EXPECT_TRUE(has_argument(model_arguments(model), "--qk-layernorm")) << model;
    EXPECT_FALSE(has_argument(model_arguments("llama3-8b"), "--qk-layernorm"));
    const std::string other = model_arguments("olmo2-7b");  // gains of a whole projection
    EXPECT_FALSE(has_argument(other, "--qk-layernorm"));
    EXPECT_NE(other.find("norms over all heads of a projection"), std::string::npos) << other;
}

TEST(ExportMegatron, MegatronsGptOss) {  // Megatron-Bridge, gpt_oss_provider.py, has the same values
    const std::string text = model_arguments("gpt-oss-20b");
    for (const char* line : {"--quick-geglu", "--glu-linear-offset 1.0", "--activation-func-clamp-value 7",
                             "--softmax-type learnable", "--window-size 127,0", "--window-attn-skip-freq 2",
                             "--attention-backend fused"}) {
        EXPECT_TRUE(has_argument(text, line)) << line << " in\n" << text;
    }
    EXPECT_FALSE(has_argument(text, "--swiglu"));
    EXPECT_FALSE(has_argument(text, "--disable-bias-linear"));
    EXPECT_EQ(text.find("--moe-router-score-function"), std::string::npos);
    EXPECT_EQ(text.find("MODEL_ARGS lack"), std::string::npos) << text;
    EXPECT_NE(text.find("attention sinks take cuDNN's kernels"), std::string::npos) << text;
}

TEST(ExportMegatron, MegatronsRouters) {
    const std::string v3 = model_arguments("deepseek-v3");
    for (const char* line :
         {"--moe-router-score-function sigmoid", "--moe-router-enable-expert-bias",
          "--moe-router-topk-scaling-factor 2.5", "--moe-router-num-groups 8", "--moe-router-group-topk 4"}) {
        EXPECT_TRUE(has_argument(v3, line)) << line << " in\n" << v3;
    }
    EXPECT_FALSE(has_argument(v3, "--moe-router-pre-softmax"));
    const std::string lite = model_arguments("deepseek-v2-lite");
    EXPECT_TRUE(has_argument(lite, "--moe-router-pre-softmax"));
    EXPECT_EQ(lite.find("--moe-router-num-groups"), std::string::npos);
    EXPECT_TRUE(has_argument(model_arguments("kimi-k2"), "--moe-router-topk-scaling-factor 2.827"));
    // The softmax of a token's experts alone is Megatron's default.
    for (const char* model : {"mixtral-8x7b", "qwen3-30b-a3b"}) {
        const std::string text = model_arguments(model);
        for (const char* flag :
             {"pre-softmax", "score-function", "scaling-factor", "num-groups", "expert-bias"})
            EXPECT_EQ(text.find(flag), std::string::npos) << flag << " in\n" << text;
        EXPECT_NE(text.find("the balancing of experts"), std::string::npos) << text;
    }
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
    add("gpt-oss-20b", {.ep = 8}, [](PlanDocument&) {});
    add("deepseek-v2", {.ep = 8}, [](PlanDocument&) {});
    add("qwen2.5-7b", {.tp = 2},
        [](PlanDocument& d) { d.plan.precision.compute = d.plan.precision.parameters = Precision::Fp16; });
    return plans;
}

TEST(ExportMegatron, EveryFlagIsMegatrons) {
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

TEST(ExportMegatron, MegatronsNarrowFormats) {
    PlanDocument document = document_of("llama3-8b", "gb300:8");
    set_mesh(document, {});
    for (const auto& [precision, flag, other] :
         {std::tuple{Precision::Fp8, "--fp8-format hybrid", "--fp4-format"},
          std::tuple{Precision::Nvfp4, "--fp4-format e2m1", "--fp8-format"}}) {
        document.plan.precision.compute = precision;
        const std::string text = exported(document, TargetFramework::Megatron);
        EXPECT_TRUE(has_argument(text, "--bf16") && has_argument(text, flag)) << text;
        EXPECT_EQ(text.find(other), std::string::npos) << text;
    }
}

// NVIDIA/Megatron-LM#1754: the padded vocabulary, and so the model, changes with tp unless the divisor does.
TEST(ExportMegatron, TheVocabularyStaysTheSameUnderAnotherTp) {
    PlanDocument document = document_of("gpt2-small", "h100:8");
    document.plan.seq_len = 1024;
    set_mesh(document, {});
    std::string text = exported(document, TargetFramework::Megatron);
    EXPECT_TRUE(has_argument(text, "--make-vocab-size-divisible-by 6288")) << text;
    EXPECT_NE(text.find("# vocabulary 50257 padded to 50304: 47 dummy rows\n"), std::string::npos) << text;
    EXPECT_NE(
        text.find("# --make-vocab-size-divisible-by 6288 pads to 50304 rows with tp 1, 2, 4 and 8 alike; "
                  "128 would pad to 50304, 50432, 50688 and 51200: other models\n"),
        std::string::npos)
        << text;
    for (const int tp : {1, 2, 4, 8})
        EXPECT_EQ(padded_vocab(50257, 6288, tp), 50304) << tp;
    for (const int tp : {2, 4}) {  // whatever the plan pads to
        set_mesh(document, {.tp = tp});
        const std::int64_t rows = padded_vocab(50257, 128, tp);
        text = exported(document, TargetFramework::Megatron);
        EXPECT_TRUE(has_argument(text, fmt::format("--make-vocab-size-divisible-by {}", rows / 8))) << text;
    }
    document.plan.vocab_divisor = 50304 / 8;  // keeps it by itself
    text = exported(document, TargetFramework::Megatron);
    EXPECT_EQ(text.find("alike"), std::string::npos) << text;
    EXPECT_NE(exported(document, TargetFramework::Megatron).find("47 dummy rows"), std::string::npos);
}

// NVIDIA/Megatron-LM#1517 and #7162: with its own formats a sharded optimizer resumes under no other layout.
TEST(ExportMegatron, ShardedOptimizersAreSavedForAnyLayout) {
    PlanDocument document = document_of("llama3-8b", "h100:8");
    set_mesh(document, {.tp = 2});
    const auto has = [&](const char* line) {
        return has_argument(exported(document, TargetFramework::Megatron), line);
    };
    EXPECT_FALSE(has("--ckpt-format torch_dist"));
    document.plan.zero_stage = 1;
    EXPECT_TRUE(has("--ckpt-format torch_dist"));
    EXPECT_TRUE(has("--dist-ckpt-optim-fully-reshardable"));
    document.plan.zero_stage = 3;  // Megatron-FSDP
    EXPECT_TRUE(has("--ckpt-format fsdp_dtensor"));
    EXPECT_FALSE(has("--dist-ckpt-optim-fully-reshardable"));
}

TEST(ExportMegatron, TheExpertMeshIsSaid) {  // NVIDIA-NeMo/Speech#14838
    PlanDocument document = document_of("mixtral-8x7b", "h100:64");
    set_mesh(document, {.pp = 2, .ep = 8});
    const std::string text = exported(document, TargetFramework::Megatron);
    EXPECT_NE(text.find("# experts: etp 1 * ep 8 * pp 2 = 16, which divides 64 ranks (4 expert replicas)\n"),
              std::string::npos)
        << text;
    EXPECT_TRUE(has_argument(text, "--expert-tensor-parallel-size 1"));
}

TEST(ExportMegatron, WhatMegatronsKernelsDoNotSplit) {
    PlanDocument document = document_of("gpt-oss-20b", "h100:16");
    set_mesh(document, {.tp = 2, .cp = 2, .ep = 2, .etp = 2});
    const auto made = export_plan(document, TargetFramework::Megatron, "job");
    ASSERT_FALSE(made.has_value());
    const std::string errors = to_string(made.errors());
    EXPECT_NE(errors.find("does not split experts with biases"), std::string::npos) << errors;
    EXPECT_NE(errors.find("sliding windows over sequences split by all-to-all"), std::string::npos) << errors;
    document.plan.cp_kind = WorkShape::Cp::AllToAll;
    document.plan.mesh.etp = 1;
    EXPECT_TRUE(has_argument(exported(document, TargetFramework::Megatron), "--cp-comm-type a2a"));
}

}  // namespace
}  // namespace tw
