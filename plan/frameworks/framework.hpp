// What a training framework does where a run's description is silent: kernels, gradient handling, optimizer,
// overlap, recompute. One documented row a framework and version; every entry is a choice that the
// framework's code or documentation states, never an efficiency.
//
// ParallelPlan::framework names a row; kernels follow from it (ParallelPlan::work_shape), and apply_framework
// fills the plan's own fields with the row's defaults.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "models/graph/layer_graph.hpp"
#include "plan/schedule/lower.hpp"

namespace tw {

struct ParallelPlan;

// One choice with its source: "dropout", "hidden and attention 0.1", "Megatron-LM arguments.py".
struct FrameworkFact {
    std::string_view what, value, source;
};

// What the host runs to dispatch a layer (sim/cost/host_dispatch.hpp): kernels one after the other (compiled
// code, CUDA graphs aside; native executors), nothing (the passes are one CUDA graph), plain eager modules,
// those of Hugging Face's transformers, Megatron's, Megatron's with its fusions under torch.compile, and
// these around Transformer Engine's modules.
enum class HostCode : std::uint8_t {
    Kernels,
    Graph,
    Eager,
    Transformers,
    Megatron,
    MegatronCompiled,
    TransformerEngine
};

// Stages of a pipeline: none, the first and the last, all.
enum class StageSet : std::uint8_t { None, Ends, All };

// What a framework's host does beside dispatching layers, in dispatches (sim/cost/host_dispatch.hpp).
struct HostExtras {
    // Attention and routing of a mixture of experts run as CUDA graphs where the host is a Grace.
    bool graphs_on_grace = false;
    double gradient_hook = 0;  // in the backward, for each parameter tensor: what replicas add to autograd
    double uninitialised = 0;  // fills of a layer's fresh tensors, forward and backward together
    double transfer = 1;       // one end of a pipeline transfer
    double microbatch =
        0;            // of the first and the last stage: the batch to the device, the loss and its checks
    double step = 4;  // of an optimizer step
    double log_step = 0, log_tensor = 0;  // logs of every step, and for each parameter tensor
    double log_updated = 0;               // ... for each tensor that this rank's optimizer updates
    // With sharded optimizer states a rank's optimizer visits the tensors of its shard alone.
    bool step_by_shard = false;
    friend bool operator==(const HostExtras&, const HostExtras&) = default;
};

struct FrameworkDefaults {
    std::string_view name;      // "megatron-2022"
    std::string_view versions;  // "Megatron-LM v2.6 to v3.0"

    // Kernels.
    AttentionKernel attention = AttentionKernel::Flash2;     // where the run does not say
    AttentionKernel flash = AttentionKernel::Flash2;         // the generation behind "flash attention"
    AttentionKernel flash_hopper = AttentionKernel::Flash2;  // the same on Hopper and later
    bool fused_elementwise = true;  // bias-gelu, bias-dropout-add, scaled masked softmax in one kernel each
    HostCode host = HostCode::Kernels;
    // Dispatches of an optimizer step for each parameter tensor: PyTorch's fused AdamW and zero_grad visit
    // each one (1.65 us where a dispatch takes 7.7: the measurement of sim/cost/host_dispatch.hpp).
    double step_dispatches = 0.22;
    bool composite_norms = false;  // WorkShape::composite_norms
    bool norms_of_copies = false;  // WorkShape::norms_of_copies
    // This project's executor: on processors it runs and allocates what executor_work.hpp says, and its one
    // thread computes, dispatches and moves messages.
    bool own_executor = false;
    bool compiled = false;  // torch.compile or XLA: point-wise chains become one kernel
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
    bool bf16_gradients_fp32 = false;  // with bf16 both are in fp32, whatever they are with fp16
    // Gradients live in one buffer from the start, and buckets are views of it; else the backward makes each
    // gradient and the next step frees it.
    bool gradient_buffer = true;
    // What the optimizer's step allocates for each parameter it updates: at its peak, and before it in a flat
    // copy of the gradients. Then what sends the updated parameters: a gather of so many elements at a time
    // into a flat buffer (0: in place).
    double step_bytes = 0, step_flat_bytes = 0, flat_gather_elements = 0;
    // Under ZeRO-3 the step updates so many parameters of a rank's share at a time, and the next forward
    // gathers them; 0: all at once.
    double sub_group_elements = 0;
    // ZeRO-1 by whole tensors: gradients are all-reduced, each rank updates the tensors it owns and
    // broadcasts them, one rank after the other.
    bool zero1_by_tensor = false;
    double bucket_copy_bytes = 0;  // moved by kernels for each gradient, into a bucket and out of it again
    bool norm_in_double = false;   // the gradient norm copies a tensor at a time to fp64
    bool expandable_segments = false;  // PYTORCH_CUDA_ALLOC_CONF
    bool stream_pools = false;         // gathers and reduced gradients are allocated on streams of their own
    bool launch_blocking = false;      // CUDA_LAUNCH_BLOCKING=1: the host waits for every kernel
    bool lazy_kernels = true;          // the context loads kernels at their first use (CUDA 11.7 and later)
    int buckets_in_flight = 1;
    // ZeRO-3 without overlapped reductions: they run on the stream that computes; else on one of their own
    // all the same.
    bool reduces_on_compute = false;
    // ZeRO-3: bytes that kernels move for each parameter between flat buffers and tensors, after a gather and
    // before a reduction.
    double gather_copy_bytes = 0, reduce_copy_bytes = 0;
    // In fp8 and nvfp4, of a module's weight: its casts for the forward and for the input gradient, which
    // live beside it from a step's first microbatch on. 0: cast anew for every product.
    int weight_casts = 0;
    // In fp8 parameters are held as their casts, and gathered in it; else, and in nvfp4, in 16 bits.
    bool fp8_parameters = false;
    bool fused_optimizer = true;  // one kernel reads and writes everything once
    double live_parameters = 0;   // ZeRO-3 keeps up to so many gathered; 0: a layer and the one prefetched
    int zero_stage = 0;
    // ZeRO 2 and 3 are PyTorch's fully_shard without and with reshard_after_forward, layer by layer
    // (plan/sharded_layers.hpp).
    bool fsdp = false;
    double bucket_bytes = 25.0 * 1024 * 1024;
    double bucket_parameters_per_dp = 0;  // > 0: a bucket holds max(40e6, this * dp) gradients instead

    // Overlap and communication.
    bool overlap_grad_reduce = false, overlap_param_gather = false, overlap_p2p = false, overlap_tp = false;
    // Transfers that are not overlapped, in the schedules of the framework's own loops (1F1B, plain and
    // interleaved). Where these block, its zero-bubble runtime still posts.
    LoweringOptions::P2pCalls p2p_calls = LoweringOptions::P2pCalls::Posted;
    bool p2p_synchronised_by_tp = false;            // Blocking becomes Synchronised where tp > 1
    bool overlap_p2p_needs_virtual_stages = false;  // overlap_p2p: where a rank has several alone
    // Every forward of these stages begins with a value that the host reads back from the device; then so
    // many dispatches until the first kernel of the model.
    StageSet batch_read_back = StageSet::None;
    double batch_dispatches = 0;
    // Pipeline transfers without sequence parallelism: each tensor-parallel rank sends its share of the
    // (replicated) activation, gathered again inside the receiving node (Narayanan et al. 2021, section 4.1).
    bool scatter_gather = false;
    bool sequence_parallel = false;  // where tp > 1 and the run does not say

    // Of DeepSeek's models on Hopper: a message for each node (WorkShape::ExpertDispatch).
    bool deepseek_per_node = false;
    bool full_recompute = false;  // where the run does not say; else nothing is recomputed
    // Recomputation is a matter of the recipe: a run that does not state it may do either, and its prediction
    // is as uncertain as the two lie apart.
    bool recipe_recompute = false;
    // DeepSeek-V3's recipes recompute the latent up-projection, on Hopper plain MLPs too.
    bool deepseek_modules = false;
    bool selective_by_op = false;  // what "selective" means: operation by operation, else the attention core
    std::int64_t vocab_divisor = 128;  // padded vocabulary: a multiple of this times tp
    std::int64_t heads = 0;            // where the run does not say; 0: hidden / 128
    std::int64_t vocab = 50257;        // where the run does not say
    std::span<const FrameworkFact> facts;
    HostExtras host_extras = {};
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
