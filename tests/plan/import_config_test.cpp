// What export writes comes back, and configurations as users have them are read.
#include "plan/frameworks/import/import_config.hpp"

#include <array>

#include <gtest/gtest.h>

#include "plan/frameworks/framework.hpp"
#include "plan/frameworks/import/foreign_table.hpp"
#include "plan/padded_vocabulary.hpp"
#include "tests/plan/export_fixtures.hpp"

namespace tw {
namespace {

using test::document_of;
using test::exported;
using test::set_mesh;

constexpr std::array kPaths = {"job.sh", "job.toml", "job.json", "job.yaml", "job.yaml"};

bool reads_yaml() {
    return parse_yaml("a: 1", "probe").has_value();
}

ImportedConfig read(TargetFramework framework, std::string_view text) {
    const ConfigReader* reader = config_reader_of(framework);
    const std::string path = kPaths[static_cast<std::size_t>(framework) - 1];
    EXPECT_EQ(find_config_reader(text, path), reader) << text;
    const auto config = reader->read(text, path);
    if (config) return *config;
    ADD_FAILURE() << to_string(config.errors()) << text;
    return {};
}

// Exports, imports and compares all but what the framework's configuration does not say.
ImportedConfig round_trip(const PlanDocument& document, TargetFramework framework,
                          const std::vector<const char*>& unsaid = {}) {
    const std::string text = exported(document, framework);
    ImportedConfig config = read(framework, text);
    Errors errors;
    const auto plan = complete_plan(config, document.graph, document.cluster, errors);
    EXPECT_TRUE(errors.empty()) << to_string(errors) << text;
    EXPECT_EQ(config.warnings, std::vector<std::string>()) << text;
    if (!plan) return config;
    Json before = plan_to_json(document.plan), after = plan_to_json(*plan);
    // A divisor of the framework's own pads to the same rows.
    EXPECT_EQ(padded_vocab(document.graph, document.plan), padded_vocab(document.graph, *plan));
    before["vocab_divisor"] = after["vocab_divisor"];
    for (const char* key : unsaid) {
        const Json::json_pointer pointer(key);
        before[pointer] = after[pointer];
    }
    EXPECT_EQ(before, after) << Json::diff(before, after).dump(1) << text;
    return config;
}

PlanDocument on_row(const char* row, const char* model, const char* cluster) {
    PlanDocument document = document_of(model, cluster);
    apply_framework(framework_defaults(row), true, document.plan);
    document.plan.attention = std::min(document.plan.attention, default_attention(document.cluster));
    return document;
}

TEST(ImportConfig, MegatronComesBack) {
    PlanDocument document = on_row("megatron", "llama3-8b", "h100:64");
    ParallelPlan& plan = document.plan;
    plan.virtual_stages = 2;
    plan.schedule = "interleaved";
    plan.overlap = {true, true, true, false};
    plan.zero_stage = 1;
    set_mesh(document, {.pp = 4, .tp = 2}, 16);
    round_trip(document, TargetFramework::Megatron);

    plan.microbatch_group = 8;
    plan.rank_order = "tp-cp-ep-pp-dp";
    plan.overlap = {true, false, false, true};
    plan.zero_shard = 4;
    plan.bucket_bytes = 4 * 40e6;
    plan.dropout = true;
    plan.optimizer = OptimizerKind::SgdMomentum;
    plan.stages =
        *explicit_partition(document.graph, std::vector<int>{3, 5, 4, 4, 4, 4, 4, 4}, RecomputeMode::None);
    round_trip(document, TargetFramework::Megatron);

    document = on_row("megatron", "llama3-8b", "h100:64");
    document.plan.overlap = {false, false, false, false};
    document.plan.zero_stage = 0;
    document.plan.recompute = RecomputeMode::Full;
    set_mesh(document, {.pp = 2, .tp = 4, .cp = 2});
    for (StageSpec& stage : document.plan.stages)
        stage.recompute_layers = 3;
    round_trip(document, TargetFramework::Megatron);
    document.plan.recompute = RecomputeMode::Selective;
    document.plan.stages = uniform_partition(document.graph, 2, RecomputeMode::Selective);
    document.plan.cp_kind = WorkShape::Cp::AllToAll;
    document.plan.precision.gradient_fp32 = false;
    document.plan.precision.gradient_reduce = Precision::Bf16;
    round_trip(document, TargetFramework::Megatron);

    document = on_row("megatron", "mixtral-8x7b", "h100:64");
    document.plan.overlap = {true, true, false, false};
    document.plan.precision.optimizer_states = Precision::Bf16;
    document.plan.offload_optimizer = 0.5;
    set_mesh(document, {.pp = 2, .tp = 2, .ep = 4, .etp = 1});
    round_trip(document, TargetFramework::Megatron);

    document.plan.recompute = RecomputeMode::Modules;
    document.plan.recompute_modules = {RecomputeModule::ExpertActivation, RecomputeModule::Norm};
    set_mesh(document, {.pp = 2, .tp = 2, .ep = 4, .etp = 1});
    EXPECT_TRUE(test::has_argument(test::exported(document, TargetFramework::Megatron),
                                   "--recompute-modules moe_act layernorm"));
    round_trip(document, TargetFramework::Megatron);

    document = on_row("megatron", "llama3-8b", "h100:64");
    document.plan.overlap = {true, true, false, false};
    for (const int stage : {2, 3}) {
        document.plan.zero_stage = stage;
        set_mesh(document, {.tp = 2});
        round_trip(document, TargetFramework::Megatron);
    }
}

// The flags describe the same model, parameter by parameter.
TEST(ImportConfig, MegatronsModelsComeBack) {
    for (const char* name : {"llama3-8b", "gpt3-175b", "mixtral-8x7b", "deepseek-v3", "qwen3-8b",
                             "qwen2.5-7b", "gpt2-xl", "mistral-7b", "kimi-k2"}) {
        PlanDocument document = on_row("megatron", name, "h100:64");
        document.plan.overlap.p2p = false;
        document.plan.seq_len = 1024;
        set_mesh(document, {});
        const ImportedConfig config =
            read(TargetFramework::Megatron, exported(document, TargetFramework::Megatron));
        ASSERT_FALSE(config.model.is_null()) << name << ": " << config.model_missing;
        const auto model = load_model_text(config.model.dump(), "job");
        ASSERT_TRUE(model.has_value()) << name << ": " << to_string(model.errors());
        EXPECT_EQ(model->graph.family, document.graph.family) << name;
        EXPECT_EQ(model->graph.blocks, document.graph.blocks) << name;
        EXPECT_EQ(model->graph.vocab, document.graph.vocab) << name;
        EXPECT_EQ(model->graph.parameters(), document.graph.parameters()) << name;
    }
}

TEST(ImportConfig, DeepSpeedComesBack) {
    const std::vector<const char*> unsaid = {"/seq_len"};
    PlanDocument document = on_row("deepspeed", "llama3-8b", "a100:16");
    ParallelPlan& plan = document.plan;
    plan.cp_kind = WorkShape::Cp::AllToAll;
    for (const int stage : {0, 1, 2, 3}) {
        plan.zero_stage = stage;
        plan.overlap = {stage == 2, stage == 3, true, false};
        set_mesh(document, {});
        round_trip(document, TargetFramework::DeepSpeed, {"/seq_len", "/overlap"});
    }
    plan.zero_stage = 3;
    plan.zero_shard = 8;
    plan.bucket_bytes = 2 * 5e8;
    plan.offload_optimizer = 1;
    plan.overlap = {true, true, false, false};
    plan.optimizer = OptimizerKind::Lamb;
    round_trip(document, TargetFramework::DeepSpeed, unsaid);
    plan = on_row("deepspeed", "llama3-8b", "a100:16").plan;
    plan.cp_kind = WorkShape::Cp::AllToAll;
    plan.zero_stage = 1;
    plan.overlap = {true, false, false, false};
    plan.recompute = RecomputeMode::Full;
    plan.precision.gradient_fp32 = true;
    plan.precision.gradient_reduce = Precision::Fp32;
    set_mesh(document, {.pp = 4});
    round_trip(document, TargetFramework::DeepSpeed, unsaid);
}

TEST(ImportConfig, TorchtitanComesBack) {
    PlanDocument document = on_row("torchtitan-eager", "llama3-8b", "h100:64");
    ParallelPlan& plan = document.plan;
    plan.overlap = {true, true, false, false};
    plan.zero_stage = 3;
    set_mesh(document, {.tp = 2});
    plan.vocab_divisor = 1;
    round_trip(document, TargetFramework::Torchtitan, {"/overlap/p2p"});
    plan.zero_shard = 8;
    plan.recompute = RecomputeMode::SelectiveOps;
    set_mesh(document, {.tp = 2, .cp = 2});
    round_trip(document, TargetFramework::Torchtitan, {"/overlap/p2p"});
    plan.zero_shard = 0;
    plan.zero_stage = 2;
    plan.schedule = "interleaved";
    plan.virtual_stages = 2;
    plan.recompute = RecomputeMode::Full;
    set_mesh(document, {.pp = 4}, 8);
    round_trip(document, TargetFramework::Torchtitan, {"/overlap/p2p"});
    plan.stages =
        *explicit_partition(document.graph, std::vector<int>{5, 3, 4, 4, 4, 4, 3, 5}, plan.recompute);
    round_trip(document, TargetFramework::Torchtitan, {"/overlap/p2p"});
}

TEST(ImportConfig, NanotronComesBack) {
    if (!reads_yaml()) GTEST_SKIP() << "built without yaml-cpp";
    PlanDocument document = document_of("llama3-8b", "h100:16");
    ParallelPlan& plan = document.plan;
    plan.schedule = "gpipe";
    plan.zero_stage = 1;
    plan.overlap.tp = true;
    plan.recompute = RecomputeMode::Full;
    set_mesh(document, {.pp = 2, .tp = 4});
    plan.stages = *explicit_partition(
        document.graph, *own_split(document.graph, TargetFramework::Nanotron, 2), plan.recompute);
    round_trip(document, TargetFramework::Nanotron,
               {"/attention", "/overlap/grad_reduce", "/overlap/param_gather", "/overlap/p2p", "/precision"});
    plan.overlap.tp = false;
    plan.sequence_parallel = false;
    plan.schedule = "1f1b";
    plan.zero_stage = 0;
    round_trip(document, TargetFramework::Nanotron,
               {"/attention", "/overlap/grad_reduce", "/overlap/param_gather", "/overlap/p2p", "/precision"});
}

TEST(ImportConfig, AccelerateComesBack) {
    if (!reads_yaml()) GTEST_SKIP() << "built without yaml-cpp";
    const std::vector<const char*> unsaid = {"/seq_len",       "/microbatches", "/global_batch",
                                             "/vocab_divisor", "/overlap/p2p",  "/attention"};
    PlanDocument document = on_row("transformers", "llama3-8b", "h100:16");
    ParallelPlan& plan = document.plan;
    plan.overlap = {true, true, true, false};
    for (const int stage : {2, 3}) {
        plan.zero_stage = stage;
        set_mesh(document, {.tp = 2});
        plan.sequence_parallel = false;
        round_trip(document, TargetFramework::Accelerate, unsaid);
    }
    plan.zero_shard = 4;
    plan.recompute = RecomputeMode::Full;
    set_mesh(document, {});
    round_trip(document, TargetFramework::Accelerate, unsaid);
}

}  // namespace
}  // namespace tw
