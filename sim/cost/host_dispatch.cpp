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
// Transformer Engine's GroupedLinear runs all experts of a rank as one network, two of its modules; each of
// them takes for an expert its weight (__getattr__), a slice of the tokens and a product, then two products,
// two slices, a fresh gradient and four calls that pass it on (pytorch/module/grouped_linear.py 2.11, forward
// and backward).
constexpr double kGroupForward = 2 * (1.33 + 2.5 + kDevice_us) / 7.7;
constexpr double kGroupBackward = 2 * (4 * 1.33 + 2 * 1.8 + 1.1 + 2 * kDevice_us) / 7.7;

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
    return code == HostCode::Kernels ? kTightLoop * op.host_dispatches : eager_forward(work, op);
}

LayerHost layer_host(const LayerWork& work, HostCode code, const HostExtras& extras) {
    LayerHost host;
    host.forward.resize(work.forward.size());
    host.backward.resize(work.backward.size());
    host.parameter_tensors = tensors_of(work);
    for (std::size_t i = 0; i < work.forward.size(); ++i)
        host.forward[i] = forward_dispatches(work, work.forward[i], code);
    for (std::size_t i = 0; i < work.backward.size(); ++i) {
        const Op& op = work.backward[i];
        host.backward[i] =
            code == HostCode::Kernels ? kTightLoop * op.host_dispatches : eager_backward(work, op);
    }
    if (!is_block(work)) return host;
    if (code == HostCode::Transformers) host.forward.front() += kTransformersLayer;
    if (code == HostCode::Megatron || code == HostCode::MegatronCompiled) {
        const bool compiled = code == HostCode::MegatronCompiled;
        double forward = compiled ? kMegatronCompiledForward : kMegatronForward;
        double backward = compiled ? kMegatronCompiledBackward : kMegatronBackward;
        const double experts = experts_of(work);
        if (experts > 0 && extras.graphs_on_grace) {
            forward = kGraphs + forward_of(kExpertForward) + experts * kGroupForward;
            backward = kGraphs + backward_of(kExpertBackward) + experts * kGroupBackward;
        } else if (experts > 0) {
            forward += forward_of(kExpertsForward) + forward_of(kExpertForward) + experts * kGroupForward -
                       kMegatronForward;
            backward += backward_of(kExpertsBackward) + backward_of(kExpertBackward) +
                        experts * kGroupBackward - kMegatronBackward;
        }
        spread(work.forward, forward + extras.uninitialised / 2, host.forward);
        spread(work.backward,
               backward + extras.uninitialised / 2 + extras.gradient_hook * host.parameter_tensors,
               host.backward);
        host.recompute = kMegatronCheckpoint;
    }
    return host;
}

bool host_waits_for_device(const Op& op, HostCode code) {
    return (code == HostCode::Megatron || code == HostCode::MegatronCompiled) && op.phase == Phase::Forward &&
           op.name == "moe.permute";
}

double step_dispatches(double parameter_tensors, const FrameworkDefaults& framework) {
    const HostExtras& extras = framework.host_extras;
    return extras.step + extras.log_step +
           parameter_tensors * (framework.step_dispatches + extras.log_tensor);
}

}  // namespace tw
