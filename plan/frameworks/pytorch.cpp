// Plain PyTorch: a model in a loop, with DistributedDataParallel where there are replicas.
#include <array>

#include "plan/frameworks/tables.hpp"

namespace tw {
namespace {

constexpr std::array kFacts = {
    FrameworkFact{"attention", "scaled_dot_product_attention: FlashAttention-2",
                  "PyTorch 2.11 aten/native/transformers/cuda/sdp_utils.cpp, priority order"},
    FrameworkFact{"autocast", "fp32 parameters, gradients and states under bf16 autocast",
                  "PyTorch docs, torch.amp"},
    FrameworkFact{
        "grad_accumulation_fused", "no",
        "AccumulateGrad adds in a kernel of its own (torch/csrc/autograd/functions/accumulate_grad.h)"},
    FrameworkFact{"bucket", "25 MiB", "torch.nn.parallel.DistributedDataParallel, bucket_cap_mb"},
    FrameworkFact{"fsdp", "ZeRO 2 and 3, parameters gathered in 16 bits, which autocast need not cast",
                  "torch.distributed.fsdp: SHARD_GRAD_OP, FULL_SHARD, MixedPrecision; accelerate "
                  "utils/dataclasses.py, FullyShardedDataParallelPlugin.set_mixed_precision"},
    FrameworkFact{"vocab_divisor", "1", "nothing pads"},
};

constexpr std::array kFactsTransformersOwn = {
    FrameworkFact{"loss", "cross_entropy of an fp32 copy; logits freed before the backward",
                  "transformers loss/loss_utils.py, ForCausalLMLoss: logits.float()"},
    FrameworkFact{"gelu_new", "an operation after the other",
                  "transformers activations.py, NewGELUActivation"},
    FrameworkFact{
        "composite_norms", "RMS norms keep an fp32 copy and the normalised product",
        "transformers models/llama/modeling_llama.py, LlamaRMSNorm; tensors saved by its autograd graph"},
};

constexpr auto kFactsTransformers = join(kFacts, kFactsTransformersOwn);

constexpr FrameworkDefaults pytorch(std::string_view name, std::string_view versions) {
    FrameworkDefaults d;
    d.name = name;
    d.versions = versions;
    d.fused_elementwise = false;
    d.autocast = true;
    d.host = HostCode::Eager;
    d.fp32_parameters = true;
    d.fsdp = true;
    d.grad_accumulation_fused = false;
    d.gradient_buffer = false;
    d.overlap_grad_reduce = true;
    d.vocab_divisor = 1;
    d.facts = kFacts;
    return d;
}

constexpr FrameworkDefaults make_pure() {
    FrameworkDefaults d = pytorch("pytorch-bf16", "PyTorch 2.x, eager, parameters and states in bf16");
    d.autocast = d.fp32_parameters = d.fp32_optimizer = false;
    d.gradient_fp32 = d.reduce_fp32 = false;
    return d;
}

constexpr FrameworkDefaults make_compile(bool pure) {
    FrameworkDefaults d = pure ? make_pure() : pytorch("", "");
    d.name = pure ? "pytorch-compile-bf16" : "pytorch-compile";
    d.versions = pure ? "PyTorch 2.x, torch.compile, parameters and states in bf16"
                      : "PyTorch 2.x, torch.compile under autocast";
    d.compiled = true;
    d.host = HostCode::Kernels;
    d.fused_elementwise = true;
    d.loss = WorkShape::Loss::Fused;
    return d;
}

constexpr FrameworkDefaults make_transformers(bool pure) {
    FrameworkDefaults d = pure ? make_pure() : pytorch("", "");
    d.name = pure ? "transformers-bf16" : "transformers";
    d.versions = pure ? "Hugging Face transformers 5, eager, parameters and states in bf16"
                      : "Hugging Face transformers 5, eager under autocast";
    d.host = HostCode::Transformers;
    d.composite_norms = true;
    d.loss = WorkShape::Loss::LogSoftmax;
    d.facts = kFactsTransformers;
    return d;
}

constexpr FrameworkDefaults make_trainwright() {
    FrameworkDefaults d;
    d.name = "trainwright";
    d.versions = "this project's executor";
    d.overlap_grad_reduce = d.overlap_p2p = true;
    d.own_executor = true;
    return d;
}

}  // namespace

const FrameworkDefaults kPytorch = pytorch("pytorch", "PyTorch 2.x, eager under autocast");
const FrameworkDefaults kPytorchCompile = make_compile(false);
const FrameworkDefaults kPytorchCompilePure = make_compile(true);
const FrameworkDefaults kPytorchPure = make_pure();
const FrameworkDefaults kTransformers = make_transformers(false);
const FrameworkDefaults kTransformersPure = make_transformers(true);
const FrameworkDefaults kTrainwright = make_trainwright();

}  // namespace tw
