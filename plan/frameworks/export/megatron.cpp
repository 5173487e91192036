// Flags of Megatron-LM's training/arguments.py and of the dataclasses that it makes flags of.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plan/frameworks/export/export_plan.hpp"
#include "plan/schedule/generator.hpp"
#include "plan/stage_partition.hpp"

namespace tw {
namespace {

class Arguments {
  public:
    void flag(std::string_view name) { lines_.emplace_back(name); }
    template <class Value>
    void value(std::string_view name, const Value& value) {
        lines_.push_back(fmt::format("{} {}", name, value));
    }
    void append(const std::vector<std::string>& words) {
        lines_.insert(lines_.end(), words.begin(), words.end());
    }
    // A shell array.
    [[nodiscard]] std::string text(std::string_view name) const {
        std::string text = fmt::format("{}=(\n", name);
        for (const std::string& line : lines_)
            text += "    " + line + "\n";
        return text + ")\n";
    }

  private:
    std::vector<std::string> lines_;
};

bool fully_sharded(const ParallelPlan& plan) {
    return plan.zero_stage >= 2;
}

void add_mesh(const ExportInput& input, Arguments& out, std::vector<std::string>& remarks) {
    const ParallelPlan& plan = input.plan();
    const DeviceMesh& mesh = plan.mesh;
    out.value("--tensor-model-parallel-size", mesh.tp);
    out.value("--pipeline-model-parallel-size", mesh.pp);
    out.value("--context-parallel-size", mesh.cp);
    if (mesh.cp > 1) out.value("--cp-comm-type", plan.cp_kind == WorkShape::Cp::Ring ? "p2p" : "a2a");
    if (input.document.graph.experts > 0) {
        out.value("--expert-model-parallel-size", mesh.ep);
        out.value("--expert-tensor-parallel-size", mesh.etp);  // its default is the tensor parallel size
        const bool per_node = plan.expert_dispatch == WorkShape::ExpertDispatch::PerNode;
        if (mesh.ep > 1) out.value("--moe-token-dispatcher-type", per_node ? "flex" : "alltoall");
        if (per_node) {
            out.flag("--moe-enable-deepep");
            out.value("--moe-router-dtype", "fp32");  // DeepEP's weights of tokens
        }
        // parallel_state.py: the world is a multiple of the product.
        const int product = mesh.etp * mesh.ep * mesh.pp;
        remarks.push_back(
            fmt::format("experts: etp {} * ep {} * pp {} = {}, which divides {} ranks ({} expert replicas)",
                        mesh.etp, mesh.ep, mesh.pp, product, mesh.devices(), mesh.devices() / product));
    }
    if (plan.sequence_parallel) out.flag("--sequence-parallel");
    if (plan.rank_order == "tp-cp-ep-pp-dp") out.flag("--use-tp-pp-dp-mapping");
}

void add_pipeline(const ExportInput& input, Arguments& out, std::vector<std::string>& remarks) {
    const ParallelPlan& plan = input.plan();
    if (plan.mesh.pp == 1) return;
    const std::vector<int> counts = blocks_per_stage(input.document.graph, plan.stages);
    const bool even = std::all_of(counts.begin(), counts.end(), [&](int n) { return n == counts.front(); });
    if (!even) {
        const std::int64_t mtp = input.config == nullptr ? 0 : input.config->mtp_layers;
        out.value("--pipeline-model-parallel-layout", "'" + megatron_layout(counts, mtp) + "'");
    } else if (plan.virtual_stages > 1) {
        out.value("--num-virtual-stages-per-pipeline-rank", plan.virtual_stages);
    }
    if (plan.virtual_stages > 1) {
        const int group = plan.microbatch_group;
        if (group > 0 && group != plan.mesh.pp)
            out.value("--microbatch-group-size-per-virtual-pipeline-stage", group);
        if (!plan.overlap.p2p) out.flag("--no-overlap-p2p-communication");
        if (combines_passes(plan.schedule)) out.flag("--overlap-moe-expert-parallel-comm");
    } else if (plan.overlap.p2p && plan.framework == "trainwright") {
        remarks.emplace_back(
            "Megatron waits for every pipeline transfer under 1f1b; the prediction has them beside the "
            "compute "
            "(plan --for megatron predicts as Megatron runs)");
    }
}

void add_data_parallel(const ParallelPlan& plan, Arguments& out) {
    if (plan.zero_stage >= 1) out.flag("--use-distributed-optimizer");
    if (plan.zero_stage == 1) {
        // Of the optimizer's formats the one that another layout can read (NVIDIA/Megatron-LM, issue 7162).
        out.value("--ckpt-format", "torch_dist");
        out.flag("--dist-ckpt-optim-fully-reshardable");
    }
    if (fully_sharded(plan)) {
        out.flag("--use-megatron-fsdp");
        out.value("--data-parallel-sharding-strategy",
                  plan.zero_stage == 2 ? "optim_grads" : "optim_grads_params");
        out.value("--ckpt-format", "fsdp_dtensor");
        out.flag("--no-gradient-accumulation-fusion");
    }
    if (plan.zero_stage >= 1 && shard_ranks(plan) < plan.mesh.dp * plan.mesh.cp) {
        out.value("--num-distributed-optimizer-instances", plan.mesh.dp * plan.mesh.cp / shard_ranks(plan));
    }
    const bool reduces = plan.overlap.grad_reduce;
    if (reduces) out.flag("--overlap-grad-reduce");
    if (reduces && plan.overlap.param_gather && plan.zero_stage >= 1) out.flag("--overlap-param-gather");
    if (plan.bucket_bytes > 0) {
        const double element = plan.precision.gradient_fp32 ? 4 : 2;
        out.value("--ddp-bucket-size", static_cast<std::int64_t>(plan.bucket_bytes / element));
    }
    if (plan.overlap.tp && plan.sequence_parallel) out.flag("--tp-comm-overlap");
}

void add_precision(const ParallelPlan& plan, Arguments& out, std::vector<std::string>& remarks) {
    const PrecisionSpec& p = plan.precision;
    if (p.compute == Precision::Fp16) out.flag("--fp16");
    if (p.compute == Precision::Bf16 || quantised(p.compute)) out.flag("--bf16");
    if (p.compute == Precision::Fp8) out.value("--fp8-format", "hybrid");
    if (p.compute == Precision::Nvfp4) out.value("--fp4-format", "e2m1");
    if (p.compute == Precision::Fp16 && p.gradient_fp32) out.flag("--accumulate-allreduce-grads-in-fp32");
    const bool bf16 = p.compute == Precision::Bf16 || quantised(p.compute);
    if (bf16 && p.gradient_reduce == Precision::Bf16) out.flag("--grad-reduce-in-bf16");
    if (bf16 && p.gradient_fp32 && p.gradient_reduce == Precision::Bf16)
        remarks.emplace_back("Megatron accumulates gradients in bf16 where it sends them so");
    const bool small_states = p.optimizer_states != Precision::Fp32;
    if (small_states || plan.offload_optimizer > 0) out.flag("--use-precision-aware-optimizer");
    if (small_states) {
        out.value("--exp-avg-dtype", to_string(p.optimizer_states));
        out.value("--exp-avg-sq-dtype", to_string(p.optimizer_states));
    }
    if (plan.offload_optimizer > 0) {
        out.flag("--optimizer-cpu-offload");
        out.value("--optimizer-offload-fraction", plan.offload_optimizer);
    }
}

void add_recompute(const ParallelPlan& plan, Arguments& out) {
    const StageSpec& stage = plan.stages.front();  // all alike: a rule
    if (stage.recompute == RecomputeMode::Selective) {
        out.value("--recompute-granularity", "selective");
        out.value("--recompute-modules", "core_attn");
    }
    if (stage.recompute == RecomputeMode::Modules) {
        out.value("--recompute-granularity", "selective");
        out.value("--recompute-modules", fmt::format("{}", fmt::join(names_of(plan.recompute_modules), " ")));
    }
    if (stage.recompute != RecomputeMode::Full || stage.recompute_layers == 0) return;
    out.value("--recompute-granularity", "full");
    // Uniform: every block is a unit; block: the first so many of a stage.
    out.value("--recompute-method", stage.recompute_layers < 0 ? "uniform" : "block");
    out.value("--recompute-num-layers", stage.recompute_layers < 0 ? 1 : stage.recompute_layers);
}

void add_kernels(const ExportInput& input, Arguments& out, std::vector<std::string>& remarks) {
    const ParallelPlan& plan = input.plan();
    // The fused kernels compute in 16 bits.
    const bool unfused =
        plan.attention == AttentionKernel::Unfused || plan.precision.compute == Precision::Fp32;
    // transformer_config.py, softmax_type: sinks are for cuDNN's kernels and unfused ones.
    const bool sinks = input.config != nullptr && input.config->attention_sinks;
    const bool cudnn = plan.attention == AttentionKernel::CuDnn || sinks;
    if (sinks && !unfused && plan.attention != AttentionKernel::CuDnn) {
        remarks.emplace_back(
            "attention sinks take cuDNN's kernels (Transformer Engine 2.8 and later); the prediction is of "
            "the "
            "plan's own");
    }
    out.value("--attention-backend", unfused ? "unfused" : cudnn ? "fused" : "flash");
    const double dropout = plan.dropout ? 0.1 : 0;
    out.value("--hidden-dropout", dropout);
    out.value("--attention-dropout", dropout);
}

void add_batch(const ExportInput& input, Arguments& out, std::vector<std::string>& remarks) {
    const ParallelPlan& plan = input.plan();
    out.value("--micro-batch-size", plan.microbatch);
    out.value("--global-batch-size", plan.global_batch);
    out.value("--seq-length", plan.seq_len);
    constexpr std::string_view kDivisor = "--make-vocab-size-divisible-by";
    out.value(kDivisor, export_vocab_divisor(input, kDivisor, remarks));
    if (plan.optimizer == OptimizerKind::Adam) return;
    out.value("--optimizer", "sgd");
    out.value("--sgd-momentum", plan.optimizer == OptimizerKind::Sgd ? 0.0 : 0.9);
}

// The environment that arguments.py asks for.
std::string environment(const ExportInput& input) {
    const ParallelPlan& plan = input.plan();
    const std::string& device = input.document.cluster.groups.front().device.architecture;
    if (fully_sharded(plan)) return "unset CUDA_DEVICE_MAX_CONNECTIONS\n";
    if ((plan.mesh.tp > 1 || plan.mesh.cp > 1) && device != "blackwell")
        return "export CUDA_DEVICE_MAX_CONNECTIONS=1\n";
    return {};
}

}  // namespace

std::string megatron_layout(std::span<const int> counts, std::int64_t mtp_layers) {
    const auto blocks = [](int n) { return n == 0 ? "" : n == 1 ? "t" : fmt::format("t*{}", n); };
    std::string text = "E";
    for (std::size_t s = 0; s + 1 < counts.size();) {
        std::size_t end = s + 1;  // of a run of equal stages; the first one also holds the embedding
        while (s > 0 && end + 1 < counts.size() && counts[end] == counts[s])
            ++end;
        text += end - s > 1 ? fmt::format("({}|)*{}", blocks(counts[s]), end - s) : blocks(counts[s]) + "|";
        s = end;
    }
    text += blocks(counts.back());
    for (std::int64_t m = 0; m < mtp_layers; ++m)
        text += 'm';
    return text + "L";
}

PlanExport export_megatron(const ExportInput& input) {
    const ParallelPlan& plan = input.plan();
    PlanExport made;
    Arguments model, parallel;
    if (input.config != nullptr) {
        model.append(megatron_model_arguments(*input.config, plan.seq_len, made.remarks));
    } else {
        made.remarks.emplace_back("the model's own arguments are not known");
    }
    add_mesh(input, parallel, made.remarks);
    add_pipeline(input, parallel, made.remarks);
    add_batch(input, parallel, made.remarks);
    add_data_parallel(plan, parallel);
    add_precision(plan, parallel, made.remarks);
    add_recompute(plan, parallel);
    add_kernels(input, parallel, made.remarks);
    made.text = as_comments({"Megatron-LM, core 0.20: " + input.title()}) + as_comments(made.remarks) +
                environment(input);
    if (input.config != nullptr) made.text += model.text("MODEL_ARGS");
    made.text += parallel.text("PARALLEL_ARGS");
    return made;
}

}  // namespace tw
