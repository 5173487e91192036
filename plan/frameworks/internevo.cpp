// InternEvo (InternLM's training framework).
#include <array>

#include "plan/frameworks/tables.hpp"

namespace tw {
namespace {

constexpr std::array kFacts = {
    FrameworkFact{
        "norms_of_copies", "yes",
        "InternEvo model/modeling_internlm.py, PackedFlashBaseLayer1D: norm1(_residual.float()) under "
        "activation_checkpoint (dropout_selective_checkpoint = True, where the layer has none)"},
    FrameworkFact{
        "zero1_by_tensor", "yes",
        "InternEvo solver/optimizer/hybrid_zero_optim.py: _partition_param_list deals whole tensors "
        "out, _attach_reduction_hook has reduce_rank = None (all-reduce), broadcast_params sends each "
        "rank's"},
    FrameworkFact{"bucket_copy_bytes", "8: flattened, and copied back",
                  "InternEvo solver/optimizer/hybrid_zero_optim.py, _reduce_and_copy: bucket.flatten(); "
                  "_reduce_grads_by_rank: bucket.unflatten_and_copy()"},
    FrameworkFact{
        "step_bytes", "4 + 8: the gradient in fp32; AdamW's square root and its quotient",
        "InternEvo solver/optimizer/hybrid_zero_optim.py, _step: flat_fp32_avg_grads; "
        "train/pipeline.py: torch.optim.AdamW, fused from PyTorch 2.1 on; doc/en/install.md: images "
        "with PyTorch 1.13.1; its optim/adamw.py, _single_tensor_adamw: exp_avg_sq.sqrt() / ..."},
    FrameworkFact{"fused_optimizer", "no", "the same"},
    FrameworkFact{"step_flat_bytes", "2: the gradients flat in bf16",
                  "InternEvo solver/optimizer/hybrid_zero_optim.py, _step: flat_fp16_avg_grads"},
    FrameworkFact{"bucket", "512 Mi elements, two in flight",
                  "InternEvo configs/7B_sft.py, reduce_bucket_size; hybrid_zero_optim.py counts elements "
                  "(num_elements_in_bucket) and flattens the next bucket while one is in progress"},
    FrameworkFact{"overlap_grad_reduce", "yes", "InternEvo configs/7B_sft.py, overlap_sync_grad=True"},
    FrameworkFact{"overlap_param_gather", "no", "InternEvo configs/7B_sft.py, overlap_sync_param=False"},
    FrameworkFact{"gradient_fp32", "no: gradients in bf16",
                  "InternEvo solver/optimizer/hybrid_zero_optim.py: buckets of the parameters' dtype"},
    FrameworkFact{"attention", "FlashAttention-1", "InternLM doc/en/install.md: flash-attention v1.0.5"},
    FrameworkFact{"fused_elementwise", "rotary embedding and cross entropy of flash-attn, norm of apex",
                  "InternLM doc/en/install.md: csrc of flash-attention, apex"},
    FrameworkFact{"zero_stage", "1", "InternEvo configs/7B_sft.py, zero1=dict(size=-1)"},
    FrameworkFact{"vocab_divisor", "1", "InternEvo pads nothing: configs/7B_sft.py VOCAB_SIZE = 103168"},
};

constexpr FrameworkDefaults make() {
    FrameworkDefaults d;
    d.name = "internevo";
    d.versions = "InternEvo 0.2 to 0.4, 2023-2024";
    d.attention = d.flash = AttentionKernel::Flash1;
    d.host = HostCode::Eager;
    d.fused_elementwise = true;
    d.grad_accumulation_fused = false;
    d.gradient_fp32 = d.reduce_fp32 = false;
    d.gradient_buffer = false;
    d.loss = WorkShape::Loss::Fused;
    d.step_bytes = 12;
    d.zero_stage = 1;
    d.overlap_grad_reduce = true;
    d.step_flat_bytes = 2;
    d.fused_optimizer = false;
    d.zero1_by_tensor = true;
    d.bucket_copy_bytes = 8;
    d.norms_of_copies = true;
    d.bucket_bytes = 2 * 512.0 * 1024 * 1024;
    d.buckets_in_flight = 2;
    d.vocab_divisor = 1;
    d.facts = kFacts;
    return d;
}

}  // namespace

const FrameworkDefaults kInternEvo = make();

}  // namespace tw
