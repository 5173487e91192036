// gpu_bench MODEL BATCH STEPS: trains a model on one GPU in bf16 (fp32 master weights) and prints one line of
// JSON: tokens/s, MFU by Megatron's convention, peak memory, losses. MODEL is gpt2-124m, gpt2-1.5b, llama-1b,
// or gpt2-tiny, whose losses are compared with the CPU backend's.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>
#include <thread>

#include "models/families/registry.hpp"
#include "models/hardware/cluster_table.hpp"
#include "plan/schedule/generator.hpp"
#include "plan/stage_partition.hpp"
#include "real_exec/backend/make_backend.hpp"
#include "real_exec/comm/local/local_transport.hpp"
#include "real_exec/runtime/training.hpp"

namespace {

using namespace tw;

constexpr double kPeakFlops = 989.5e12;  // H100 and H200 SXM, dense bf16 (NVIDIA's datasheets)

// Radford et al. 2019, table 2, and OpenAI's released configurations.
ModelConfig gpt2(std::string name, std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
    ModelConfig c;
    c.name = std::move(name);
    c.family = "gpt";
    c.layers = layers;
    c.hidden = hidden;
    c.heads = heads;
    c.ffn = 4 * hidden;
    c.vocab = 50257;
    c.seq_len = 1024;
    c.activation = ActivationKind::GeluNew;
    c.positions = PositionKind::Learned;
    c.qkv_bias = c.attention_out_bias = c.mlp_bias = true;
    c.tied_embeddings = true;
    return c;
}

// Llama 3.2 1B (Meta's config.json).
ModelConfig llama_1b() {
    ModelConfig c;
    c.name = "llama-1b";
    c.family = "llama";
    c.layers = 16;
    c.hidden = 2048;
    c.heads = 32;
    c.kv_heads = 8;
    c.ffn = 8192;
    c.vocab = 128256;
    c.seq_len = 2048;
    c.activation = ActivationKind::Silu;
    c.gated = true;
    c.norm = NormKind::Rms;
    c.tied_embeddings = true;
    return c;
}

int fail(const Errors& errors) {
    std::cerr << to_string(errors) << "\n";
    return exit_code(errors);
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    std::int64_t batch = 0, steps = 0;
    const auto number = [](const std::string& text, std::int64_t& value) {
        return std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc{} && value > 0;
    };
    if (words.size() != 3 || !number(words[1], batch) || !number(words[2], steps)) {
        std::cerr << "usage: gpu_bench gpt2-124m|gpt2-1.5b|llama-1b|gpt2-tiny BATCH STEPS\n";
        return 2;
    }
    ModelConfig config;
    if (words[0] == "gpt2-124m") {
        config = gpt2(words[0], 12, 768, 12);
    } else if (words[0] == "gpt2-1.5b") {
        config = gpt2(words[0], 48, 1600, 25);
    } else if (words[0] == "llama-1b") {
        config = llama_1b();
    } else if (words[0] == "gpt2-tiny") {
        config = gpt2(words[0], 4, 256, 4);
        config.seq_len = 256;
        config.vocab = 2048;  // the CPU trains it too
    } else {
        std::cerr << "unknown model '" << words[0] << "'\n";
        return 2;
    }
    const auto graph = build_model(config);
    if (!graph) return fail(graph.errors());
    PlanDocument document;
    document.model_name = config.name;
    document.graph = *graph;
    const auto cluster = load_cluster("cpu:1");
    if (!cluster) return fail(cluster.errors());
    document.cluster = *cluster;
    ParallelPlan& plan = document.plan;
    plan.stages = uniform_partition(document.graph, 1, RecomputeMode::None);
    plan.microbatch = plan.global_batch = batch;
    plan.seq_len = config.seq_len;
    if (words[0] == "gpt2-tiny") plan.precision.compute = plan.precision.parameters = Precision::Fp32;

    TrainOptions options;
    options.steps = steps;
    options.quiet = true;
    options.threads =
        static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));  // draw the weights
    const auto run = [&](const char* backend_name) -> Result<TrainResult> {
        auto backend = make_backend(backend_name, {.threads = options.threads});
        if (!backend) return backend.errors();
        auto transports = local_transports(1);
        return train(document, options, *transports.front(), **backend);
    };
    const auto result = run("cuda");
    if (!result) return fail(result.errors());

    std::vector<double> times, losses;
    for (const StepResult& step : result->steps) {
        times.push_back(step.step_time_s);
        losses.push_back(step.loss);
    }
    // The second half: the first steps choose algorithms and fill the allocator.
    std::vector<double> steady(times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
    std::sort(steady.begin(), steady.end());
    const double step_time = steady[steady.size() / 2];
    const double tokens = static_cast<double>(batch * config.seq_len);
    const double flops = 3 * document.graph.model_flops(batch, config.seq_len, true).value;
    Json out;
    out["model"] = config.name;
    out["backend"] = result->backend;
    out["batch"] = batch;
    out["seq_len"] = config.seq_len;
    out["step_time_s"] = step_time;
    out["tokens_per_s"] = tokens / step_time;
    out["mfu"] = flops / step_time / kPeakFlops;
    out["peak_allocated_bytes"] = result->ranks.front().peak_allocated_bytes;
    out["losses"] = losses;
    if (words[0] == "gpt2-tiny") {
        const auto expected = run("cpu");
        if (!expected) return fail(expected.errors());
        double worst = 0;
        for (std::size_t i = 0; i < losses.size(); ++i)
            worst = std::max(worst, std::abs(losses[i] - expected->steps[i].loss) / expected->steps[i].loss);
        out["largest_difference_from_cpu"] = worst;
    }
    std::cout << out.dump() << std::endl;
    return 0;
}
