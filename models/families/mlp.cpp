#include <algorithm>
#include <cmath>

#include "models/families/sublayers.hpp"

namespace tw {

std::int64_t MoeSpec::capacity(std::int64_t tokens) const {
    if (capacity_factor == 0) return tokens;
    const double even = static_cast<double>(tokens * top_k) / static_cast<double>(experts);
    return std::min(tokens, static_cast<std::int64_t>(std::ceil(even * capacity_factor)));
}

namespace {

using Keep = SavedTensor::Keep;

double d(std::int64_t v) {
    return static_cast<double>(v);
}

// 0.5 * x * (1 + tanh(c * (x + 0.044715 * pow(x, 3)))), an operation each (transformers activations.py,
// NewGELUActivation). Under autocast the power runs in fp32, and all that its result enters (PyTorch docs,
// torch.amp: pow autocasts to float32).
bool written_out(const WorkBuilder& b, const MlpSpec& s) {
    return b.unfused() && !s.gated && s.activation == ActivationKind::GeluNew;
}

double power_bytes(const WorkBuilder& b) {
    return b.shape.autocast ? 4 : b.e;
}

// Elements that the activation saves per element of its output. Gated: gate and up, and eager also the
// activated gate. ReLU's backward needs its output alone, which the down-projection keeps anyway.
double saved_inputs(const WorkBuilder& b, const MlpSpec& s) {
    // The cube's input, the tangent and one more than it, of the power's precision; half of the input.
    if (written_out(b, s)) return (3 * power_bytes(b) + b.e) / b.e;
    if (s.gated) return b.unfused() ? 3 : 2;
    return s.activation == ActivationKind::Relu ? 0 : 1;
}

MemoryOpKind activation_kind(const WorkBuilder& b, const MlpSpec& s) {
    return s.bias && !b.unfused() ? MemoryOpKind::BiasAct : MemoryOpKind::Activation;
}

// Eager, a gated activation is two kernels (activation, product): five passes instead of three.
void activation_forward(WorkBuilder& b, const MlpSpec& s, const char* name, double out) {
    if (written_out(b, s)) {
        // Power, two products by a number, tangent, one more: 10 passes; the sum with x and the product of
        // both halves: 4 and two of x; half of x: two; casts to the power's precision and back where it
        // differs.
        const double p = power_bytes(b);
        const double casts = p > b.e ? 2 * (p + b.e) : 0;
        b.memory(name, MemoryOpKind::Other, (14 * p + 4 * b.e + casts) * out, 14 * out, p > b.e ? 10 : 8);
        return;
    }
    const double passes = s.gated ? (b.unfused() ? 5 : 3) : 2;
    b.memory(name, activation_kind(b, s), passes * b.e * out, 8 * out, s.gated && b.unfused() ? 2 : 1);
}

void activation_backward(WorkBuilder& b, const MlpSpec& s, const char* name, double out) {
    if (written_out(b, s)) {
        // Both factors' gradients: 5 passes and one of x; half of x: two of x; the tangent 3; two products by
        // a number 4; the power's: square 2, by three 2, by the gradient 3; the three paths to x are summed:
        // six of x; casts to and from the power's precision.
        const double p = power_bytes(b);
        const double casts = p > b.e ? 4 * (p + b.e) : 0;
        b.memory(name, MemoryOpKind::Other, (19 * p + 9 * b.e + casts) * out, 20 * out, p > b.e ? 15 : 11);
        return;
    }
    const double passes = s.gated ? (b.unfused() ? 8 : 5) : 3;
    b.memory(name, activation_kind(b, s), passes * b.e * out, 12 * out, s.gated && b.unfused() ? 3 : 1);
}

// Tokens and experts of one rank.
struct ExpertWork {
    std::int64_t groups = 1, per_group = 0;
    double rows = 0;    // token copies that this rank's experts process
    double sent = 0;    // token copies that this rank routes and no expert drops
    double loaded = 0;  // token copies between a rank and the most loaded one, in an exchange
    bool exchanges = false, gathers = false;
};

ExpertWork expert_work(const WorkBuilder& b, const MoeSpec& s) {
    ExpertWork w;
    const WorkShape& shape = b.shape;
    w.groups = ceil_div(s.experts, shape.ep);
    w.exchanges = shape.ep > 1;
    // Without sequence parallelism the ranks of a tensor-parallel group hold the same tokens already.
    w.gathers = shape.etp > 1 && !(b.tensor_parallel && !b.sequence_parallel);
    const double routed = d(b.rows) * d(s.top_k);
    // No expert takes more than its capacity, the most loaded ones included.
    const double capacity = d(s.capacity(shape.seq_len)) * d(s.experts) / (d(shape.seq_len) * d(s.top_k));
    w.sent = routed * std::min(1.0, capacity);
    w.loaded = routed * std::min(shape.expert_imbalance, capacity);
    w.rows = (shape.ep > 1 ? w.loaded : w.sent) * (w.gathers ? shape.etp : 1);
    w.per_group = static_cast<std::int64_t>(w.rows / d(w.groups));
    if (d(w.per_group) * d(w.groups) < w.rows) ++w.per_group;
    return w;
}

void exchange(WorkBuilder& b, const MoeSpec& s, const ExpertWork& w, const char* name, std::int64_t hidden) {
    if (!w.exchanges) return;
    CollectiveOp call{CollectiveKind::AllToAll, Axis::Ep, w.loaded * d(hidden) * b.e};
    if (b.shape.expert_dispatch == WorkShape::ExpertDispatch::PerNode)
        call.spread = {s.top_k, s.router_groups, s.router_group_topk};
    b.collective(name, call);
}

void spread(WorkBuilder& b, const ExpertWork& w, const char* name, std::int64_t hidden) {
    if (w.gathers) b.collective(name, CollectiveKind::AllGather, Axis::Etp, w.rows * d(hidden) * b.e);
}

void collect(WorkBuilder& b, const ExpertWork& w, const char* name, std::int64_t hidden) {
    if (b.shape.etp == 1) return;
    b.collective(name, w.gathers ? CollectiveKind::ReduceScatter : CollectiveKind::AllReduce, Axis::Etp,
                 w.rows * d(hidden) * b.e);
}

Linear router_linear(const MoeSpec& s, std::int64_t hidden) {
    return unquantised(replicated_linear("moe.router", s.experts, hidden, false));
}

// Eager experts of transformers (its norms are written out likewise), every operation of
// integrations/moe.py, grouped_mm_experts_forward, and of its backward as PyTorch's dispatcher lists them:
// rows of no expert are filled with zero after each step, the routing weights are applied in fp32 and so are
// the rows put back and summed; an index's gradient is a sorted accumulation into zeros.
bool written_out_experts(const WorkBuilder& b) {
    return b.unfused() && b.shape.composite_norms;
}

struct ExpertElements {
    double routed, tokens, inner;  // rows sent times hidden, rows times hidden, rows sent times the width
};

void experts_forward_permute(WorkBuilder& b, const ExpertElements& n) {
    b.memory("moe.permute", MemoryOpKind::Permute, 2 * b.e * n.routed, 0, 9);
    b.memory("moe.permute", MemoryOpKind::Other, 2 * b.e * n.routed);
}

void experts_forward_unpermute(WorkBuilder& b, const ExpertElements& n) {
    // Filled; times the weights; summed over a token's experts and cast.
    b.memory("moe.unpermute", MemoryOpKind::Other, (2 * b.e + b.e + 4 + 4) * n.routed + (8 + b.e) * n.tokens,
             0, 7);
    b.memory("moe.unpermute", MemoryOpKind::Permute, 8 * n.routed);
}

void experts_backward_unpermute(WorkBuilder& b, const ExpertElements& n) {
    // Cast, repeated for each expert, zeros; both products, their cast and sum; filled.
    b.memory("moe.unpermute", MemoryOpKind::Other,
             (8 + b.e) * n.tokens + (4 + 4 + (8 + b.e) + 8 + (4 + b.e) + 4 + 2 * b.e) * n.routed, 0, 8);
    b.memory("moe.unpermute", MemoryOpKind::Permute, 12 * n.routed, 0, 4);
}

void experts_backward_permute(WorkBuilder& b, const ExpertElements& n) {
    b.memory("moe.permute", MemoryOpKind::Other, 2 * b.e * n.routed + b.e * n.tokens, 0, 2);
    b.memory("moe.permute", MemoryOpKind::Permute, 3 * b.e * n.routed, 0, 4);
}

// Up and down of an expert.
LinearList expert_linears(const WorkBuilder& b, const MoeSpec& s, std::int64_t hidden) {
    LinearList list;
    for (Linear l : mlp_linears(s.expert, hidden, b.shape.etp)) {
        l.name = list.size() == 0 ? "moe.up" : "moe.down";
        list.add(l);
    }
    return list;
}

void expert_backward(WorkBuilder& b, const Linear& l, const ExpertWork& w) {
    b.product(l, w.per_group, GemmForm::InputGrad, w.groups);
    b.set_phase(Phase::BackwardWeight);
    b.product(l, w.per_group, GemmForm::WeightGrad, w.groups);
    b.weight_grad_extras(l, w.groups);
    b.set_phase(Phase::BackwardInput);
}

}  // namespace

void mlp_forward(WorkBuilder& b, const MlpSpec& s, std::int64_t hidden, BranchEdges edges) {
    const LinearList list = mlp_linears(s, hidden, b.shape.tp);
    if (edges.gather) b.gather("mlp.up", hidden);
    b.linear_forward(list[0], b.tokens);
    const std::int64_t width = list[1].local_k;
    activation_forward(b, s, "mlp.act", d(b.tokens) * d(width));
    b.save_tokens("mlp.act_in", width, saved_inputs(b, s) * b.e, Keep::Full);
    b.save_tokens("mlp.act_out", width, b.gemm_input, Keep::Full);
    b.linear_forward(list[1], b.tokens);
    if (edges.reduce) b.reduce("mlp.down", hidden);
}

void mlp_backward(WorkBuilder& b, const MlpSpec& s, std::int64_t hidden, BranchEdges edges) {
    const LinearList list = mlp_linears(s, hidden, b.shape.tp);
    if (edges.reduce) b.gather("mlp.down", hidden);
    b.linear_backward(list[1], b.tokens, false);
    activation_backward(b, s, "mlp.act", d(b.tokens) * d(list[1].local_k));
    b.linear_backward(list[0], b.tokens, edges.gather);
}

void moe_forward(WorkBuilder& b, const MoeSpec& s, std::int64_t hidden) {
    const ExpertWork w = expert_work(b, s);
    const LinearList expert = expert_linears(b, s, hidden);
    const double rows = d(b.rows);
    b.linear_forward(router_linear(s, hidden), b.rows);
    // Logits read, fp32 probabilities written and read again for the top-k.
    b.memory("moe.topk", MemoryOpKind::Router, rows * d(s.experts) * (b.e + 8), 0, b.unfused() ? 4 : 1);
    b.save("moe.probs", rows * d(s.experts) * 4, Keep::Full);
    const ExpertElements n = {w.sent * d(hidden), rows * d(hidden), w.rows * d(expert[1].local_k)};
    const bool eager = written_out_experts(b);
    if (eager) {
        experts_forward_permute(b, n);
    } else {
        b.memory("moe.permute", MemoryOpKind::Permute, 2 * n.routed * b.e);
        b.work.forward.back().makes_sizes = s.capacity_factor == 0;
    }
    exchange(b, s, w, "moe.dispatch", hidden);
    spread(b, w, "moe.dispatch", hidden);
    b.save("moe.tokens", w.rows * d(hidden) * b.gemm_input, Keep::Full);
    b.product(expert[0], w.per_group, GemmForm::Forward, w.groups);
    const double activated = n.inner;
    b.save("moe.act_in", activated * saved_inputs(b, s.expert) * b.e, Keep::Full);
    {
        const ModuleScope again(b, {RecomputeModule::ExpertActivation});
        if (eager) b.memory("moe.act", MemoryOpKind::Other, (s.expert.gated ? 4 : 2) * b.e * activated);
        activation_forward(b, s.expert, "moe.act", activated);
        b.save("moe.act_out", activated * b.gemm_input, Keep::Full);
    }
    b.next_input_of(RecomputeModule::ExpertActivation);
    b.product(expert[1], w.per_group, GemmForm::Forward, w.groups);
    collect(b, w, "moe.combine", hidden);
    exchange(b, s, w, "moe.combine", hidden);
    // The experts' outputs are kept for the gradient of the routing weights.
    b.save("moe.out", w.sent * d(hidden) * b.e, Keep::Full);
    if (eager) {
        experts_forward_unpermute(b, n);
    } else {
        b.memory("moe.unpermute", MemoryOpKind::Permute, (n.routed + n.tokens) * b.e);
    }
    if (s.shared) {
        {
            const ModuleScope again(b, {RecomputeModule::SharedExperts});
            b.next_input_of(RecomputeModule::Norm);
            mlp_forward(b, *s.shared, hidden, {});
        }
        b.memory("moe.add", MemoryOpKind::Add, 3 * rows * d(hidden) * b.e);
    }
}

void moe_backward(WorkBuilder& b, const MoeSpec& s, std::int64_t hidden) {
    const ExpertWork w = expert_work(b, s);
    const LinearList expert = expert_linears(b, s, hidden);
    const double rows = d(b.rows);
    if (s.shared) mlp_backward(b, *s.shared, hidden, {});
    const ExpertElements n = {w.sent * d(hidden), rows * d(hidden), w.rows * d(expert[1].local_k)};
    const bool eager = written_out_experts(b);
    if (eager) {
        experts_backward_unpermute(b, n);
    } else {
        b.memory("moe.unpermute", MemoryOpKind::Permute, (2 * n.routed + n.tokens) * b.e);
    }
    exchange(b, s, w, "moe.combine", hidden);
    spread(b, w, "moe.combine", hidden);
    expert_backward(b, expert[1], w);
    activation_backward(b, s.expert, "moe.act", n.inner);
    // Gate's and up's gradients are joined, and filled.
    if (eager) b.memory("moe.act", MemoryOpKind::Other, (s.expert.gated ? 8 : 2) * b.e * n.inner, 0, 2);
    expert_backward(b, expert[0], w);
    collect(b, w, "moe.dispatch", hidden);
    exchange(b, s, w, "moe.dispatch", hidden);
    if (eager) {
        experts_backward_permute(b, n);
    } else {
        b.memory("moe.permute", MemoryOpKind::Permute, (n.routed + n.tokens) * b.e);
    }
    b.memory("moe.topk", MemoryOpKind::Router, rows * d(s.experts) * (b.e + 8), 0, b.unfused() ? 4 : 1);
    b.linear_backward(router_linear(s, hidden), b.rows, false);
    b.memory("moe.add", MemoryOpKind::Add, 3 * rows * d(hidden) * b.e);
}

}  // namespace tw
