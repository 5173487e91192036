// `trainwright check` and `inspect` on configurations of other frameworks.
#include "cli/check_config.hpp"

#include <filesystem>
#include <map>

#include <gtest/gtest.h>

#include "cli/own_documents.hpp"
#include "plan/frameworks/import/foreign_table.hpp"
#include "plan/plan_json.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tw::cli {
namespace {

constexpr std::string_view kMegatron =
    "torchrun --nnodes 2 --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 "
    "--ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention --num-query-groups 8 "
    "--vocab-size 128256 --normalization RMSNorm --swiglu --disable-bias-linear --position-embedding-type "
    "rope "
    "--untie-embeddings-and-output-weights --seq-length 4096 --micro-batch-size 1 --global-batch-size 64 "
    "--bf16 "
    "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel "
    "--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather "
    "--hidden-dropout 0 --attention-dropout 0";
constexpr std::string_view kDeepSpeed =
    R"({"train_batch_size": 100, "train_micro_batch_size_per_gpu": 3, "zero_optimization": {"stage": 1}})";

struct Answer {
    int code = 0;
    std::string out, err;
};

Answer checked(std::string_view text, CheckConfigOptions options, bool json = false) {
    const ConfigReader* reader = find_config_reader(text, options.path);
    if (reader == nullptr) {
        ADD_FAILURE() << "no reader";
        return {};
    }
    Console console;
    console.json = json;
    console.colour = ColourMode::Never;
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    Answer answer;
    answer.code = check_config(*reader, text, options, console);
    answer.out = testing::internal::GetCapturedStdout();
    answer.err = testing::internal::GetCapturedStderr();
    return answer;
}

TEST(CheckConfig, SaysWhatItReadAndWhatIsMissing) {
    const Answer answer = checked(kMegatron, {"run.sh", "", "", "", ""});
    EXPECT_EQ(answer.code, 0) << answer.err;
    EXPECT_NE(answer.out.find("--tensor-model-parallel-size"), std::string::npos);
    EXPECT_NE(answer.out.find("run tp2 sp pp2 dp4 mbs1 1f1b zero1: legal for megatron"), std::string::npos)
        << answer.out;
    EXPECT_NE(answer.err.find("--cluster CLUSTER: memory and time are not known"), std::string::npos);
    EXPECT_EQ(answer.err.find("--model MODEL"), std::string::npos) << "the flags describe it";
}

TEST(CheckConfig, KnowsNoDegreeThatNothingSays) {
    const std::string flags = "--num-layers 8 --tensor-model-parallel-size 2 --micro-batch-size 4 --bf16";
    const Answer answer = checked(flags, {"flags.txt", "", "llama3-8b", "", ""});
    EXPECT_EQ(answer.code, 0) << answer.err;
    EXPECT_NE(answer.out.find("llama3-8b tp2 pp1 mbs4: legal for megatron"), std::string::npos) << answer.out;
    EXPECT_NE(answer.err.find("nor how many devices there are"), std::string::npos);
}

TEST(CheckConfig, EstimatesMemoryAndKeepsThePlan) {
    const TemporaryFolder folder;
    const std::string output = (folder.path() / "plan.json").string();
    const Answer answer = checked(kMegatron, {"run.sh", "", "", "h100:16", output});
    EXPECT_EQ(answer.code, 0) << answer.err;
    EXPECT_NE(answer.out.find("peak memory"), std::string::npos) << answer.out;
    EXPECT_NE(answer.out.find("optimizer states"), std::string::npos) << answer.out;
    const auto plan = read_plan_document(output);
    ASSERT_TRUE(plan.has_value()) << to_string(plan.errors());
    EXPECT_EQ(plan->plan.mesh.dp, 4);
    EXPECT_EQ(plan->plan.microbatches, 16);
    EXPECT_EQ(plan->plan.framework, "megatron");
    const auto summary = describe_text(kMegatron, "run.sh");
    ASSERT_TRUE(summary.has_value()) << to_string(summary.errors());
    EXPECT_EQ(summary->kind, "Megatron-LM arguments");
    EXPECT_EQ(summary->title, "tp2 sp pp2 mbs1 zero1, 64 sequences a step, 16 devices");

    // A plan document needs both.
    const Answer half = checked(kMegatron, {"run.sh", "", "", "", output});
    EXPECT_EQ(half.code, 2);
    EXPECT_NE(half.err.find("--output"), std::string::npos);
}

TEST(CheckConfig, IllegalInTheFrameworksOwnKeys) {
    const Answer answer = checked(kDeepSpeed, {"ds.json", "", "llama3-8b", "a100:16", ""});
    EXPECT_EQ(answer.code, 5);
    EXPECT_NE(
        answer.err.find("ds.json: train_batch_size: global batch 100 is not a multiple of mbs 3 * dp 16"),
        std::string::npos)
        << answer.err;
    const Answer json = checked(kDeepSpeed, {"ds.json", "", "llama3-8b", "a100:16", ""}, true);
    EXPECT_EQ(json.code, 5);
    const auto document = parse_json(json.out, "answer");
    ASSERT_TRUE(document.has_value());
    EXPECT_FALSE((*document)["legal"].get<bool>());
    EXPECT_EQ((*document)["framework"], "deepspeed");
    EXPECT_EQ((*document)["settings"][0]["key"], "train_batch_size");

    // The rules of another framework, in its keys.
    const Answer other = checked(kMegatron, {"run.sh", "nanotron", "", "", ""});
    EXPECT_EQ(other.code, 5);
    EXPECT_NE(other.err.find("run.sh: parallelism.pp: nanotron splits the blocks itself, not as 16,16"),
              std::string::npos)
        << other.err;
}

// Every launch file of the collection is read or refused with its reason, and none of another kind is taken.
TEST(CheckConfig, CollectedLaunchFiles) {
    const std::filesystem::path folder =
        std::filesystem::path(TW_SOURCE_DIR).parent_path() / "shared/inputs/launch";
    if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "the collection is not here";
    const std::map<std::string, std::string> kinds = {{"nanotron", "nanotron config"},
                                                      {"torchtitan", "torchtitan config"},
                                                      {"megatron", "Megatron-LM arguments"},
                                                      {"deepspeed", "DeepSpeed config"}};
    int read = 0, all = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
        if (!entry.is_regular_file()) continue;
        ++all;
        const auto summary = describe_file(entry.path().string());
        if (!summary) continue;
        ++read;
        const std::string family = entry.path().parent_path().filename().string();
        const auto found = kinds.find(family);
        if (found != kinds.end()) {
            EXPECT_EQ(summary->kind, found->second) << entry.path();
        }
    }
    EXPECT_EQ(all, 247);
    const bool yaml = parse_yaml("a: 1", "probe").has_value();
    EXPECT_EQ(read, yaml ? 153 : 104);
}

}  // namespace
}  // namespace tw::cli
