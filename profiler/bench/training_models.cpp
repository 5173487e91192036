#include "profiler/bench/training_models.hpp"

#include <array>

#include <fmt/format.h>

#include "models/families/registry.hpp"
#include "plan/stage_partition.hpp"

namespace tw {
namespace {

constexpr Precision kBf16 = Precision::Bf16, kFp32 = Precision::Fp32;

//  llama, hidden, heads, kv, dim, ffn, vocab, seq, microbatch, precision, layers. Short microbatches pass
//  over weights that no cache holds: their models are deep enough for that.
constexpr std::array kHost = {
    TrainingModel{false, 256, 8, 8, 32, 1024, 512, 128, 8, kFp32, 2},
    TrainingModel{true, 256, 8, 4, 32, 768, 512, 128, 4, kFp32, 2},
    TrainingModel{false, 128, 4, 4, 32, 512, 512, 128, 4, kFp32, 2},
    TrainingModel{false, 256, 8, 8, 32, 1024, 512, 64, 1, kFp32, 8},
    TrainingModel{true, 512, 8, 8, 64, 1408, 1024, 128, 4, kFp32, 2},
    TrainingModel{false, 384, 6, 6, 64, 1536, 2048, 256, 2, kFp32, 2},
    TrainingModel{false, 256, 4, 4, 32, 512, 512, 128, 2, kFp32, 4},  // half of 8 heads and of 1024
    TrainingModel{true, 384, 3, 3, 64, 512, 512, 256, 1, kFp32, 4},   // half of 6 heads and of 1024
    TrainingModel{true, 192, 6, 3, 32, 512, 1024, 64, 1, kFp32, 8},
    TrainingModel{false, 128, 2, 2, 32, 256, 256, 64, 8, kFp32, 2},  // half of 4 heads and of 512
    TrainingModel{false, 512, 8, 8, 64, 2048, 512, 64, 8, kFp32, 2},
    TrainingModel{true, 256, 4, 2, 64, 704, 4096, 256, 4, kFp32, 2},
    TrainingModel{true, 128, 4, 4, 32, 384, 1024, 64, 2, kFp32, 6},
    TrainingModel{false, 192, 6, 6, 32, 768, 1024, 128, 1, kFp32, 6},
    TrainingModel{false, 512, 4, 4, 64, 1024, 1024, 128, 8, kFp32, 2},  // half of 8 heads and of 2048
    TrainingModel{true, 512, 4, 4, 64, 704, 512, 64, 1, kFp32, 8},
    TrainingModel{false, 384, 12, 12, 32, 1536, 512, 64, 1, kFp32, 8},
    TrainingModel{false, 192, 6, 6, 32, 768, 512, 64, 4, kFp32, 4},
    TrainingModel{false, 256, 8, 8, 32, 1024, 512, 128, 4, kBf16, 2},
    TrainingModel{true, 384, 6, 6, 64, 1024, 1024, 128, 2, kBf16, 4},
};
constexpr std::array kDevice = {
    TrainingModel{false, 768, 12, 12, 64, 3072, 50304, 1024, 8, kBf16, 4},
    TrainingModel{true, 2048, 32, 8, 64, 8192, 32000, 2048, 4, kBf16, 2},
    TrainingModel{false, 1600, 25, 25, 64, 6400, 50304, 1024, 8, kBf16, 2},
    TrainingModel{true, 4096, 32, 8, 128, 14336, 32000, 2048, 1, kBf16, 1},
};

}  // namespace

std::string TrainingModel::name() const {
    return fmt::format("{} h{} {}x{} f{} v{}, {}x{}{}", llama ? "llama" : "gpt", hidden, heads, head_dim, ffn,
                       vocab, microbatch, seq,
                       precision == kFp32 ? "" : " " + std::string(to_string(precision)));
}

std::span<const TrainingModel> training_models(bool host) {
    if (host) return kHost;
    return kDevice;
}

Result<PlanDocument> training_document(const TrainingModel& m) {
    ModelConfig c;
    c.name = m.name();
    c.family = m.llama ? "llama" : "gpt";
    c.layers = m.layers;
    c.hidden = m.hidden;
    c.heads = m.heads;
    c.kv_heads = m.kv_heads;
    c.head_dim = m.head_dim;
    c.ffn = m.ffn;
    c.vocab = m.vocab;
    c.seq_len = m.seq;
    if (m.llama) {
        c.activation = ActivationKind::Silu;
        c.gated = true;
        c.norm = NormKind::Rms;
    } else {
        c.positions = PositionKind::Learned;
        c.qkv_bias = c.attention_out_bias = c.mlp_bias = true;
        c.tied_embeddings = true;
    }
    auto graph = build_model(c);
    if (!graph) return graph.errors();
    PlanDocument document;
    document.model_name = c.name;
    document.graph = std::move(*graph);
    auto cluster = load_cluster("cpu:1");
    if (!cluster) return cluster.errors();
    document.cluster = std::move(*cluster);
    ParallelPlan& plan = document.plan;
    plan.mesh = {};
    plan.stages = uniform_partition(document.graph, 1, RecomputeMode::None);
    plan.microbatch = plan.global_batch = m.microbatch;
    plan.seq_len = m.seq;
    plan.vocab_divisor = 1;
    plan.precision.compute = plan.precision.parameters = m.precision;
    return document;
}

}  // namespace tw
