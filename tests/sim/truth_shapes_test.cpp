// Documents of measured rows: functional tests, runs of one device, files that cannot be read.
#include <algorithm>
#include <filesystem>

#include "sim/validate/validate.hpp"
#include "sim/validate/validate_json.hpp"
#include "tests/sim/measured_rows.hpp"

namespace tw {
namespace {

TruthRow functional(const char* test, const char* golden, const Json& args) {
    Json row = Json::parse(
        R"({"median_iter_s": 0.2, "args": {"num-layers": 12, "hidden-size": 512, "num-attention-heads": 8,
            "micro-batch-size": 4, "global-batch-size": 32, "seq-length": 1024, "tensor-model-parallel-size": 1,
            "pipeline-model-parallel-size": 4, "bf16": true}})");
    row["test"] = test;
    row["golden"] = golden;
    if (!args.is_null()) row["args"].merge_patch(args);
    const auto rows = read_truth_text(Json::array({row}).dump(), "f.json");
    EXPECT_TRUE(rows) << to_string(rows.errors());
    return rows->front();
}

TEST(TruthFunctional, DevicesInNamesOfGoldens) {
    const auto gpu = [](const char* golden) { return functional("gpt__a", golden, {}).gpu; };
    EXPECT_EQ(gpu("golden_values_dev_dgx_h100.json"), "h100");
    EXPECT_EQ(gpu("golden_values_dev_dgxh100_coreweave.json"), "h100");
    EXPECT_EQ(gpu("golden_values_dev_dgx_h100_2nd.json"), "h100");
    const TruthRow nodes = functional("gpt__a", "golden_values_lts_dgx_a100_2N8G.json", {});
    EXPECT_EQ(nodes.gpu, "a100");
    EXPECT_EQ(nodes.gpus, 16);
    EXPECT_EQ(nodes.id, "gpt__a@lts_dgx_a100_2N8G");
    EXPECT_EQ(functional("gpt__a", "golden_values_dev_dgx_h100.json", {}).id, "gpt__a@h100");
}

TEST(TruthFunctional, FlagsThatChangeWork) {
    constexpr const char* kGolden = "golden_values_dev_dgx_h100.json";
    const auto made = [&](const Json& args) {
        auto c = make_case(functional("gpt__a", kGolden, args));
        EXPECT_TRUE(c) << args.dump() << ": " << to_string(c.errors());
        return std::move(*c);
    };
    const LayerGraph base = made({}).graph;
    EXPECT_LT(made({{"num-query-groups", 2}}).graph.parameters(), base.parameters());
    EXPECT_GT(made({{"swiglu", true}}).graph.parameters(), base.parameters());
    EXPECT_GT(made({{"ffn-hidden-size", 4096}}).graph.parameters(), base.parameters());
    EXPECT_GT(made({{"untie-embeddings-and-output-weights", true}}).graph.parameters(), base.parameters());
    EXPECT_EQ(made({{"fp8-format", "hybrid"}}).plan.precision.compute, Precision::Fp8);
    EXPECT_EQ(made({{"use-torch-fsdp2", true}, {"pipeline-model-parallel-size", 1}}).plan.zero_stage, 3);
    const Json own = {{"use-custom-fsdp", true},
                      {"data-parallel-sharding-strategy", "optim_grads"},
                      {"pipeline-model-parallel-size", 1}};
    EXPECT_EQ(made(own).plan.zero_stage, 2);
    EXPECT_EQ(made({{"num-virtual-stages-per-pipeline-rank", 3}}).plan.virtual_stages, 3);
    const Json instances = {{"use-distributed-optimizer", true},
                            {"num-distributed-optimizer-instances", 2},
                            {"pipeline-model-parallel-size", 1}};
    EXPECT_EQ(made(instances).plan.zero_shard, 4);
    const Json block = {
        {"recompute-granularity", "full"}, {"recompute-method", "block"}, {"recompute-num-layers", 2}};
    EXPECT_EQ(made(block).plan.stages.front().recompute_layers, 2);
    for (const Json& list : {Json("mlp core_attn"), Json::array({"mlp", "core_attn"})}) {
        const Json modules = {{"recompute-granularity", "selective"}, {"recompute-modules", list}};
        EXPECT_EQ(to_string(made(modules).plan.recompute_modules), "core_attn+mlp");
    }
    EXPECT_EQ(made({{"mtp-num-layers", 1}}).assumed.front(), "args not read: mtp-num-layers");
    const auto uneven =
        make_case(functional("gpt__a", kGolden, {{"num-layers-per-virtual-pipeline-stage", 8}}));
    ASSERT_FALSE(uneven);
    EXPECT_EQ(uneven.errors().front().message, "12 layers are no whole stages of 8 on 4 ranks");
}

TEST(TruthFunctional, KindsOfModels) {
    constexpr const char* kGolden = "golden_values_dev_dgx_h100.json";
    for (const char* kind : {"t5", "mamba", "hybrid", "multimodal-llava"}) {
        const auto made = make_case(functional((std::string(kind) + "__a").c_str(), kGolden, {}));
        ASSERT_FALSE(made) << kind;
        EXPECT_EQ(made.errors().front().message, std::string("no family for ") + kind);
    }
    EXPECT_FALSE(make_case(functional("moe__a", kGolden, {})));
    const Json experts = {{"num-experts", 8}, {"moe-router-topk", 2}, {"expert-model-parallel-size", 2}};
    const auto mixture = make_case(functional("moe__a", kGolden, experts));
    ASSERT_TRUE(mixture) << to_string(mixture.errors());
    EXPECT_EQ(mixture->graph.experts, 8);
    EXPECT_EQ(mixture->plan.mesh.ep, 2);
    // Experts of a GPT: two products and two biases each, as wide as its MLP.
    const auto plain = make_case(functional("gpt__a", kGolden, {}));
    ASSERT_TRUE(plain);
    const std::int64_t mlp = 2 * 512 * 2048;
    EXPECT_GT(mixture->graph.parameters(), plain->graph.parameters() + 12 * 7 * mlp);
    EXPECT_LT(mixture->graph.parameters(), plain->graph.parameters() + 12 * 8 * mlp);
}

TruthRow single(const Json& changes) {
    Json row = Json::parse(
        R"({"model": "tiny", "layers": 2, "hidden": 256, "heads": 8, "ffn": 1024, "vocab": 1000, "micro_batch": 8,
            "seq_len": 128, "mode": "eager", "precision": "bf16_autocast", "step_s": 0.01, "hardware": "1x H200"})");
    for (const auto& [key, value] : changes.items())
        row[key] = value;
    const auto rows = read_truth_text(Json::array({row}).dump(), "s.json");
    EXPECT_TRUE(rows) << to_string(rows.errors());
    return rows->front();
}

TEST(TruthSingle, DevicesAndStatus) {
    const auto device = [](const char* words) {
        const auto made = make_case(single({{"hardware", words}}));
        return made ? made->cluster.groups.front().device.name : made.errors().front().message;
    };
    EXPECT_EQ(device("1x H200 141GB, torch 2.11.0"), "h200");
    EXPECT_EQ(device("1x RTX 4090 24GB"), "rtx4090");
    EXPECT_EQ(device("1x L40S"), "l40s");
    EXPECT_EQ(device("A100-SXM4-40GB"), "a100-40");
    EXPECT_EQ(device("1 x H100 PCIe, torch 2.4"), "h100-pcie");
    EXPECT_EQ(device("GB200"), "gb200");
    EXPECT_EQ(device("1x Gaudi2"), "GPU gaudi2 is not known");
    EXPECT_EQ(device("8x H100"), "no run of one device");
    EXPECT_EQ(single({{"hardware", nullptr}}).assumed.front(), "hardware: 1x h200");
    EXPECT_EQ(single({{"status", "out_of_memory"}, {"step_s", nullptr}}).status, TruthStatus::OutOfMemory);
    EXPECT_TRUE(single({{"step_s", nullptr}}).errors.empty());
}

TEST(TruthSingle, WordsOfModesAndWhatIsNotRead) {
    for (const char* mode : {"compile", "Compile", "compiled", "torch.compile", "max-autotune"})
        EXPECT_TRUE(single({{"mode", mode}}).compile) << mode;
    EXPECT_FALSE(single({{"mode", "Eager"}}).compile);
    EXPECT_EQ(single({{"mode", "cudagraph"}}).assumed.front(), "mode \"cudagraph\": eager");
    EXPECT_EQ(single({{"precision", "BF16 params"}}).precision, "bf16_params");
    EXPECT_EQ(single({{"precision", "bf16"}}).assumed.front(),
              "precision \"bf16\": autocast over fp32 parameters");
    EXPECT_EQ(single({{"recompute", "Full"}}).recompute, "full");
    EXPECT_EQ(single({{"attention", "eager"}}).flash_attention, false);
    EXPECT_EQ(single({{"attention", "xformers"}}).assumed.size(), 1U);
    EXPECT_EQ(single({{"optimizer", "SGD"}}).assumed.front(), "optimizer \"sgd\": adamw");
    EXPECT_EQ(single({{"image", 448}}).assumed.front(), "image \"448\": 224");
    EXPECT_TRUE(single({{"image", 224}, {"layout", "channels_last"}}).assumed.empty());
    const auto made = make_case(single({{"model", nullptr}, {"name", "vit_b_16"}}));
    ASSERT_TRUE(made) << to_string(made.errors());
}

TEST(TruthDocuments, RowsInAnObjectAndPythonsNumbers) {
    const auto held = read_truth_text(std::string(R"({"rows": )") + kMain + "}", "x.json");
    ASSERT_TRUE(held) << to_string(held.errors());
    EXPECT_EQ(held->size(), 2U);
    const auto numbers = read_truth_text(
        R"([{"id": "a NaN", "hardware": {"gpu": "H100", "gpu_mem_gb": NaN}, "iteration_time_s": -Infinity}])",
        "x.json");
    ASSERT_TRUE(numbers) << to_string(numbers.errors());
    EXPECT_EQ(numbers->front().id, "a NaN");
    EXPECT_EQ(numbers->front().gpu_mem_gb, 0);
    EXPECT_TRUE(numbers->front().errors.empty());
    EXPECT_EQ(refusal_of({{"hardware", nullptr}}), "GPU missing");
}

std::string written(const std::filesystem::path& path, const std::string& text) {
    std::filesystem::create_directories(path.parent_path());
    EXPECT_TRUE(write_text_file(path, text));
    return path.string();
}

TEST(Validate, EachDocumentIsASourceAndBadOnesAreListed) {
    const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "measured_sources";
    const std::string first = written(folder / "a" / "rows.json", kMain);
    const std::string second = written(folder / "b" / "rows.json", kMain);
    const std::string bad = written(folder / "bad.json", "[1");
    const ValidationReport report =
        validate({first, bad, second, first, (folder / "none.json").string()}, false);
    ASSERT_EQ(report.sources.size(), 2U);
    EXPECT_EQ(report.sources[0].file, "a/rows");
    EXPECT_EQ(report.sources[1].file, "b/rows");
    for (const SourceScore& source : report.sources) {
        EXPECT_EQ(source.rows, 2);
        EXPECT_EQ(source.compared, 1);
    }
    EXPECT_EQ(report.unread.size(), 2U);
    EXPECT_EQ(validation_to_json(report)["unread"].size(), 2U);
    std::filesystem::remove_all(folder);
}

TEST(Validate, MemoryBeyondTheDeviceIsNotScored) {
    Json row = Json::parse(kMain)[0];
    row["memory_gb"] = 95;
    const std::string path = written(std::filesystem::path(testing::TempDir()) / "beyond" / "rows.json",
                                     Json::array({row}).dump());
    const ValidationReport report = validate({path}, false);
    EXPECT_FALSE(report.rows.front().has_memory());
    EXPECT_EQ(report.rows.front().assumed.back(), "memory of 102.0 GB: more than the device has, left out");
    std::filesystem::remove_all(std::filesystem::path(path).parent_path());
}

// Eight rows of one group, launch-bound: a twentieth is one row, and the group does not fit.
TEST(Validate, AtMostATwentiethCalibrates) {
    Json rows = Json::array();
    for (int i = 0; i < 8; ++i) {
        Json row = Json::parse(kMain)[0];
        row.merge_patch({{"id", std::to_string(i)}, {"micro_batch", 1}, {"global_batch", 16 * (i + 1)}});
        row["model"].merge_patch({{"hidden", 256}, {"heads", 4}});
        rows.push_back(row);
    }
    const std::string path =
        written(std::filesystem::path(testing::TempDir()) / "one_group" / "rows.json", rows.dump());
    const ValidationReport report = validate({path});
    const auto calibrates = [](const ValidationRow& row) { return row.calibrates; };
    EXPECT_EQ(std::count_if(report.rows.begin(), report.rows.end(), calibrates), 1);
    ASSERT_EQ(report.calibrations.size(), 1U);
    EXPECT_EQ(report.calibrations.front().rows.size(), 1U);
    EXPECT_EQ(report.sources.front().time.compared, 7);
    EXPECT_EQ(report.sources.front().time_blind.compared, 8);
    std::filesystem::remove_all(std::filesystem::path(path).parent_path());
}

}  // namespace
}  // namespace tw
