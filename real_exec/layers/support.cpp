// What the layers of this build cannot run: the plan's `executable` verdict, each refusal with the part of
// the plan or model that it concerns.
#include <set>

#include "models/families/profiled.hpp"
#include "real_exec/layers/cnn_layers.hpp"
#include "real_exec/layers/exec_layers.hpp"

namespace tw {
namespace {

class Verdict {
  public:
    void refuse(bool applies, std::string what, std::string context, std::string hint = "") {
        // Eighty equal blocks are refused once.
        if (applies && seen_.insert(what).second)
            errors_.push_back(
                {ErrorCode::Failure, "the executor has no " + what, std::move(context), std::move(hint)});
    }
    Errors take() { return std::move(errors_); }

  private:
    std::set<std::string> seen_;
    Errors errors_;
};

void check_attention(Verdict& v, const AttentionSpec& a, const ParallelPlan& plan, const std::string& at) {
    v.refuse(a.kv_rank > 0, "latent attention (MLA)", at);
    v.refuse(a.linear_conv > 0, "gated linear attention", at);
    v.refuse(a.index_heads > 0, "sparse attention indexer", at);
    v.refuse(a.alibi, "ALiBi", at);
    v.refuse(a.relative, "relative position bias", at);
    v.refuse(a.sinks, "attention sinks", at);
    v.refuse(a.output_gate, "attention output gate", at);
    v.refuse(a.shared_kv, "shared key and value projection", at);
    v.refuse(a.qk_norm != QkNormKind::None, "normalisation of queries and keys", at);
    v.refuse(a.window > 0 && !a.causal, "sliding window without causal mask", at);
    v.refuse(a.kv_rank == 0 && a.qk_dim != a.v_dim, "attention whose values have another width than its keys",
             at);
    v.refuse(a.rope && a.qk_dim % 2 != 0, "rotary embedding of odd head dimensions", at);
    v.refuse(a.kv_heads > 0 && a.kv_heads % plan.mesh.tp != 0 && plan.mesh.tp % a.kv_heads != 0,
             "tensor parallelism where tp and the key-value heads do not divide each other", "/plan/mesh/tp");
}

void check_block(Verdict& v, const BlockSpec& s, const ParallelPlan& plan, const std::string& at) {
    v.refuse(s.mtp_vocab > 0, "multi-token prediction", at);
    v.refuse(s.cross.has_value(), "cross attention (T5, BART)", at);
    v.refuse(s.parallel, "parallel attention and feed-forward (GPT-J, NeoX, Falcon)", at);
    v.refuse(s.post_norm && (s.pre_norm || s.post_norm_inside), "norm of a branch's output (Gemma, OLMo 2)",
             at);
    v.refuse(!s.pre_norm && !s.post_norm, "block without norms", at);
    v.refuse(!s.norm.weight && s.norm.kind == NormKind::Rms, "RMS norm without gain", at);
    check_attention(v, s.attention, plan, at);
    if (!s.moe) return;
    v.refuse(s.moe->shared.has_value(), "shared experts", at);
    v.refuse(s.moe->router_bias, "router bias", at);
    v.refuse(plan.mesh.etp > 1, "tensor parallelism inside an expert", "/plan/mesh/etp", "etp=1");
    v.refuse(plan.mesh.tp > 1 && !plan.sequence_parallel,
             "mixture of experts under tensor parallelism without sequence parallelism",
             "/plan/sequence_parallel", "sequence_parallel=true");
    v.refuse(plan.mesh.ep > 1 && s.moe->experts % plan.mesh.ep != 0, "uneven expert parallelism",
             "/plan/mesh/ep");
}

void check_plan_parts(Verdict& v, const ParallelPlan& plan) {
    v.refuse(plan.mesh.cp > 1, "context parallelism", "/plan/mesh/cp", "cp=1");
    const Precision p = plan.precision.compute;
    const bool known_precision =
        p == Precision::Fp32 || p == Precision::Tf32 || p == Precision::Bf16 || p == Precision::Fp16;
    v.refuse(!known_precision, "kernels for this precision: they have fp32, bf16 and fp16",
             "/plan/precision/compute", "bf16");
    for (const StageSpec& stage : plan.stages) {
        const bool known = stage.recompute == RecomputeMode::None || stage.recompute == RecomputeMode::Full ||
                           stage.recompute == RecomputeMode::Selective;
        const bool modules = stage.recompute == RecomputeMode::Modules;
        v.refuse(!known, modules ? "recomputation by module" : "recomputation by operator", "/plan/recompute",
                 "none, selective or full");
    }
    v.refuse(plan.offload_activations, "offload of activations", "/plan/offload_activations");
    v.refuse(plan.sequence_parallel && plan.mesh.tp > 1 && plan.seq_len % plan.mesh.tp != 0,
             "sequence parallelism where tp does not divide the sequence", "/plan/sequence_parallel");
}

}  // namespace

Errors unsupported_by_layers(const LayerGraph& graph, const ParallelPlan& plan) {
    Verdict v;
    check_plan_parts(v, plan);
    for (int i = 0; i < graph.size(); ++i) {
        const LayerModel* model = graph.layer(i).model.get();
        const std::string at = "/model/" + graph.layer(i).name;
        if (const auto* embedding = dynamic_cast<const EmbeddingLayer*>(model)) {
            const EmbeddingSpec& s = embedding->spec();
            v.refuse(s.vocab == 0, "image patches (ViT)", at);
            v.refuse(s.vocab > 0 && s.width != s.hidden, "factorised embedding (ALBERT)", at);
            v.refuse(s.position_rows > 0 && s.position_rows < plan.seq_len,
                     "positions beyond the learned table", "/plan/seq_len");
        } else if (const auto* block = dynamic_cast<const TransformerBlock*>(model)) {
            check_block(v, block->spec(), plan, at);
        } else if (const auto* head = dynamic_cast<const HeadLayer*>(model)) {
            const HeadSpec& s = head->spec();
            v.refuse(s.vocab == 0 || !s.projects, "model without a vocabulary projection", at);
            v.refuse(s.pooler || s.classes > 0, "pooler and classifier", at);
            v.refuse(s.project_down, "narrow output projection (OPT-350m)", at);
        } else if (const auto* unit = dynamic_cast<const CnnUnit*>(model)) {
            const std::string what = unsupported_cnn_step(unit->steps());
            v.refuse(!what.empty(), what, at);
            v.refuse(plan.mesh.tp > 1, "tensor parallelism of convolutions", "/plan/mesh/tp", "tp=1");
            const Precision p = plan.precision.compute;
            v.refuse(p == Precision::Bf16 || p == Precision::Fp16, "convolutions in bf16 or fp16",
                     "/plan/precision/compute", "fp32");
        } else if (dynamic_cast<const ProfiledLayer*>(model) != nullptr) {
            v.refuse(true, "profiled layers: they carry durations, not kernels", at);
        } else {
            v.refuse(true, "layer of this kind", at);
        }
    }
    return v.take();
}

}  // namespace tw
