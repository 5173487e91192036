// Whole training runs inside the test's process: a thread a rank.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "models/families/registry.hpp"
#include "models/hardware/cluster_table.hpp"
#include "plan/check_plan.hpp"
#include "plan/schedule/generator.hpp"
#include "plan/stage_partition.hpp"
#include "real_exec/comm/local/local_transport.hpp"
#include "real_exec/runtime/executable.hpp"
#include "real_exec/runtime/rank_layout.hpp"
#include "real_exec/runtime/training.hpp"

namespace tw::testing {

// Dropping: experts with a capacity, which drop tokens.
enum class Family : std::uint8_t { Gpt, Llama, Moe, Dropping };

inline ModelConfig tiny_config(Family family, bool tied) {
    ModelConfig c;
    c.layers = 4;
    c.hidden = 32;
    c.heads = 4;
    c.ffn = 64;
    c.vocab = 256;
    c.seq_len = 16;
    c.tied_embeddings = tied;
    if (family == Family::Gpt) {
        c.name = "gpt-tiny";
        c.family = "gpt";
        c.positions = PositionKind::Learned;
        c.qkv_bias = c.attention_out_bias = c.mlp_bias = true;
        return c;
    }
    c.name = "llama-tiny";
    c.family = "llama";
    c.kv_heads = 2;
    c.activation = ActivationKind::Silu;
    c.gated = true;
    c.norm = NormKind::Rms;
    if (family == Family::Moe || family == Family::Dropping) {
        c.expert_capacity_factor = family == Family::Dropping ? 1 : 0;
        c.name = "moe-tiny";
        c.family = "moe";
        c.experts = 4;
        c.experts_per_token = 2;
        c.expert_ffn = 32;
    }
    return c;
}

struct RunSetup {
    Family family = Family::Gpt;
    bool tied = true;
    DeviceMesh mesh;
    std::string schedule = "1f1b";
    int virtual_stages = 1;
    int zero = 0;
    int zero_shard = 0;
    RecomputeMode recompute = RecomputeMode::None;
    bool sequence_parallel = false;
    std::int64_t microbatch = 1;
    std::int64_t global_batch = 8;
    OptimizerKind optimizer = OptimizerKind::Adam;
};

inline PlanDocument document_of(const RunSetup& s) {
    PlanDocument d;
    const ModelConfig config = tiny_config(s.family, s.tied);
    d.model_name = config.name;
    auto graph = build_model(config);
    EXPECT_TRUE(graph) << (graph ? "" : to_string(graph.errors()));
    d.graph = *graph;
    // Nodes of two processors; one may be left over.
    d.cluster = *load_cluster("cpu:" + std::to_string((s.mesh.devices() + 1) / 2 * 2));
    ParallelPlan& plan = d.plan;
    plan.mesh = s.mesh;
    plan.schedule = s.schedule;
    plan.virtual_stages = s.virtual_stages;
    plan.stages = uniform_partition(d.graph, s.mesh.pp * s.virtual_stages, s.recompute);
    plan.recompute = s.recompute;
    plan.microbatch = s.microbatch;
    plan.global_batch = s.global_batch;
    plan.microbatches = s.global_batch / (s.microbatch * s.mesh.dp);
    plan.seq_len = 16;
    plan.vocab_divisor = 16;
    plan.sequence_parallel = s.sequence_parallel;
    plan.zero_stage = s.zero;
    plan.zero_shard = s.zero_shard;
    plan.optimizer = s.optimizer;
    plan.bucket_bytes = 16384;  // several buckets even of tiny models
    plan.precision.compute = plan.precision.parameters = Precision::Fp32;
    if (const auto generator = find_schedule(s.schedule)) plan.semantics = (*generator)->info().semantics;
    return d;
}

inline TrainOptions options_of(std::int64_t steps) {
    TrainOptions options;
    options.steps = steps;
    options.optimizer.rate.peak = 3e-3;
    options.watchdog_s = 60;
    return options;
}

// Runs the plan on threads; rank 0's result.
inline TrainResult run_threads(const PlanDocument& document, const TrainOptions& options) {
    TrainResult result;
    std::mutex mutex;
    run_local_ranks(world_size(document.plan), [&](Transport& transport) {
        const auto backend = make_cpu_backend();
        auto trained = train(document, options, transport, *backend);
        const std::lock_guard lock(mutex);
        ASSERT_TRUE(trained) << "rank " << transport.rank() << ": " << to_string(trained.errors());
        if (transport.rank() == 0) result = std::move(*trained);
    });
    return result;
}

}  // namespace tw::testing
