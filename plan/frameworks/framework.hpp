// What a training framework does where a run's description is silent: kernels, gradient handling, optimizer,
// overlap, recompute. One documented row a framework and version; every entry is a choice that the
// framework's code or documentation states, never an efficiency.
//
// ParallelPlan::framework names a row; kernels follow from it (ParallelPlan::work_shape), and apply_framework
// fills the plan's own fields with the row's defaults.
#pragma once

#include <span>
#include <string>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "models/graph/layer_graph.hpp"

namespace tw {

struct ParallelPlan;

// One choice with its source: "dropout", "hidden and attention 0.1", "Megatron-LM arguments.py".
struct FrameworkFact {
    std::string_view what, value, source;
};

struct FrameworkDefaults {
    std::string_view name;      // "megatron-2022"
    std::string_view versions;  // "Megatron-LM v2.6 to v3.0"

    // Kernels.
    AttentionKernel attention = AttentionKernel::Flash2;     // where the run does not say
    AttentionKernel flash = AttentionKernel::Flash2;         // the generation behind "flash attention"
    AttentionKernel flash_hopper = AttentionKernel::Flash2;  // the same on Hopper and later
    bool fused_elementwise = true;  // bias-gelu, bias-dropout-add, scaled masked softmax in one kernel each
    bool compiled = false;          // torch.compile or XLA: point-wise chains become one kernel
    WorkShape::Loss loss = WorkShape::Loss::Separate;
    bool dropout = false;                 // 0.1 on hidden states and attention
    bool autocast = false;                // fp32 parameters, cast at use
    bool grad_accumulation_fused = true;  // the weight gradient's GEMM adds into the main gradient

    // Parameters, gradients, optimizer.
    Precision precision = Precision::Bf16;  // of matrix products, where the run does not say
    bool fp32_optimizer = true;    // fp32 states and master weights; else as the parameters, without a copy
    bool fp32_parameters = false;  // held in fp32 (sharded by FSDP), gathered and computed in 16 bits
    bool gradient_fp32 = true;     // accumulated in fp32
    bool reduce_fp32 = true;       // sent in fp32; else in the compute precision
    // Gradients live in one buffer from the start, and buckets are views of it; else the backward makes each
    // gradient and the next step frees it.
    bool gradient_buffer = true;
    double step_bytes = 0;  // that the optimizer's step allocates for each parameter it updates
    int zero_stage = 0;
    double bucket_bytes = 25.0 * 1024 * 1024;
    double bucket_parameters_per_dp = 0;  // > 0: a bucket holds max(40e6, this * dp) gradients instead

    // Overlap and communication.
    bool overlap_grad_reduce = false, overlap_param_gather = false, overlap_p2p = false, overlap_tp = false;
    // Pipeline transfers without sequence parallelism: each tensor-parallel rank sends its share of the
    // (replicated) activation, gathered again inside the receiving node (Narayanan et al. 2021, section 4.1).
    bool scatter_gather = false;
    bool sequence_parallel = false;  // where tp > 1 and the run does not say

    bool full_recompute = false;       // where the run does not say; else nothing is recomputed
    std::int64_t vocab_divisor = 128;  // padded vocabulary: a multiple of this times tp
    std::int64_t heads = 0;            // where the run does not say; 0: hidden / 128
    std::int64_t vocab = 50257;        // where the run does not say
    std::span<const FrameworkFact> facts;
};

std::span<const FrameworkDefaults* const> frameworks();  // sorted by name
const FrameworkDefaults* find_framework(std::string_view name);
// The row of that name; that of "trainwright" where it is unknown (plans of other tools keep their names).
const FrameworkDefaults& framework_defaults(std::string_view name);

// A row of one's own, for what-ifs: found by `name` from then on, not listed by frameworks(). The same name
// returns the first row that was added under it. Thread-safe.
const FrameworkDefaults& add_framework_variant(const FrameworkDefaults& row, const std::string& name);

// Sets the plan's framework and every field of it that the row decides: zero stage, precision of parameters
// and gradients, overlap, attention kernel, dropout, vocabulary divisor, bucket. The mesh must be set; the
// compute precision stays. `hopper`: the device is of the Hopper generation or later.
void apply_framework(const FrameworkDefaults& defaults, bool hopper, ParallelPlan& plan);

}  // namespace tw
