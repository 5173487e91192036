// Plans that measured rows ask for in words: models, degrees, schedules, recomputation, frameworks.
#include "sim/validate/truth_plan.hpp"

#include "plan/frameworks/framework.hpp"
#include "tests/sim/measured_rows.hpp"

namespace tw {
namespace {

TEST(TruthDegrees, FollowFromTheOthers) {
    for (const char* absent : {"tp", "pp", "dp", "gpus", "micro_batch"}) {
        const ValidationCase c = case_of({{absent, nullptr}, {"num_microbatches", 8}});
        EXPECT_EQ(c.plan.mesh, (DeviceMesh{4, 2, 2, 1})) << absent;
        EXPECT_EQ(c.plan.microbatch, 2) << absent;
    }
    const Json alone = {{"gpus", 4}, {"dp", 4}, {"tp", nullptr}, {"pp", nullptr}};
    EXPECT_EQ(case_of(alone).plan.mesh, (DeviceMesh{4, 1, 1, 1}));
    EXPECT_EQ(refusal_of({{"tp", nullptr}, {"pp", nullptr}}), "tp missing");
    const Json sharded = {{"fsdp", "FSDP"}, {"dp", nullptr}, {"tp", nullptr}, {"pp", nullptr}, {"gpus", 8}};
    EXPECT_EQ(case_of(sharded).plan.mesh, (DeviceMesh{8, 1, 1, 1}));
    EXPECT_EQ(case_of(sharded).assumed.front(), "tp: 1");
    // A throughput of each GPU counts GPUs that follow, too.
    const TruthRow row =
        row_with({{"gpus", nullptr}, {"iteration_time_s", nullptr}, {"tokens_per_s_per_gpu", 1024}});
    EXPECT_DOUBLE_EQ(row.step_time_s, 64 * 1024 / (16 * 1024.0));
    const ValidationCase context = case_of({{"dp", 8}, {"tp", 1}, {"pp", 2}, {"cp", 2}});
    EXPECT_EQ(context.plan.mesh.dp, 4);
    EXPECT_EQ(context.assumed.front(), "dp 8: counts cp 2");
}

TEST(TruthDegrees, ContradictionsAndHugeOnesAreRefused) {
    EXPECT_EQ(refusal_of({{"num_microbatches", 7}}), "num_microbatches 7: global batch 64 is 8 of 2 on dp 4");
    EXPECT_EQ(refusal_of({{"gpus", 17}}), "dp 4 * tp 2 * pp 2 * cp 1 are not the row's 17 GPUs");
    const Json huge = {{"tp", 1e9}, {"pp", 1e9}, {"dp", 1e9}, {"gpus", nullptr}};
    EXPECT_EQ(refusal_of(huge), "more devices than a cluster has");
    EXPECT_EQ(refusal_of({{"vpp", 1e9}}), "2000000000 stages for 24 layers");
    EXPECT_EQ(case_of({{"vpp", 0}}).plan.virtual_stages, 1);
}

TEST(TruthSchedule, Spellings) {
    const auto schedule = [](const char* words, const Json& vpp = nullptr) {
        const ParallelPlan plan = case_of({{"schedule", words}, {"vpp", vpp}}).plan;
        return plan.schedule + "/" + std::to_string(plan.virtual_stages);
    };
    for (const char* words :
         {"Interleaved1F1B", "ScheduleInterleaved1F1B", "interleaved-1f1b", "1F1B-I", "virtual pipeline"})
        EXPECT_EQ(schedule(words), "interleaved/12") << words;
    EXPECT_EQ(schedule("Interleaved 1F1B (v=2)"), "interleaved/2");
    EXPECT_EQ(schedule("interleaved", 4), "interleaved/4");
    for (const char* words : {"1F1B (DeepSpeed PP)", "PipeDream-Flush", "n/a", "non-interleaved", "DAPPLE",
                              "none", "1f1b; interleaved for the large models", "interleaved-capable 1f1b"})
        EXPECT_EQ(schedule(words), "1f1b/1") << words;
    EXPECT_EQ(schedule("zb1p"), "zb-1p/1");
    EXPECT_EQ(schedule("ZBH2"), "zb-h2/1");
    EXPECT_EQ(schedule("ZBVZeroBubble"), "zb-v/2");
    EXPECT_EQ(schedule("GPipe (fill-drain)"), "gpipe/1");
    EXPECT_EQ(schedule("looping BFS"), "looped-bfs/1");
    EXPECT_EQ(case_of({{"schedule", "1f1b-i"}}).assumed.front(), "vpp: 12, a layer in each chunk");
    EXPECT_EQ(case_of({{"schedule", "zero-bubble"}}).assumed.front(), "schedule \"zero-bubble\": zb-1p");
    EXPECT_EQ(refusal_of({{"schedule", "V-Half"}}), "schedule v-half is not known");
    EXPECT_EQ(refusal_of({{"schedule", "zb-2p"}, {"vpp", 2}}), "schedule zb-2p has no 2 stages a rank");
}

TEST(TruthRecompute, PartsOfLayers) {
    const auto first_stage = [](const char* words) {
        const StageSpec stage = case_of({{"recompute", words}}).plan.stages.front();
        return std::pair(stage.recompute, stage.recompute_layers);
    };
    using Stage = std::pair<RecomputeMode, int>;
    EXPECT_EQ(first_stage("block 4 layers"), Stage(RecomputeMode::Full, 4));
    EXPECT_EQ(first_stage("Full (block, 1 layer)"), Stage(RecomputeMode::Full, 1));
    EXPECT_EQ(first_stage("block, 100 layers"), Stage(RecomputeMode::Full, -1));
    EXPECT_EQ(first_stage("full (uniform, 1)"), Stage(RecomputeMode::Full, -1));
    EXPECT_EQ(first_stage("full, 10 of 24 layers"), Stage(RecomputeMode::Full, 5));  // two stages
    EXPECT_EQ(first_stage("full, 24 of 24 layers"), Stage(RecomputeMode::Full, -1));
    EXPECT_EQ(first_stage("activation checkpointing"), Stage(RecomputeMode::Full, -1));
    EXPECT_EQ(first_stage("core attention"), Stage(RecomputeMode::Selective, -1));
    for (const char* none : {"without", "no-recompute", "activation checkpointing: off"})
        EXPECT_EQ(first_stage(none), Stage(RecomputeMode::None, -1)) << none;
    for (const char* part : {"partial", "every other layer", "full, 9 of 24 layers", "full, 3 of 12 layers"})
        EXPECT_NE(refusal_of({{"recompute", part}}), "") << part;
}

TEST(TruthRecompute, ModulesByTheirNames) {
    const auto stated = [](const char* words) {
        TruthRow row;
        row.recompute = words;
        const StatedRecompute s = stated_recompute(row, framework_defaults("nemo"));
        return s.mode ? recompute_text(*s.mode, -1, s.modules) : "nothing";
    };
    EXPECT_EQ(stated("selective (mla_up_proj, layernorm)"), "modules:layernorm+mla_up_proj");
    EXPECT_EQ(stated("selective: moe_act"), "modules:moe_act");
    EXPECT_EQ(stated("mla_up_proj mlp"), "modules:mla_up_proj+mlp");
    EXPECT_EQ(stated("[\"moe\", \"core_attn\"]"), "modules:core_attn+moe");
    EXPECT_EQ(stated("selective (core_attn)"), "selective");
    EXPECT_EQ(stated("selective"), "selective");
    EXPECT_EQ(stated("full"), "full");
    EXPECT_EQ(stated("something"), "nothing");
    // The row's model is dense: its norms are parts of its products.
    const ParallelPlan plan = case_of({{"recompute", "selective (mlp, layernorm)"}}).plan;
    EXPECT_EQ(plan.stages.front().recompute, RecomputeMode::Modules);
    EXPECT_EQ(to_string(plan.recompute_modules), "mlp");
}

TEST(TruthModel, FamiliesByTheirWords) {
    const auto family = [](const Json& name, const Json& words) {
        const ValidationCase c = case_of({{"model", {{"name", name}, {"family", words}}}});
        return c.assumed.empty() ? "" : c.assumed.front();
    };
    EXPECT_EQ(family("GPT 530B", nullptr), "family \"\": gpt-dense");
    EXPECT_EQ(family("some 7B", nullptr), "family \"\": gpt-dense");
    EXPECT_EQ(family("CodeLlama 7B", nullptr), "family \"\": llama-dense");
    EXPECT_EQ(family("x", "opt"), "family \"opt\": gpt-dense");
    EXPECT_EQ(family("x", "Mistral-dense"), "family \"Mistral-dense\": llama-dense");
    for (const char* other : {"t5", "mamba", "encoder-decoder", "cnn", "hybrid-mamba"})
        EXPECT_EQ(refusal_of({{"model", {{"family", other}}}}), std::string("no family for ") + other);
    const Json mixture = {{"name", "m"}, {"family", "llama-moe"}, {"ffn", 512}, {"experts", 8}, {"topk", 2}};
    EXPECT_EQ(case_of({{"model", mixture}}).graph.experts, 8);
    const ValidationCase named = case_of({{"model",
                                           {{"name", "Llama 3 8B"},
                                            {"family", "llama-dense"},
                                            {"hidden", nullptr},
                                            {"heads", nullptr},
                                            {"vocab", nullptr},
                                            {"layers", 32}}}});
    EXPECT_EQ(named.graph.parameters(), 8'030'261'248);
    EXPECT_EQ(named.assumed.front(), "widths of \"Llama 3 8B\": llama3-8b");
    // 1024 / 128 heads are no multiple of 16 key-value heads.
    const Json few = {{"heads", nullptr}, {"kv_heads", 16}};
    EXPECT_EQ(case_of({{"model", few}}).assumed.front(), "heads: 16, a multiple of kv_heads 16");
    EXPECT_EQ(refusal_of({{"model", {{"name", "Llama 3 70B LoRA"}}}}), "training by lora is not modelled");
    EXPECT_EQ(refusal_of({{"framework", "NeMo (SFT)"}}), "training by sft is not modelled");
}

TEST(TruthFramework, VersionsAndYearsChooseTables) {
    const auto table = [](const char* words) {
        return case_of({{"framework", words}, {"flash_attention", nullptr}}).plan.framework;
    };
    EXPECT_EQ(table("Megatron-LM v2.4"), "megatron-2021");
    EXPECT_EQ(table("Megatron-LM v3.0"), "megatron-2022");
    EXPECT_EQ(table("Megatron-LM (2023)"), "megatron-2023");
    EXPECT_EQ(table("Megatron-LM core 0.7"), "megatron");
    EXPECT_EQ(table("Megatron-Core v0.12"), "megatron");
    EXPECT_EQ(table("Megatron-LM core 0.3"), "megatron-2023");
    EXPECT_EQ(table("Megatron-Core r0.8.0"), "megatron-2024");
    EXPECT_EQ(table("Megatron-LM 2025"), "megatron");
    EXPECT_EQ(table("Megatron-LM"), "megatron-2022");
    // A device without bf16 has fp16 where nothing is said.
    const Json old = {{"precision", nullptr}, {"hardware", {{"gpu", "V100"}, {"gpu_mem_gb", 32}}}};
    EXPECT_EQ(case_of(old).plan.precision.compute, Precision::Fp16);
}

}  // namespace
}  // namespace tw
