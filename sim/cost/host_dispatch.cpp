#include "sim/cost/host_dispatch.hpp"

#include <algorithm>

namespace tw {
namespace {

// A dispatch is 5.3 transpositions of framework and the call of the device, 7.7 us together on the core of
// the header's measurements; a view calls no device.
constexpr double kForwardView = 2.5 / 7.7, kBackwardView = 1.8 / 7.7;
// The host of compiled code and of native executors calls one kernel after the other: the tight loop of the
// profile's mode "eager", 12.5 us against 18.3 us on the H200.
constexpr double kTightLoop = 0.68;
// torch.distributed.all_reduce with a process group that sends nothing: 8 us beside the device's call.
constexpr double kCollective = 1.4;

// Hooks, keyword arguments and the attention interface of a Hugging Face layer (transformers 5.17: GPT-2, OPT
// and Mistral take 93, 117 and 110 us more in the forward than the same operations in plain modules).
constexpr double kTransformersLayer = 107 / 7.7;

// A whole layer of Megatron-Core 0.16 (local specification, unfused attention, dropout): 1079 us forward and
// 685 us backward with its fusions as plain functions, 1420 us and 790 us with torch.compile around them
// (core/jit.py, jit_fuser from PyTorch 2.2 on), 257 us for a checkpoint's random states and its own autograd
// function; 45 calls of the device forward, 49 backward.
constexpr double kDevice_us = 2.95;
constexpr double kMegatronForward = (1079 + 45 * kDevice_us) / 7.7;
constexpr double kMegatronBackward = (685 + 49 * kDevice_us) / 7.7;
constexpr double kMegatronCompiledForward = (1420 + 35 * kDevice_us) / 7.7;
constexpr double kMegatronCompiledBackward = (790 + 39 * kDevice_us) / 7.7;
constexpr double kMegatronCheckpoint = 257 / 7.7;

// The same layer of Transformer Engine's modules (2.11), whose compiled functions were replaced by ones that
// return a tensor: 1.67 and 1.56 times the local layer's forward and backward on the same core with its
// unfused attention (which makes its causal mask anew), 1.22 and 1.08 times with a fused one. Kernels read
// off: forward 22 and 12, backward 38 and 31. Megatron's fusions around them cost what they cost the local
// layer.
struct TwoPasses {
    double forward, backward;
};
constexpr double kCompiledForward_us = 1420 - 1079, kCompiledBackward_us = 790 - 685;
constexpr TwoPasses kEngineUnfused = {(1.67 * 1079 + kCompiledForward_us + 22 * kDevice_us) / 7.7,
                                      (1.56 * 685 + kCompiledBackward_us + 38 * kDevice_us) / 7.7};
constexpr TwoPasses kEngineFused = {(1.22 * 1079 + kCompiledForward_us + 12 * kDevice_us) / 7.7,
                                    (1.08 * 685 + kCompiledBackward_us + 31 * kDevice_us) / 7.7};

// Its mixture of experts in the place of the feed-forward network (core/transformer/moe: router, auxiliary
// loss, token dispatcher, permutation), whose parts were counted on CPU tensors, not timed: calls of Python
// functions (cProfile), aten operations and views. A call is 1.33 us forward and 2.4 us backward, where the
// dense layer's 1079 and 685 us leave that much for each of its 603 and 123 calls beside 41 and 65 operations
// (4.75 us) and 34 and 45 views (2.5 and 1.8 us).
struct Counted {
    double calls, operations, views;
};
constexpr double us(Counted c, double call, double view) {
    return c.calls * call + c.operations * (4.75 + kDevice_us) + c.views * view;
}
constexpr double forward_of(Counted c) {
    return us(c, 1.33, 2.5) / 7.7;
}
constexpr double backward_of(Counted c) {
    return us(c, 2.4, 1.8) / 7.7;
}
// A layer with 2 experts takes 1212 calls, 60 operations and 73 views forward, 460, 97 and 69 backward; with
// 8 experts 2282, 90 and 115, then 1294, 232 and 126. So without any, and for each (as one network of its
// own):
constexpr Counted kExpertsForward = {856, 50, 59}, kExpertsBackward = {182, 52, 50};
constexpr Counted kExpertForward = {178, 5, 7}, kExpertBackward = {139, 22.5, 9.6};
// Transformer Engine's attention under ring context parallelism (dot_product_attention/context_parallel.py,
// AttnFuncWithCPAndKVP2P with a fused core and a causal mask; counted with 2 and 4 ranks against none): what
// comes once, and for each exchange of keys and values (the chunk's core, its log-sum-exp and its output
// corrected, a send and a receive).
constexpr Counted kRingForward = {135, 9, 18}, kRingBackward = {200, 13, 44};
constexpr Counted kExchangeForward = {76, 14, 15}, kExchangeBackward = {25, 5, 18};
// Core's GPTModel around its layers, as calls, operations and views: the embeddings; the last norm, the
// output layer and the vocabulary-parallel loss (whose three collectives are counted as such).
constexpr Counted kEmbeddingForward = {95, 5, 2}, kEmbeddingBackward = {50, 2, 4};
constexpr Counted kHeadForward = {394, 25, 16}, kHeadBackward = {128, 15, 14};
// Transformer Engine's GroupedLinear runs all experts of a rank as one network, two of its modules; each of
// them takes for an expert its weight (__getattr__), a slice of the tokens and a product, then two products,
// two slices, a fresh gradient and four calls that pass it on (pytorch/module/grouped_linear.py 2.11, forward
// and backward).
constexpr double kGroupForward = 2 * (1.33 + 2.5 + kDevice_us) / 7.7;
constexpr double kGroupBackward = 2 * (4 * 1.33 + 2 * 1.8 + 1.1 + 2 * kDevice_us) / 7.7;
// FP8 in Transformer Engine, and for want of a measurement NVFP4 (its modules as above, MXFP8; 4 and 32
// experts): a tensor takes 12.6 us (four fresh ones, and a Python object as its make_empty builds it) and a
// kernel. Forward the input is quantised, backward the gradient; weights once a step (Megatron-LM
// core/extensions/transformer_engine.py, is_first_microbatch). The modules' own code takes 97 and 104 us
// more, a grouped one's 69 and 70 us, and for each expert 6.0 us forward and 9.4 us backward in all.
constexpr double kQuantised_us = 12.6 + kDevice_us;
constexpr TwoPasses kFp8Module = {(97 + kQuantised_us) / 7.7, (104 + kQuantised_us) / 7.7};
constexpr TwoPasses kFp8Group = {69 / 7.7, 70 / 7.7};
constexpr TwoPasses kFp8Expert = {2 * (6.0 + kQuantised_us + kDevice_us) / 7.7,
                                  2 * (9.4 + kQuantised_us + 2 * kDevice_us) / 7.7};

bool is_collective(const Op& op) {
    return std::holds_alternative<CollectiveOp>(op.body);
}

bool is_kind(const Op& op, MemoryOpKind kind) {
    const auto* memory = std::get_if<MemoryOp>(&op.body);
    return memory != nullptr && memory->kind == kind;
}

// The layers that a framework builds from its own attention and feed-forward modules.
bool is_block(const LayerWork& work) {
    return std::any_of(work.forward.begin(), work.forward.end(),
                       [](const Op& op) { return op.name.rfind("attn.", 0) == 0; });
}

bool has_bias(const LayerWork& work, const Op& linear) {
    return std::any_of(work.backward.begin(), work.backward.end(), [&](const Op& op) {
        return op.phase == Phase::BackwardWeight && op.name == linear.name &&
               is_kind(op, MemoryOpKind::Other);
    });
}

double eager_forward(const LayerWork& work, const Op& op) {
    if (is_collective(op)) return kCollective;
    if (const auto* gemm = std::get_if<Gemm>(&op.body)) {
        // The weight's transposition, the input as a matrix, the output as it was.
        return gemm->batch > 1 ? 1 + 2 * kForwardView : 1 + 3 * kForwardView;
    }
    if (std::holds_alternative<Attention>(op.body))
        return 1 + 9 * kForwardView;  // heads apart, and together again
    // Rotary embedding: five operations a tensor and the slices of its halves.
    if (is_kind(op, MemoryOpKind::Rope) && op.host_dispatches > 1)
        return op.host_dispatches + 4 * kForwardView;
    if (is_kind(op, MemoryOpKind::Cast) && op.host_dispatches == 1) {
        const bool of_weight = std::any_of(work.forward.begin(), work.forward.end(), [&](const Op& other) {
            return other.name == op.name && std::holds_alternative<Gemm>(other.body);
        });
        return of_weight && has_bias(work, op) ? 2 : 1;
    }
    return op.host_dispatches;
}

double eager_backward(const LayerWork& work, const Op& op) {
    if (is_collective(op)) return kCollective;
    if (const auto* gemm = std::get_if<Gemm>(&op.body)) {
        if (gemm->batch > 1) return 1 + 2 * kBackwardView;
        // Transpositions, shapes, and for a weight its gradient's accumulation.
        return 1 + (gemm->form == GemmForm::WeightGrad ? 5 : 3) * kBackwardView;
    }
    if (std::holds_alternative<Attention>(op.body))
        return 2 + 8 * kBackwardView;  // with the joining of q, k and v
    if (is_kind(op, MemoryOpKind::Norm)) return op.host_dispatches + 2 * kBackwardView;
    if (is_kind(op, MemoryOpKind::Rope) && op.host_dispatches > 1)
        return 2 * op.host_dispatches + 4 * kBackwardView;
    if (is_kind(op, MemoryOpKind::Cast) && op.phase == Phase::BackwardWeight)
        return has_bias(work, op) ? 2 : 1;
    return op.host_dispatches;
}

// The host's time of a whole layer, spread over its operations.
void spread(const std::vector<Op>& ops, double total, std::vector<double>& dispatches) {
    const auto kernels = static_cast<double>(
        std::count_if(ops.begin(), ops.end(), [](const Op& op) { return !is_collective(op); }));
    for (std::size_t i = 0; i < ops.size(); ++i)
        dispatches[i] = is_collective(ops[i]) ? kCollective : total / kernels;
}

// A replay of two graphs (attention; router and what counts the tokens of each expert): Transformer Engine's
// make_graphed_callables copies the input and replays, in one autograd function each.
constexpr double kGraphs = 2 * (20 * 1.33 + 2 * 7.7) / 7.7;

bool is_megatron(HostCode code) {
    return code == HostCode::Megatron || code == HostCode::MegatronCompiled ||
           code == HostCode::TransformerEngine;
}

bool has_fused_attention(const LayerWork& work) {
    return std::any_of(work.forward.begin(), work.forward.end(),
                       [](const Op& op) { return std::holds_alternative<Attention>(op.body); });
}

TwoPasses megatron_layer(const LayerWork& work, HostCode code) {
    if (code == HostCode::TransformerEngine) return has_fused_attention(work) ? kEngineFused : kEngineUnfused;
    if (code == HostCode::MegatronCompiled) return {kMegatronCompiledForward, kMegatronCompiledBackward};
    return {kMegatronForward, kMegatronBackward};
}

bool is_quantised(const LayerWork& work) {
    return std::any_of(work.forward.begin(), work.forward.end(), [](const Op& op) {
        const auto* gemm = std::get_if<Gemm>(&op.body);
        return gemm != nullptr && quantised(gemm->precision);
    });
}

// Exchanges of a ring; 0 where there is none.
double ring_of(const LayerWork& work) {
    return static_cast<double>(std::count_if(work.forward.begin(), work.forward.end(),
                                             [](const Op& op) { return op.name == "attn.ring"; }));
}

// Groups of a layer's grouped product: the experts of a rank; 0 where there are none.
double experts_of(const LayerWork& work) {
    double groups = 0;
    for (const Op& op : work.forward) {
        const auto* gemm = std::get_if<Gemm>(&op.body);
        if (gemm != nullptr && op.name.rfind("moe.", 0) == 0 && op.name != "moe.router")
            groups = std::max(groups, static_cast<double>(gemm->groups));
    }
    return groups;
}

double tensors_of(const LayerWork& work) {
    double tensors = 0;
    for (const Op& op : work.backward) {
        const auto* gemm = std::get_if<Gemm>(&op.body);
        if (gemm != nullptr && gemm->form == GemmForm::WeightGrad && gemm->batch == 1)
            tensors += has_bias(work, op) ? 2 : 1;
        if (is_kind(op, MemoryOpKind::Norm)) tensors += op.host_dispatches > 1 ? 1 : 2;
    }
    return tensors;
}

}  // namespace

double forward_dispatches(const LayerWork& work, const Op& op, HostCode code) {
    if (code == HostCode::Graph) return 0;
    return code == HostCode::Kernels ? kTightLoop * op.host_dispatches : eager_forward(work, op);
}

LayerHost layer_host(const LayerWork& work, HostCode code, const HostExtras& extras) {
    LayerHost host;
    host.forward.resize(work.forward.size());
    host.backward.resize(work.backward.size());
    host.parameter_tensors = tensors_of(work);
    if (code == HostCode::Graph) return host;
    for (std::size_t i = 0; i < work.forward.size(); ++i)
        host.forward[i] = forward_dispatches(work, work.forward[i], code);
    for (std::size_t i = 0; i < work.backward.size(); ++i) {
        const Op& op = work.backward[i];
        host.backward[i] =
            code == HostCode::Kernels ? kTightLoop * op.host_dispatches : eager_backward(work, op);
    }
    if (code == HostCode::Transformers && is_block(work)) host.forward.front() += kTransformersLayer;
    if (!is_megatron(code)) return host;
    if (!is_block(work)) {
        const bool head = std::any_of(work.forward.begin(), work.forward.end(),
                                      [](const Op& op) { return op.name.rfind("head.", 0) == 0; });
        if (work.forward.empty()) return host;
        spread(work.forward, forward_of(head ? kHeadForward : kEmbeddingForward), host.forward);
        if (!work.backward.empty()) {
            spread(work.backward,
                   backward_of(head ? kHeadBackward : kEmbeddingBackward) +
                       extras.gradient_hook * host.parameter_tensors,
                   host.backward);
        }
        return host;
    }
    auto [forward, backward] = megatron_layer(work, code);
    if (const double exchanges = ring_of(work); exchanges > 0 && code == HostCode::TransformerEngine) {
        forward += forward_of(kRingForward) + exchanges * forward_of(kExchangeForward);
        backward += backward_of(kRingBackward) + exchanges * backward_of(kExchangeBackward);
    }
    const double experts = experts_of(work);
    const bool casts = code == HostCode::TransformerEngine && is_quantised(work);
    // The network of the experts, as one of grouped modules.
    TwoPasses grouped = {forward_of(kExpertForward) + experts * kGroupForward,
                         backward_of(kExpertBackward) + experts * kGroupBackward};
    if (casts) {
        grouped.forward += 2 * kFp8Group.forward + experts * (kFp8Expert.forward - kGroupForward);
        grouped.backward += 2 * kFp8Group.backward + experts * (kFp8Expert.backward - kGroupBackward);
    }
    if (experts > 0 && extras.graphs_on_grace) {
        forward = kGraphs + grouped.forward;
        backward = kGraphs + grouped.backward;
    } else {
        if (experts > 0) {
            forward += forward_of(kExpertsForward) + grouped.forward - kMegatronForward;
            backward += backward_of(kExpertsBackward) + grouped.backward - kMegatronBackward;
        }
        if (casts) {
            const double modules = experts > 0 ? 2 : 4;  // of attention; of the network
            forward += modules * kFp8Module.forward;
            backward += modules * kFp8Module.backward;
        }
    }
    spread(work.forward, forward + extras.uninitialised / 2, host.forward);
    spread(work.backward, backward + extras.uninitialised / 2 + extras.gradient_hook * host.parameter_tensors,
           host.backward);
    host.recompute = kMegatronCheckpoint;
    return host;
}

bool host_waits_for_device(const Op& op, HostCode code) {
    return is_megatron(code) && op.makes_sizes;
}

double dispatch_share(HostCode code, std::string_view device) {
    const bool grace = device.substr(0, 2) == "gb" || device.substr(0, 2) == "gh";
    return grace && is_megatron(code) ? (99.66 / 37.08) / (70.0 / 15.1) : 1;
}

double step_dispatches(double parameter_tensors, const FrameworkDefaults& framework, int shard) {
    const HostExtras& extras = framework.host_extras;
    // A shard's ends cut two tensors in half.
    const double updated = extras.step_by_shard && shard > 1
                               ? std::min(parameter_tensors, parameter_tensors / shard + 1)
                               : parameter_tensors;
    return extras.step + extras.log_step + parameter_tensors * extras.log_tensor +
           updated * (framework.step_dispatches + extras.log_updated);
}

}  // namespace tw
