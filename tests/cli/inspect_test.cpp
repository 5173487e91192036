// `trainwright inspect` on what the project's own writers leave behind.
#include <cstring>
#include <fstream>
#include <numeric>

#include <gtest/gtest.h>

#include "cli/own_documents.hpp"
#include "cli/run_documents_json.hpp"
#include "models/hardware/cluster_table.hpp"
#include "plan/stage_partition.hpp"
#include "real_exec/checkpoint/checkpoint.hpp"
#include "real_exec/checkpoint/safetensors.hpp"
#include "real_exec/launch/launch_file.hpp"
#include "real_exec/runtime/metrics.hpp"
#include "real_exec/runtime/rank_log.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tw::cli {
namespace {

namespace fs = std::filesystem;

std::string write(const fs::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
}

DocumentSummary described(const std::string& path) {
    const auto summary = describe_file(path);
    if (!summary) {
        ADD_FAILURE() << to_string(summary.errors());
        return {};
    }
    return *summary;
}

std::string fact(const DocumentSummary& summary, const std::string& name) {
    for (const auto& [key, value] : summary.facts) {
        if (key == name) return value;
    }
    return "(none)";
}

// Of a tensor: 1.5F ends with 0x3f.
void flip_last_byte(const fs::path& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x01');
}

StepResult step(std::int64_t number, double loss) {
    StepResult s;
    s.step = number;
    s.loss = loss;
    s.step_time_s = 0.25;
    s.tokens_per_s = 1000;
    return s;
}

TEST(Inspect, Weights) {
    const TemporaryFolder folder;
    std::vector<float> values(12);
    std::iota(values.begin(), values.end(), 0.0F);
    const auto bytes = std::as_bytes(std::span(values));
    const std::string path = (folder.path() / "model.safetensors").string();
    ASSERT_TRUE(
        write_safetensors(path,
                          std::vector<SafetensorsSource>{{"model.layers.0.w", DType::F32, {3, 4}, bytes},
                                                         {"model.layers.1.w", DType::F32, {3, 4}, bytes},
                                                         {"model.layers.2.w", DType::F32, {12}, bytes},
                                                         {"norm.weight", DType::BF16, {4}, bytes.first(8)}},
                          {{"format", "pt"}}));
    const DocumentSummary summary = described(path);
    EXPECT_EQ(summary.kind, "safetensors weights");
    EXPECT_EQ(fact(summary, "tensors"), "4");
    EXPECT_EQ(fact(summary, "parameters"), "40");
    EXPECT_EQ(fact(summary, "types"), "4 BF16, 36 F32");
    EXPECT_EQ(fact(summary, "metadata format"), "pt");
    EXPECT_EQ(fact(summary, "model.layers.*.w"), "F32 [3, 4], 2 of them");
    EXPECT_EQ(fact(summary, "model.layers.2.w"), "F32 [12]");
    EXPECT_EQ(fact(summary, "norm.weight"), "BF16 [4]");
    // By its head, whatever it is called; a text is not taken for one; a broken head is named.
    fs::copy_file(path, folder.path() / "weights.bin");
    EXPECT_TRUE(is_safetensors_file(folder.path() / "weights.bin"));
    EXPECT_FALSE(is_safetensors_file(write(folder.path() / "a.json", "{\"schema\": \"trainwright/plan\"}")));
    const auto broken = describe_file(write(folder.path() / "b.safetensors", "too short"));
    ASSERT_FALSE(broken);
    EXPECT_EQ(exit_code(broken.errors()), 5);
}

TEST(Inspect, MetricsAndReports) {
    const TemporaryFolder folder;
    // Restarted after step 1: its number comes twice. The last line is cut off.
    const std::string lines = step_to_json_line(step(0, 5.5)) + step_to_json_line(step(1, 5.0)) +
                              step_to_json_line(step(1, 5.0)) + step_to_json_line(step(2, 4.25));
    const DocumentSummary metrics =
        described(write(folder.path() / "metrics.jsonl", lines + "{\"step\":3,\"lo"));
    EXPECT_EQ(metrics.kind, "trainwright metrics");
    EXPECT_EQ(metrics.title, "4 steps, loss 5.50000 to 4.25000");
    EXPECT_EQ(fact(metrics, "steps"), "0 to 2");
    EXPECT_EQ(fact(metrics, "restarts"), "1: step numbers go back");
    EXPECT_EQ(metrics.warnings, std::vector<std::string>{"line 5 is cut off"});
    const auto wrong = describe_file(
        write(folder.path() / "wrong.jsonl", "{\"step\":1,\"loss\":2,\"step_time_s\":3}\nno\n" + lines));
    ASSERT_FALSE(wrong);
    EXPECT_NE(to_string(wrong.errors()).find(":2"), std::string::npos) << to_string(wrong.errors());

    const DocumentSummary gauges = described(write(
        folder.path() / "metrics.prom", prometheus_text(step(9, 3.5), "{model=\"gpt2\",plan=\"tp1, pp2\"}")));
    EXPECT_EQ(gauges.kind, "trainwright metrics for Prometheus");
    EXPECT_EQ(gauges.title, "8 figures after 10 steps");  // no norm is known
    EXPECT_EQ(fact(gauges, "trainwright_loss"), "3.5");
    EXPECT_EQ(fact(gauges, "labels"), "model=\"gpt2\",plan=\"tp1, pp2\"");

    TrainResult result;
    result.backend = "cpu: test";
    result.steps = {step(0, 5.5), step(1, 5.0)};
    result.ranks.resize(2);
    result.ranks[1].peak_allocated_bytes = 1 << 20;
    result.notes = {"rank 1 holds the others up"};
    Json report = {{"schema", "trainwright/run"}, {"version", 1}, {"model", "gpt2-tiny"}, {"plan", "pp2"}};
    report.update(train_result_to_json(result));
    const DocumentSummary run = described(write(folder.path() / "run.json", report.dump()));
    EXPECT_EQ(run.kind, "trainwright run report");
    EXPECT_EQ(run.title, "gpt2-tiny, pp2: 2 steps, loss 5.50000 to 5.00000");
    EXPECT_EQ(fact(run, "ranks"), "2, at most 1.00 MiB allocated");
    EXPECT_EQ(run.warnings, result.notes);
}

TEST(Inspect, AnswersWithMembersOfAnotherTypeAreRefused) {
    const TemporaryFolder folder;
    const std::pair<std::string, std::string> cases[] = {
        {R"(explanation", "version": 1, "changes": {"a": 1})", ": /changes: expected a list"},
        {R"(explanation", "version": 1, "hardware": 3, "report": [])", ": /report: expected an object"},
        {R"(plans", "version": 1, "plans": {"a": 1})", ": /plans: expected a list"},
        {R"(plans", "version": 1, "request": "a")", ": /request: expected an object"},
        {R"(layers", "version": 1, "layers": 3)", ": /layers: expected a list"}};
    for (const auto& [members, said] : cases) {
        const auto summary = describe_file(
            write(folder.path() / "answer.json", R"({"schema": "trainwright/)" + members + "}"));
        ASSERT_FALSE(summary) << members;
        EXPECT_EQ(exit_code(summary.errors()), 5);
        EXPECT_NE(to_string(summary.errors()).find(said), std::string::npos) << to_string(summary.errors());
    }
}

TEST(Inspect, AnswersOfLayersAndReports) {
    const TemporaryFolder folder;
    const DocumentSummary layers =
        described(write(folder.path() / "layers.json",
                        R"({"schema": "trainwright/layers", "version": 1, "model": "m", "parameters": 8e9,
                  "layers": [{"name": "embedding", "parameters": 5}, {"name": "block.0-3", "parameters": 2e9}]})"));
    EXPECT_EQ(layers.kind, "trainwright layers");
    EXPECT_EQ(layers.title, "m: 2 kinds of layers, 8.00B parameters");
    EXPECT_EQ(fact(layers, "block.0-3"), "2.00B parameters each");
    const DocumentSummary report = described(write(
        folder.path() / "report.json",
        R"({"schema": "trainwright/report", "version": 1, "step_time_s": 1, "mfu": 0.5, "flop_convention": "PaLM"})"));
    EXPECT_EQ(fact(report, "MFU counts"), "PaLM");
}

TEST(Inspect, LogsOfRanks) {
    const TemporaryFolder folder;
    {
        auto log = RankLog::open(folder.path().string(), 3);
        ASSERT_TRUE(log);
        log->line("rank 3 (PP1 DP0 TP1), attempt 0, tp2 pp2, cpu: step 0 of 2 is next");
        log->line("step 0: 0.1 s since the run began");
        log->line("ends the run with exit code 1: a NaN\nin the gradient");
    }
    const DocumentSummary log = described((folder.path() / "rank-00003.log").string());
    EXPECT_EQ(log.kind, "trainwright rank log");
    EXPECT_EQ(fact(log, "rank"), "rank 3 (PP1 DP0 TP1)");
    EXPECT_EQ(fact(log, "steps"), "1");
    EXPECT_EQ(fact(log, "last line"), "ends the run with exit code 1: a NaN");
}

TEST(Inspect, Checkpoints) {
    const TemporaryFolder folder;
    std::vector<float> values(6, 1.5F);
    CheckpointOptions options;
    options.folder = folder.path() / "ckpt";
    {
        auto writer = CheckpointWriter::create(options);
        ASSERT_TRUE(writer);
        for (const std::int64_t steps : {2, 4}) {
            CheckpointState state;
            state.step = steps;
            state.seed = 7;
            state.model = "gpt2-tiny";
            state.plan = "tp1 pp1 dp1";
            state.scalars["updates"] = 4;
            TensorRegion region;
            region.full_shape = Shape{2, 3};
            region.parts = 1;
            region.extent = 2;
            region.count = 6;
            const Tensor data{values.data(), DType::F32, Shape{6}};
            const std::vector<CheckpointTensor> tensors = {{"weight", "layers.0.w", region, data},
                                                           {"moment1", "layers.0.w", region, data}};
            ASSERT_TRUE((*writer)->save(state, tensors));
            ASSERT_TRUE((*writer)->wait());
        }
    }
    const DocumentSummary all = described(options.folder.string());
    EXPECT_EQ(all.kind, "trainwright checkpoint");
    EXPECT_EQ(all.title, "gpt2-tiny after step 4: tp1 pp1 dp1");
    EXPECT_EQ(fact(all, "checkpoints"), "after steps 4, 2");
    EXPECT_EQ(fact(all, "weights"), "1 tensors, 6 elements, F32");
    EXPECT_EQ(fact(all, "optimizer states"), "1 tensors, 6 elements, F32");
    EXPECT_EQ(fact(all, "checksums"), "all fit");
    EXPECT_EQ(fact(all, "layers.0.w"), "F32 [2, 3]");
    const fs::path newest = options.folder / "step-00000004";
    EXPECT_EQ(described(newest.string()).title, all.title);
    EXPECT_EQ(fact(described(newest.string()), "checksums"), "all fit");
    // Under another name it is a checkpoint still, and what is damaged in it is found.
    const fs::path renamed = folder.path() / "best";
    fs::copy(newest, renamed, fs::copy_options::recursive);
    EXPECT_TRUE(is_checkpoint_folder(renamed));
    EXPECT_EQ(fact(described(renamed.string()), "checksums"), "all fit");
    fs::copy(newest, folder.path() / "step-00000009", fs::copy_options::recursive);
    const auto lying = describe_file((folder.path() / "step-00000009").string());
    ASSERT_FALSE(lying);
    EXPECT_EQ(lying.error().message, "is of step 4");
    fs::remove_all(folder.path() / "step-00000009");
    flip_last_byte(renamed / "rank-00000.safetensors");
    const auto damaged = describe_file(renamed.string());
    ASSERT_FALSE(damaged);
    EXPECT_NE(damaged.error().message.find("is damaged"), std::string::npos) << damaged.error().message;
    EXPECT_EQ(described((newest / "manifest.json").string()).kind, "trainwright checkpoint manifest");
    EXPECT_EQ(fact(described((newest / "rank-00000.json").string()), "pieces"),
              "1 of kind moment1, 1 of kind weight");
    EXPECT_EQ(fact(described((newest / "rank-00000.safetensors").string()), "parameters"), "12");

    // A flipped bit: the one before is described, with a warning; alone it is refused.
    flip_last_byte(newest / "rank-00000.safetensors");
    const DocumentSummary rest = described(options.folder.string());
    EXPECT_EQ(rest.title, "gpt2-tiny after step 2: tp1 pp1 dp1");
    ASSERT_EQ(rest.warnings.size(), 1U);
    EXPECT_NE(rest.warnings[0].find("step"), std::string::npos);
    EXPECT_FALSE(describe_file(newest.string()));
    EXPECT_FALSE(is_checkpoint_folder(folder.path()));
}

TEST(Inspect, LaunchFiles) {
    const TemporaryFolder folder;
    PlanDocument document;
    document.model_name = "gpt2-tiny";
    document.model_document = *read_model_document("gpt2-tiny");
    document.graph = load_model("gpt2-tiny")->graph;
    document.cluster = *load_cluster("cpu:2");
    document.plan.mesh.pp = 2;
    document.plan.stages = uniform_partition(document.graph, 2, RecomputeMode::None);
    LaunchOptions options;
    options.words = {"plan.json", "--steps", "50", "--checkpoint", "my folder"};
    options.time_limit = "02:00:00";
    options.image = "registry/x:1";
    const std::vector<std::pair<LaunchTarget, std::string>> targets = {
        {LaunchTarget::Slurm, "Slurm batch script"},
        {LaunchTarget::Mpirun, "mpirun script"},
        {LaunchTarget::MpiJob, "Kubeflow MPIJob"}};
    for (const auto& [target, name] : targets) {
        options.target = target;
        const auto text = launch_file(document, options);
        ASSERT_TRUE(text);
        const DocumentSummary summary = described(write(folder.path() / "job", *text));
        EXPECT_EQ(summary.kind, "trainwright launch file");
        EXPECT_EQ(fact(summary, "target"), name);
        EXPECT_EQ(fact(summary, "model"), "gpt2-tiny");
        EXPECT_EQ(fact(summary, "cluster"), "cpu:2");
        EXPECT_EQ(fact(summary, "ranks"), "2");
        EXPECT_NE(fact(summary, "command").find("trainwright-exec"), std::string::npos)
            << fact(summary, "command");
        EXPECT_NE(fact(summary, "command").find("--steps 50"), std::string::npos) << fact(summary, "command");
        if (target == LaunchTarget::Slurm) {
            EXPECT_EQ(fact(summary, "--time"), "02:00:00");
            EXPECT_EQ(fact(summary, "--signal"), "USR1@120");
            EXPECT_EQ(fact(summary, "--exclusive"), "yes");
        }
        if (target == LaunchTarget::MpiJob) {
            EXPECT_EQ(fact(summary, "slotsPerWorker"), "2");
        }
    }
}

}  // namespace
}  // namespace tw::cli
