// Peak allocated memory as it is predicted for processors, against runs of the executor: ranks as threads, no
// clock.
#include <algorithm>
#include <mutex>

#include <gtest/gtest.h>

#include "models/families/registry.hpp"
#include "plan/check_plan.hpp"
#include "plan/frameworks/framework.hpp"
#include "plan/schedule/generator.hpp"
#include "plan/stage_partition.hpp"
#include "real_exec/comm/local/local_transport.hpp"
#include "real_exec/runtime/executable.hpp"
#include "real_exec/runtime/rank_layout.hpp"
#include "real_exec/runtime/training.hpp"
#include "sim/simulator.hpp"

namespace tw {
namespace {

struct Case {
    bool llama = false;
    DeviceMesh mesh = {};
    std::string schedule = "1f1b";
    int virtual_stages = 1, zero = 0;
    RecomputeMode recompute = RecomputeMode::None;
    std::int64_t microbatch = 2, microbatches = 4;
    bool sequence_parallel = false, tied = false;
    std::int64_t vocab = 512, hidden = 64, seq = 64;
};

DeviceMesh mesh_of(int dp, int tp, int pp) {
    DeviceMesh mesh;
    mesh.dp = dp, mesh.tp = tp, mesh.pp = pp;
    return mesh;
}

PlanDocument document_of(const Case& c) {
    ModelConfig m;
    m.name = "memory";
    m.family = c.llama ? "llama" : "gpt";
    m.layers = 4, m.hidden = c.hidden, m.heads = 4, m.ffn = 3 * c.hidden, m.vocab = c.vocab,
    m.seq_len = c.seq;
    m.tied_embeddings = c.tied;
    if (c.llama) {
        m.kv_heads = 2, m.activation = ActivationKind::Silu, m.gated = true, m.norm = NormKind::Rms;
    } else {
        m.positions = PositionKind::Learned;
        m.qkv_bias = m.attention_out_bias = m.mlp_bias = true;
    }
    PlanDocument d;
    d.model_name = m.name;
    d.graph = *build_model(m);
    d.cluster = *load_cluster("cpu:" + std::to_string(c.mesh.devices()));
    ParallelPlan& p = d.plan;
    p.mesh = c.mesh;
    p.precision.compute = Precision::Fp32;
    apply_framework(framework_defaults("trainwright"), false, p);
    p.schedule = c.schedule;
    p.virtual_stages = c.virtual_stages;
    p.stages = uniform_partition(d.graph, c.mesh.pp * c.virtual_stages, c.recompute);
    p.recompute = c.recompute;
    p.microbatch = c.microbatch, p.microbatches = c.microbatches;
    p.global_batch = c.microbatch * c.microbatches * c.mesh.dp;
    p.seq_len = c.seq;
    p.zero_stage = c.zero;
    p.sequence_parallel = c.sequence_parallel;
    return d;
}

// By pipeline rank, the largest of its replicas.
std::vector<double> peaks_run(const PlanDocument& document) {
    std::vector<double> peaks(static_cast<std::size_t>(document.plan.mesh.pp), 0);
    std::mutex mutex;
    run_local_ranks(world_size(document.plan), [&](Transport& transport) {
        const auto backend = make_cpu_backend();
        TrainOptions options;
        options.steps = 3;
        const auto trained = train(document, options, transport, *backend);
        const std::lock_guard lock(mutex);
        ASSERT_TRUE(trained) << to_string(trained.errors());
        if (transport.rank() != 0) return;
        for (const RankResult& rank : trained->ranks) {
            const auto pipeline = static_cast<std::size_t>(std::stoi(rank.name.substr(2)));
            peaks[pipeline] = std::max(peaks[pipeline], static_cast<double>(rank.peak_allocated_bytes));
        }
    });
    return peaks;
}

TEST(ExecutorMemory, PredictedPeaksAreThoseOfRuns) {
    const std::vector<Case> cases = {
        {},
        {.llama = true},
        {.recompute = RecomputeMode::Full},
        {.llama = true, .recompute = RecomputeMode::Selective},
        {.microbatch = 8, .microbatches = 1, .tied = true},
        {.mesh = mesh_of(1, 2, 1)},
        {.llama = true, .mesh = mesh_of(1, 2, 1), .sequence_parallel = true},
        {.mesh = mesh_of(2, 1, 1)},
        {.mesh = mesh_of(2, 1, 1), .zero = 1},
        {.mesh = mesh_of(2, 1, 1), .zero = 2},
        {.llama = true, .mesh = mesh_of(2, 1, 1), .zero = 3},
        {.mesh = mesh_of(2, 1, 1), .zero = 3, .recompute = RecomputeMode::Full, .tied = true},
        {.mesh = mesh_of(1, 1, 2), .microbatches = 8},
        {.mesh = mesh_of(1, 1, 2), .schedule = "gpipe", .microbatches = 4},
        {.llama = true, .mesh = mesh_of(1, 1, 2), .schedule = "interleaved", .virtual_stages = 2},
        {.mesh = mesh_of(1, 1, 2), .schedule = "zb-h1", .microbatches = 8},
        {.mesh = mesh_of(1, 1, 2), .schedule = "zb-v", .virtual_stages = 2, .microbatches = 8},
        {.mesh = mesh_of(1, 1, 2), .microbatches = 8, .tied = true},
        // Whole gradients stay from a stage's first half of a backward to the second.
        {.llama = true, .mesh = mesh_of(2, 1, 2), .schedule = "zb-h2", .zero = 3, .microbatches = 2},
        {.mesh = mesh_of(2, 1, 2), .schedule = "zb-h1", .zero = 2, .microbatches = 8},
        {.mesh = mesh_of(2, 1, 2),
         .schedule = "zb-v",
         .virtual_stages = 2,
         .zero = 3,
         .recompute = RecomputeMode::Selective,
         .microbatches = 8},
        // The embedding's gradient, larger than any other, is on its way into the next microbatch's backward.
        {.mesh = mesh_of(2, 1, 1), .zero = 3, .microbatch = 1, .vocab = 4096},
        {.llama = true, .mesh = mesh_of(2, 1, 1), .zero = 3, .microbatch = 1, .tied = true, .vocab = 4096},
        {.mesh = mesh_of(2, 1, 1), .zero = 2, .microbatch = 1, .vocab = 4096},
        {.llama = true,
         .mesh = mesh_of(2, 1, 1),
         .zero = 2,
         .microbatch = 1,
         .microbatches = 1,
         .vocab = 4096},
        // A block's backward is the peak, not the head's: what its attention packs operands into.
        {.microbatch = 1, .microbatches = 1, .tied = true, .hidden = 256},
        {.mesh = mesh_of(1, 2, 1), .microbatch = 1, .microbatches = 1, .tied = true, .seq = 256},
        {.llama = true, .recompute = RecomputeMode::Full, .microbatch = 1, .vocab = 256, .seq = 256},
        {.mesh = mesh_of(1, 1, 2), .schedule = "zb-h1", .microbatch = 1, .microbatches = 8, .hidden = 256},
        {.mesh = mesh_of(1, 1, 2), .schedule = "zb-1p", .microbatch = 1, .tied = true, .seq = 256},
        // Under sequence parallelism its feed-forward, which gathers its input once more.
        {.mesh = mesh_of(1, 2, 1),
         .recompute = RecomputeMode::Full,
         .microbatch = 8,
         .microbatches = 1,
         .sequence_parallel = true,
         .tied = true,
         .hidden = 256},
        {.llama = true,
         .mesh = mesh_of(1, 2, 2),
         .schedule = "zb-h2",
         .recompute = RecomputeMode::Full,
         .sequence_parallel = true,
         .vocab = 256},
    };
    for (const Case& c : cases) {
        const PlanDocument document = document_of(c);
        ASSERT_TRUE(check_plan(document.graph, document.cluster, document.plan).errors.empty());
        ASSERT_TRUE(unsupported_by_executor(document.graph, document.plan).empty());
        const auto environment = make_environment(document.graph, document.cluster);
        ASSERT_TRUE(environment);
        const auto report = Simulator(*environment).simulate(document.plan);
        ASSERT_TRUE(report) << to_string(report.errors());
        const std::vector<double> run = peaks_run(document);
        for (const StageMemory& memory : report->memory) {
            std::string parts;
            for (const MemoryAddend& a : memory.addends)
                parts += a.name + " " + std::to_string(static_cast<std::int64_t>(a.bytes)) + ", ";
            // Of a pipeline a message more or less may be on its way at the peak.
            const double near = document.plan.mesh.pp > 1 ? 0.03 : 0.002;
            EXPECT_NEAR(memory.peak_allocated_bytes / run[static_cast<std::size_t>(memory.rank)], 1, near)
                << (c.llama ? "llama " : "gpt ") << summary(document.plan) << (c.tied ? " tied" : "")
                << " rank " << memory.rank << ": " << parts << "run "
                << run[static_cast<std::size_t>(memory.rank)];
        }
    }
}

}  // namespace
}  // namespace tw
