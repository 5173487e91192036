// One operation of a layer as one rank runs it: a kernel with its shape, or a collective of the layer's own
// (tensor, context or expert parallel). Shapes are per rank, already divided by the parallel degrees. No
// durations: those come from a cost model (sim/cost) or from running (real_exec).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "base/units.hpp"
#include "models/graph/recompute_modules.hpp"

namespace tw {

// Nvfp4: 4-bit values (E2M1) and an 8-bit scale for every 16 of them (Transformer Engine,
// common/recipe/__init__.py, NVFP4BlockScaling).
enum class Precision : std::uint8_t { Fp32, Tf32, Fp16, Bf16, Fp8, Nvfp4 };
enum class GemmForm : std::uint8_t { Forward, InputGrad, WeightGrad };
enum class AttentionKernel : std::uint8_t { Unfused, Flash1, Flash2, Flash3, CuDnn };
enum class CollectiveKind : std::uint8_t {
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
    Broadcast,
    Reduce,
    SendRecv
};
// Mesh axes (DeviceMesh). Edp: replicas of an expert shard; Etp: tensor parallel inside an expert.
enum class Axis : std::uint8_t { Tp, Cp, Ep, Etp, Dp, Edp, Pp };

// D[m,n] = sum over k, `batch` times. Forward y = x w: m tokens, n outputs, k inputs. InputGrad: m tokens, n
// inputs, k outputs. WeightGrad: m outputs, n inputs, k tokens. `groups` > 1: a grouped GEMM of MoE experts
// (m per group).
struct Gemm {
    std::int64_t m = 0, n = 0, k = 0;
    std::int64_t batch = 1;
    std::int64_t groups = 1;
    GemmForm form = GemmForm::Forward;
    Precision precision = Precision::Bf16;
    bool accumulate =
        false;  // adds into fp32 main gradients (WeightGrad): reads and writes 4 bytes per output
};

// softmax(q k^T / sqrt(d)) v. The backward costs 2.5 times the forward's matrix products (Dao 2022, flash) or
// 2 (unfused). Unfused is emitted as batched Gemms and MemoryOps instead; this op is a fused kernel.
struct Attention {
    std::int64_t batch = 0, seq_q = 0, seq_kv = 0, heads = 0, kv_heads = 0, head_dim_qk = 0, head_dim_v = 0;
    bool causal = true;
    std::int64_t window = 0;  // sliding window in tokens; 0: none
    bool backward = false;
    AttentionKernel kernel = AttentionKernel::Flash2;
    Precision precision = Precision::Bf16;
};

enum class MemoryOpKind : std::uint8_t {
    Norm,
    Softmax,
    Activation,
    Add,
    Dropout,
    Rope,
    Embedding,
    CrossEntropy,
    Cast,
    Copy,
    Permute,
    Optimizer,
    GradAccumulate,
    BiasAct,
    BiasDropoutAdd,
    Router,
    Pool,
    Other
};

// A kernel bound by memory: bytes read plus written, and its (few) flops.
struct MemoryOp {
    MemoryOpKind kind = MemoryOpKind::Other;
    double bytes = 0;
    double flops = 0;
    bool backward = false;
    Precision precision = Precision::Bf16;
};

// 2-D convolution, NCHW sizes of the output; groups as usual. Costed as an implicit GEMM.
struct Convolution {
    std::int64_t batch = 0, in_channels = 0, out_channels = 0, out_height = 0, out_width = 0, kernel_h = 1,
                 kernel_w = 1, stride = 1, groups = 1;
    GemmForm form = GemmForm::Forward;
    Precision precision = Precision::Fp32;
};

// A duration that somebody measured on hardware of the named kind (PipeDream profiles).
struct MeasuredOp {
    double seconds = 0;
};

// An exchange of tokens between experts that sends a token to a node once, from where the node's own links
// take it to the experts it chose there (DeepSeek-AI 2024, 2412.19437, section 3.2.2; DeepEP): to how many
// experts a token goes, and in how many of how many groups of them (0: no groups). No copies: a message for
// each expert.
struct NodeSpread {
    std::int64_t copies = 0, groups = 0, chosen = 0;
};

// `bytes` is the size that nccl-tests would print: AllReduce the buffer, AllGather and ReduceScatter the
// whole gathered buffer, AllToAll the buffer of one rank, SendRecv the message.
struct CollectiveOp {
    CollectiveKind kind = CollectiveKind::AllReduce;
    Axis axis = Axis::Tp;
    double bytes = 0;
    // Runs beside the compute that follows it until the next op with `joins` set (sequence parallel's
    // re-gather behind the input gradient, ring attention's exchange, DualPipe's all-to-all). Otherwise
    // compute waits for it.
    bool overlaps = false;
    NodeSpread spread = {};
};

enum class Phase : std::uint8_t { Forward, BackwardInput, BackwardWeight };

// When a forward op is run again in the backward: never, with selective recompute or more, with full only.
enum class RecomputeLevel : std::uint8_t { None, Selective, Full };

struct Op {
    std::string name;  // "attn.qkv", "mlp.down"; the same in forward and backward
    std::variant<Gemm, Attention, MemoryOp, Convolution, MeasuredOp, CollectiveOp> body;
    Phase phase = Phase::Forward;
    RecomputeLevel recompute = RecomputeLevel::Full;
    RecomputeModules modules = {};  // of the forward: those with which it runs again
    bool joins = false;             // waits for every earlier overlapping collective first
    // The sizes of what follows are made on the device (routing without a padded capacity): a host that
    // dispatches by them waits for it first.
    bool makes_sizes = false;
    bool unless_recomputed = false;  // of the backward: not where the whole layer's forward runs again
    double host_dispatches =
        1;  // framework ops the host dispatches for it in eager mode (0: fused into its neighbour)
};

// Floating-point operations of an op (2 per multiply-add); collectives 0. Attention counts the causal half
// only where `causal_half` (Megatron's convention halves it; MPT's does not).
FlopCount op_flops(const Op& op, bool causal_half = true);
// Bytes read plus written in device memory by a kernel (collectives 0).
double op_bytes(const Op& op);
double bytes_per_element(Precision precision);  // Fp32, Tf32 4; Fp16, Bf16 2; Fp8 1; Nvfp4 9/16 with scales
// Modules cast the operands of their products to it, and all else stays in 16 bits: Fp8, Nvfp4.
bool quantised(Precision precision);
// Of tensors between the modules that run in `precision`: quantised training keeps bf16 activations.
Precision activation_precision(Precision precision);
int activation_bytes(Precision precision);

std::string_view to_string(Precision precision);     // "fp32", "tf32", ...
std::string_view to_string(CollectiveKind kind);     // "all_reduce", ...
std::string_view to_string(Axis axis);               // "tp", ...
std::string_view to_string(AttentionKernel kernel);  // "unfused", "flash1", ...

}  // namespace tw
