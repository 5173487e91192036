// Fully sharded data parallelism: Composer, torchtitan, MaxText.
#include <array>

#include "plan/frameworks/tables.hpp"

namespace tw {
namespace {

constexpr std::array kFactsComposer = {
    FrameworkFact{"loss", "flash-attn's cross entropy",
                  "llm-foundry models/mpt/modeling_mpt.py: loss_fn defaults to fused_crossentropy"},
    FrameworkFact{"attention", "Triton's FlashAttention-1 kernel",
                  "llm-foundry scripts/train/benchmarking/submit_benchmarks.py: --attn_impl triton, image "
                  "pytorch 1.13.1"},
    FrameworkFact{"fused_elementwise", "none: eager modules of PyTorch 1.13",
                  "the same file; llmfoundry/models/layers"},
    FrameworkFact{
        "autocast", "parameters are gathered in bf16, norms in bf16",
        "Composer mixed precision (param_dtype bf16); submit_benchmarks.py: low_precision_layernorm"},
    FrameworkFact{"reduce", "DEFAULT: fp32, PURE: bf16",
                  "composer/trainer/mosaic_fsdp.py, get_mixed_precision"},
    FrameworkFact{
        "reduce_copy_bytes", "4, and 6 where the reduction is in fp32",
        "PyTorch 1.13 distributed/fsdp/flat_param.py: the flat gradient is the concatenation of its "
        "views' (split's backward); fully_sharded_data_parallel.py, _post_backward_hook: cast to "
        "reduce_dtype"},
    FrameworkFact{"overlap", "gathers prefetched, reductions beside the backward",
                  "PyTorch FSDP; llm-foundry yamls: limit_all_gathers, backward_prefetch (FSDP's default)"},
    FrameworkFact{"vocab_divisor", "1", "the yamls state 50368"},
};

constexpr std::array kFactsTorchtitan = {
    FrameworkFact{
        "attention", "scaled_dot_product_attention: FlashAttention-2",
        "torchtitan models/llama/model.py, F.scaled_dot_product_attention (PyTorch 2.6: flash before cuDNN)"},
    FrameworkFact{"reduce", "fp32", "torchtitan config mixed_precision_reduce: float32"},
    FrameworkFact{"loss", "cross_entropy of an fp32 copy, eager; logits freed before the backward",
                  "torchtitan train.py, loss_fn (\"compiling loss function causes CUDA errors, turning off "
                  "for now\") and del pred"},
    FrameworkFact{"expandable_segments", "on",
                  "torchtitan run_llama_train.sh, PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"},
    FrameworkFact{"gather_copy_bytes, reduce_copy_bytes", "4 and 6",
                  "PyTorch distributed/fsdp/_fully_shard/_fsdp_collectives.py, foreach_all_gather_copy_out "
                  "(bf16 to bf16) and foreach_reduce_scatter_copy_in (bf16 to fp32)"},
    FrameworkFact{
        "stream_pools", "yes",
        "PyTorch distributed/fsdp/_fully_shard/_fsdp_collectives.py: foreach_all_gather allocates on "
        "the copy-in stream, foreach_reduce on the reduce-scatter stream"},
    FrameworkFact{"selective_by_op", "yes",
                  "torchtitan train_configs/llama3_8b.toml, selective_ac_option = 'op'; "
                  "parallelize_llama.py, _save_list"},
    FrameworkFact{"compiled", "per transformer block where the run says so",
                  "torchtitan parallelize_llama.py, apply_compile"},
    FrameworkFact{"bucket", "100 MiB, without ZeRO",
                  "torchtitan parallelize_llama.py, apply_ddp: replicate(..., bucket_cap_mb=100)"},
    FrameworkFact{"vocab_divisor", "1", "torchtitan pads nothing"},
    FrameworkFact{"sequence_parallel", "where tp > 1", "torchtitan parallelize_llama.py, apply_tp"},
};

constexpr std::array kFactsMaxText = {
    FrameworkFact{"compiled", "XLA", "MaxText README"},
    FrameworkFact{"attention", "cuDNN", "MaxText attention: cudnn_flash_te on GPUs"},
    FrameworkFact{"full_recompute", "yes", "MaxText configs/base.yml: remat_policy: 'full'"},
};

constexpr FrameworkDefaults fsdp(std::string_view name, std::string_view versions) {
    FrameworkDefaults d;
    d.name = name;
    d.versions = versions;
    d.grad_accumulation_fused = false;
    d.fp32_parameters = true;
    d.zero_stage = 3;
    d.fsdp = true;
    d.overlap_grad_reduce = true;
    d.overlap_param_gather = true;
    d.vocab_divisor = 1;
    d.gradient_buffer = false;
    return d;
}

constexpr FrameworkDefaults composer(std::string_view name, bool pure) {
    FrameworkDefaults d = fsdp(name, pure ? "llm-foundry, Composer FSDP with mixed_precision PURE, 2023"
                                          : "llm-foundry, Composer FSDP with mixed_precision DEFAULT, 2023");
    d.attention = d.flash = AttentionKernel::Flash1;
    d.flash_hopper = AttentionKernel::Flash2;
    d.host = HostCode::Eager;
    d.fused_elementwise = false;
    d.reduce_fp32 = !pure;
    d.reduce_copy_bytes = pure ? 4 : 4 + 6;
    d.loss = WorkShape::Loss::Fused;
    d.facts = kFactsComposer;
    return d;
}

constexpr FrameworkDefaults torchtitan(std::string_view name, bool compiled) {
    FrameworkDefaults d =
        fsdp(name, compiled ? "torchtitan 2024-12, torch.compile" : "torchtitan 2024-12, eager");
    d.fused_elementwise = d.compiled = compiled;
    d.host = compiled ? HostCode::Kernels : HostCode::Eager;
    d.selective_by_op = true;
    d.loss = WorkShape::Loss::LogSoftmax;
    d.gather_copy_bytes = 4;
    d.reduce_copy_bytes = 6;
    d.expandable_segments = d.stream_pools = true;
    d.bucket_bytes = 100.0 * 1024 * 1024;
    d.sequence_parallel = true;
    d.facts = kFactsTorchtitan;
    return d;
}

constexpr FrameworkDefaults make_maxtext() {
    FrameworkDefaults d = fsdp("maxtext", "MaxText 2025, XLA on GPUs");
    d.compiled = true;
    d.attention = d.flash = d.flash_hopper = AttentionKernel::CuDnn;
    d.reduce_fp32 = false;
    d.loss = WorkShape::Loss::Fused;
    d.full_recompute = true;
    d.facts = kFactsMaxText;
    return d;
}

}  // namespace

const FrameworkDefaults kComposer = composer("composer-fsdp", false);
const FrameworkDefaults kComposerPure = composer("composer-fsdp-pure", true);
const FrameworkDefaults kTorchtitan = torchtitan("torchtitan", true);
const FrameworkDefaults kTorchtitanEager = torchtitan("torchtitan-eager", false);
const FrameworkDefaults kMaxText = make_maxtext();

}  // namespace tw
