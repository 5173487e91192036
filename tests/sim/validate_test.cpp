// Scores of predictions: arithmetic on small examples, decoding of the three shapes of measured rows, and the
// published rows where they are at hand.
#include "sim/validate/validate.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/json.hpp"
#include "plan/frameworks/framework.hpp"
#include "sim/validate/ablate_text.hpp"
#include "sim/validate/calibrate.hpp"
#include "sim/validate/validate_json.hpp"
#include "sim/validate/validate_text.hpp"
#include "tests/sim/measured_rows.hpp"

namespace tw {
namespace {

TEST(Score, ErrorsOfThreePairs) {
    const std::vector<Pair> pairs = {{1.1, 1.0}, {0.9, 1.0}, {2.4, 2.0}};
    const ErrorScore s = score_errors(pairs);
    EXPECT_EQ(s.compared, 3);
    EXPECT_NEAR(s.mape, (0.1 + 0.1 + 0.2) / 3, 1e-12);
    EXPECT_NEAR(s.bias, 0.2 / 3, 1e-12);
    EXPECT_NEAR(s.median_ape, 0.1, 1e-12);
    EXPECT_NEAR(s.p90_ape, 0.1 + 0.8 * 0.1, 1e-12);  // between the second and the third
    EXPECT_EQ(score_errors({}).compared, 0);
}

TEST(Calibrate, OneRowLeavesTheHostAsUncertainAsBefore) {
    const std::vector<double> exact = {0.0}, two = {0.3, -0.3}, many(99, 0.1);
    EXPECT_DOUBLE_EQ(factor_sigma(0.4, exact), 0.4);
    EXPECT_DOUBLE_EQ(factor_sigma(0.4, two), std::sqrt((0.16 + 0.09 + 0.09) / 2));
    EXPECT_NEAR(factor_sigma(0.4, many), 0.1, 0.01);
}

TEST(Score, KendallCountsPairsWithinGroupsOnly) {
    const std::vector<std::vector<Pair>> groups = {{{1, 1}, {2, 2}, {3, 3}}, {{2, 1}, {1, 2}}};
    EXPECT_NEAR(*kendall_tau(groups), (3.0 - 1.0) / 4.0, 1e-12);
    const std::vector<std::vector<Pair>> tied = {{{1, 5}, {2, 5}}};
    EXPECT_FALSE(kendall_tau(tied).has_value());
}

TEST(Truth, MainSchemaBecomesAPlan) {
    const auto rows = read_truth_text(kMain, "runs/small.json");
    ASSERT_TRUE(rows) << to_string(rows.errors());
    ASSERT_EQ(rows->size(), 2u);
    const TruthRow& row = rows->front();
    EXPECT_EQ(row.file, "small");
    EXPECT_DOUBLE_EQ(row.memory_bytes, 10 * 1073741824.0);
    EXPECT_EQ(row.memory_kind, MemoryKind::Allocated);
    const auto c = make_case(row);
    ASSERT_TRUE(c) << to_string(c.errors());
    EXPECT_EQ(c->plan.microbatches, 8);
    EXPECT_EQ(c->plan.recompute, RecomputeMode::Full);
    EXPECT_EQ(c->plan.precision.compute, Precision::Fp16);
    EXPECT_EQ(c->plan.framework, "megatron-2022");
    EXPECT_EQ(c->cluster.devices(), 16);
    // 4 links of 200 Gb/s, shared by the node.
    const NodeType& node = c->cluster.groups.front().type;
    EXPECT_NEAR(node.nics * node.nic_bandwidth.value, 100e9, 1);
    const auto refused = make_case((*rows)[1]);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.errors().front().message, "layers missing");
}

TEST(Truth, ThroughputAndMicrobatchesSayTimeAndBatch) {
    EXPECT_DOUBLE_EQ(row_with({{"tokens_per_s", 1}}).step_time_s, 1.0);  // what is stated wins
    Json absent = {{"iteration_time_s", nullptr}};
    EXPECT_DOUBLE_EQ(row_with(absent).step_time_s, 0);
    absent["tokens_per_s"] = 32768;
    EXPECT_DOUBLE_EQ(row_with(absent).step_time_s, 64 * 1024 / 32768.0);
    absent["tokens_per_s"] = nullptr;
    absent["tokens_per_s_per_gpu"] = 1024;
    EXPECT_DOUBLE_EQ(row_with(absent).step_time_s, 64 * 1024 / (16 * 1024.0));
    absent["samples_per_s"] = 128;
    EXPECT_DOUBLE_EQ(row_with(absent).step_time_s, 0.5);
    absent["unit"] = "layer";  // a throughput is that of iterations
    EXPECT_DOUBLE_EQ(row_with(absent).step_time_s, 0);
    const TruthRow row = row_with({{"global_batch", nullptr}, {"dp", nullptr}, {"num_microbatches", 5}});
    EXPECT_EQ(row.global_batch, 2 * 5 * 4);
    EXPECT_FALSE(row_with({{"global_batch", nullptr}, {"num_microbatches", 1e9}}).global_batch);
}

TEST(Truth, WordsOfPrecisionAndRecomputation) {
    const auto precision = [](const char* words) {
        const auto c = make_case(row_with({{"precision", words}}));
        EXPECT_TRUE(c) << to_string(c.errors());
        EXPECT_TRUE(c->assumed.empty()) << c->assumed.front();
        return c->plan.precision.compute;
    };
    EXPECT_EQ(precision("bf16 (amp)"), Precision::Bf16);
    EXPECT_EQ(precision("bfloat16"), Precision::Bf16);
    EXPECT_EQ(precision("float16"), Precision::Fp16);
    EXPECT_EQ(precision("amp"), Precision::Fp16);
    EXPECT_EQ(precision("TF32"), Precision::Tf32);
    EXPECT_EQ(precision(""), framework_defaults("megatron-2022").precision);
    const auto fp4 = make_case(row_with({{"precision", "NVFP4"}, {"hardware", {{"gpu", "GB300"}}}}));
    ASSERT_TRUE(fp4) << to_string(fp4.errors());
    EXPECT_EQ(fp4->plan.precision.compute, Precision::Nvfp4);
    EXPECT_EQ(fp4->plan.precision.parameters, Precision::Bf16);
    const auto mx = make_case(row_with({{"precision", "MXFP4"}}));
    ASSERT_FALSE(mx);
    EXPECT_EQ(mx.errors().front().message, "precision mxfp4 is not modelled");

    const auto strange = make_case(
        row_with({{"precision", "posit16"}, {"recompute", "every third"}, {"framework", "Alpa 1.0"}}));
    ASSERT_TRUE(strange);
    ASSERT_EQ(strange->assumed.size(), 3U);
    EXPECT_EQ(strange->assumed[0], "framework \"Alpa 1.0\": taken for megatron");
    EXPECT_EQ(strange->assumed[1].rfind("precision \"posit16\": ", 0), 0U) << strange->assumed[1];
    EXPECT_EQ(strange->assumed[2].rfind("recompute \"every third\": ", 0), 0U) << strange->assumed[2];
    const auto uniform = make_case(row_with({{"recompute", "uniform, 1 layer"}}));
    ASSERT_TRUE(uniform);
    EXPECT_EQ(uniform->plan.recompute, RecomputeMode::Full);
}

TEST(Truth, WordsOfShardingAndUnits) {
    const auto stage = [](const char* words) {
        const auto c = make_case(row_with({{"fsdp", words}}));
        EXPECT_TRUE(c) << to_string(c.errors());
        EXPECT_TRUE(c->assumed.empty()) << c->assumed.front();
        return c->plan.zero_stage;
    };
    const int own = framework_defaults("megatron-2022").zero_stage;
    EXPECT_EQ(stage("full"), 3);
    EXPECT_EQ(stage("FSDP shard group 2"), 3);
    EXPECT_EQ(stage("no (DDP / distributed optimizer)"), own);
    EXPECT_EQ(stage("none"), own);
    const auto strange = make_case(row_with({{"fsdp", "nonsense"}}));
    ASSERT_TRUE(strange);
    ASSERT_EQ(strange->assumed.size(), 1U);
    EXPECT_EQ(strange->assumed.front().rfind("fsdp \"nonsense\": ZeRO 0", 0), 0U) << strange->assumed.front();
}

// What cannot be read is named by its key.
TEST(Truth, UnreadableFieldsAreNamed) {
    const auto reason = [](const Json& changes) {
        Json document = Json::array({Json::parse(kMain)[0]});
        document[0].merge_patch(changes);
        const auto path =
            std::filesystem::temp_directory_path() / ("tw_rows_" + std::to_string(::getpid()) + ".json");
        EXPECT_TRUE(write_text_file(path.string(), document.dump()));
        const auto report = validate({path.string()}, false);
        std::filesystem::remove(path);
        return report.rows.front().reason;
    };
    EXPECT_EQ(reason({{"unit", "layerr"}}), "unit: unknown unit 'layerr'");
    EXPECT_EQ(reason({{"hardware", {{"gpus_per_node", 0}}}}),
              "hardware/gpus_per_node: a node has at least 1 GPU");
    EXPECT_EQ(reason({{"model", {{"hidden", -5}}}}).rfind("model/hidden: -5 is outside ", 0), 0U);
    EXPECT_EQ(reason({{"model", {{"layers", 1.5}}}}), "model/layers: expected a whole number");
}

TEST(Truth, MixturesBringTheirWidthsOrAreKnownByName) {
    Json model = {{"name", "a mixture"}, {"family", "moe"}, {"layers", 8},   {"hidden", 1024}, {"heads", 16},
                  {"kv_heads", 4},       {"ffn", 512},      {"experts", 16}, {"topk", 2}};
    const auto own = make_case(row_with({{"model", model}}));
    ASSERT_TRUE(own) << to_string(own.errors());
    EXPECT_EQ(own->graph.experts, 16);
    // Three products of width 512 an expert.
    const std::int64_t experts = 8 * 16 * 3 * 1024 * 512;
    EXPECT_GT(own->graph.parameters(), experts);
    EXPECT_LT(own->graph.active_parameters(), own->graph.parameters() - experts / 16 * 13);
    model["topk"] = nullptr;
    const auto vague = make_case(row_with({{"model", model}}));
    ASSERT_FALSE(vague);
    EXPECT_EQ(vague.errors().front().message, "experts of a token missing");

    const auto named = [](const char* name, const char* family, Json sizes) {
        sizes.update({{"name", name}, {"family", family}});
        sizes.emplace("heads", nullptr);
        sizes.emplace("hidden", nullptr);
        sizes.emplace("vocab", nullptr);
        auto c = make_case(row_with({{"model", sizes}, {"precision", "bf16"}}));
        EXPECT_TRUE(c) << to_string(c.errors());
        return std::move(c->graph);
    };
    EXPECT_EQ(named("Mixtral-8x7B v0.1", "moe", {{"layers", 32}, {"experts", 8}}).parameters(),
              46'702'792'704);
    EXPECT_EQ(named("Nemotron-4 340B", "nemotron-dense", {{"layers", 96}}).parameters(), 341'029'195'776);
    EXPECT_EQ(named("Nemotron4_15B", "nemotron-dense", {{"layers", 2}}).blocks, 2);
    const LayerGraph mtp = named("DeepSeekV3 (w/ MTP)", "moe-mla", {{"layers", 4}, {"experts", 256}});
    const LayerGraph plain = named("DeepSeekV3 (w/o MTP)", "moe-mla", {{"layers", 4}, {"experts", 256}});
    EXPECT_GT(mtp.parameters(), plain.parameters());
}

TEST(Truth, FunctionalTestsAndSingleDevices) {
    const auto functional = read_truth_text(
        R"([{"test": "gpt__gpt3_mcore_te_tp1_pp4_vp1", "golden": "golden_values_dev_dgx_a100.json", "median_iter_s": 0.2,
             "max_mem_bytes": 2e9, "args": {"num-layers": 12, "hidden-size": 512, "num-attention-heads": 8,
             "micro-batch-size": 4, "global-batch-size": 32, "seq-length": 1024, "tensor-model-parallel-size": 1,
             "pipeline-model-parallel-size": 4, "num-layers-per-virtual-pipeline-stage": 1, "bf16": true}}])",
        "f.json");
    ASSERT_TRUE(functional) << to_string(functional.errors());
    const auto c = make_case(functional->front());
    ASSERT_TRUE(c) << to_string(c.errors());
    EXPECT_EQ(c->plan.virtual_stages, 3);
    EXPECT_EQ(c->plan.mesh.dp, 2);
    EXPECT_EQ(c->plan.schedule, "interleaved");
    EXPECT_EQ(c->plan.attention, AttentionKernel::Unfused);

    const auto single = read_truth_text(
        R"([{"model": "tiny", "layers": 2, "hidden": 256, "heads": 8, "kv_heads": 8, "ffn": 1024, "vocab": 1000, "llama": 0,
             "micro_batch": 8, "seq_len": 128, "accumulation": 4, "mode": "eager", "recompute": "none",
             "precision": "bf16_autocast", "step_s": 0.01, "max_allocated": 1e8, "hardware": "1x H200"}])",
        "s.json");
    ASSERT_TRUE(single) << to_string(single.errors());
    const auto s = make_case(single->front());
    ASSERT_TRUE(s) << to_string(s.errors());
    EXPECT_EQ(s->plan.framework, "pytorch");
    EXPECT_TRUE(s->plan.precision.autocast);
    EXPECT_EQ(s->plan.microbatches, 4);
}

TEST(Truth, UnreadableDocumentsAreRefused) {
    EXPECT_FALSE(read_truth_text("{}", "x.json"));
    EXPECT_FALSE(read_truth_text(R"([{"who": 1}])", "x.json"));
    EXPECT_FALSE(read_truth_text("[1]", "x.json"));
    // Beside known rows, unknown ones are listed with the reason; a row without an id has its place.
    const auto mixed =
        read_truth_text(R"([{"who": 1}, 7, {"hardware": {"gpu": "H100"}, "model": {}}])", "x.json");
    ASSERT_TRUE(mixed);
    ASSERT_EQ(mixed->size(), 3U);
    EXPECT_EQ((*mixed)[0].errors.front().message, "no shape of measured row that is known");
    EXPECT_FALSE((*mixed)[1].errors.empty());
    EXPECT_TRUE((*mixed)[2].errors.empty());
    EXPECT_EQ((*mixed)[2].id, "#2");
    const auto wrong =
        read_truth_text(R"([{"id": "a", "hardware": {"gpu": 7}, "model": {"layers": 1.5}}])", "x.json");
    ASSERT_TRUE(wrong);
    EXPECT_FALSE(wrong->front().errors.empty());
    EXPECT_FALSE(make_case(wrong->front()));
}

TEST(Truth, NamesOfDevicesTellTheirMemory) {
    TruthRow row;
    const auto device = [&](const char* gpu) {
        row.gpu = gpu;
        return cluster_of(row, 8).value().groups.front().device.name;
    };
    EXPECT_EQ(device("A100-40"), "a100-40");
    EXPECT_EQ(device("A100-SXM4-40GB"), "a100-40");
    EXPECT_EQ(device("A100"), "a100");
    EXPECT_EQ(device("V100-SXM2-16GB"), "v100-16");
    EXPECT_EQ(device("NVIDIA H100 80GB HBM3"), "h100");
}

// The row's microbatches are small enough for its host to set the pace; eight times larger ones are not.
std::string with_large_microbatches() {
    std::string rows = kMain;
    const std::string small = "\"micro_batch\": 2.0, \"global_batch\": 64";
    return rows.replace(rows.find(small), small.size(), "\"micro_batch\": 16.0, \"global_batch\": 512");
}

TEST(Ablate, WhatTheHostDoesBesideLayersTakesTime) {
    const std::string path = testing::TempDir() + "ablated_host.json";
    std::ofstream(path) << kMain;
    const auto report = validate({path}, false);
    ASSERT_TRUE(report.unread.empty()) << to_string(report.unread);
    const AblationReport ablation = ablate(report);
    int seen = 0;
    for (const AblationResult& result : ablation.results) {
        if (result.name != "the host beside layers") continue;
        ++seen;
        EXPECT_LT(result.sources.front().time.bias, ablation.base.front().time.bias);
    }
    EXPECT_EQ(seen, 1);
}

TEST(Ablate, EachSwitchMovesWhatItNames) {
    const std::string path = testing::TempDir() + "ablated_runs.json";
    std::ofstream(path) << with_large_microbatches();
    const auto report = validate({path}, false);
    ASSERT_TRUE(report.unread.empty()) << to_string(report.unread);
    const std::size_t known = frameworks().size();
    const AblationReport ablation = ablate(report);
    EXPECT_EQ(frameworks().size(), known);  // variants are not listed
    ASSERT_EQ(ablation.base.size(), 1u);
    const double base = ablation.base.front().time.bias;
    const auto bias_without = [&](std::string_view name) {
        for (const AblationResult& result : ablation.results) {
            if (result.name == name) return result.sources.front().time.bias;
        }
        ADD_FAILURE() << "no ablation " << name;
        return 0.0;
    };
    // Megatron of 2022 with tp 2, pp 2, dp 4: less to do, less time; what the row does not use moves nothing.
    for (const char* less :
         {"dropout", "attention kernel", "memory-bound kernels", "softmax and dropout", "pipeline bubble",
          "tensor- and context-parallel communication", "data-parallel communication", "pipeline transfers"})
        EXPECT_LT(bias_without(less), base) << less;
    EXPECT_GT(bias_without("fused element-wise kernels"), base);
    for (const char* same : {"compiled", "expert-parallel communication", "ZeRO stage"})
        EXPECT_EQ(bias_without(same), base) << same;
    EXPECT_NE(ablation_page(ablation).find("| pipeline bubble | none |"), std::string::npos);
    const Json json = ablation_to_json(ablation);
    EXPECT_EQ(json["ablations"].size(), ablation.results.size());
    EXPECT_EQ(json["base"][0]["time_bias"], base);
    EXPECT_TRUE(json["ablations"][0]["sources"][0]["memory_mape"].is_number());
}

TEST(Validate, PublishedRows) {
    const std::string folder = TW_SOURCE_DIR "/../shared/truth/";
    if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no measured training runs at " << folder;
    const auto report = validate({folder + "korthikanti_mtnlg.json", folder + "h200_single.json"}, false);
    ASSERT_TRUE(report.unread.empty()) << to_string(report.unread);
    ASSERT_EQ(report.sources.size(), 2u);
    const SourceScore& kor = report.sources[0];
    EXPECT_EQ(kor.rows, 26);
    EXPECT_EQ(kor.compared, 17);
    EXPECT_LT(kor.time_blind.median_ape, 0.05);
    EXPECT_EQ(kor.memory.compared, 0);  // analytic figures are not measurements
    // Eager PyTorch under autocast: the ledger's addends are those of the allocator.
    for (const ValidationRow& row : report.rows) {
        const bool exact = row.framework == "pytorch" && row.truth.recompute == "none" &&
                           row.truth.model.document.empty() && !row.truth.model.family.empty();
        if (!exact || !row.has_memory()) continue;
        EXPECT_NEAR(row.blind.memory_bytes / row.truth.memory_bytes, 1.0, 0.01) << row.truth.id;
    }
    const Json json = validation_to_json(report);
    EXPECT_EQ(json["sources"][0]["file"], "korthikanti_mtnlg");
    EXPECT_TRUE(json["sources"][0]["memory"]["mape"].is_null());
    EXPECT_EQ(json["rows"].size(), report.rows.size());
    EXPECT_NE(scatter_svg(report).find("h200_single"), std::string::npos);
    EXPECT_NE(accuracy_page(report).find("| korthikanti_mtnlg"), std::string::npos);
    EXPECT_EQ(validation_table(report).rows(), 2u);
}

}  // namespace
}  // namespace tw
