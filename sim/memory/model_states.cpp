#include "sim/memory/model_states.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "plan/frameworks/framework.hpp"
#include "plan/sharded_layers.hpp"

namespace tw {
namespace {

// Bytes of one parameter.
struct Element {
    double parameter, gathered, gradient, master, states;
};

// FSDP that keeps what it gathered from the forward to the backward (ZeRO-2; PyTorch fully_shard with
// reshard_after_forward=False, FullyShardedDataParallel SHARD_GRAD_OP), or for the whole step (in a
// pipeline): shards, and all parameters in the compute precision.
bool keeps_gathered(const ParallelPlan& plan) {
    return fsdp_in_pipeline(plan) || (plan.zero_stage == 2 && fsdp_shards(plan));
}

bool shards_gradients(const ParallelPlan& plan) {
    return plan.zero_stage >= 2 && !fsdp_in_pipeline(plan);
}

Element element_bytes(const ParallelPlan& plan) {
    const PrecisionSpec& p = plan.precision;
    Element b{};
    b.parameter = bytes_per_element(p.parameters);
    b.gathered = keeps_gathered(plan) ? gathered_parameter_bytes(plan) : 0;
    b.gradient = p.gradient_fp32 ? 4 : bytes_per_element(p.parameters);
    if (fsdp_in_pipeline(plan)) b.gradient = bytes_per_element(p.gradient_reduce);
    b.master = p.master_weights && p.parameters != Precision::Fp32 && p.parameters != Precision::Tf32 ? 4 : 0;
    const double state = bytes_per_element(p.optimizer_states);
    switch (plan.optimizer) {
        case OptimizerKind::Adam:
        case OptimizerKind::Lamb:
            b.states = 2 * state;
            break;
        case OptimizerKind::SgdMomentum:
            b.states = state;
            break;
        case OptimizerKind::Sgd:
            b.states = 0;
            break;
    }
    return b;
}

// The ZeRO stage from which a rank holds its share of the parameters alone.
int sharded_parameters(const ParallelPlan& plan) {
    return keeps_gathered(plan) ? 2 : 3;
}

constexpr int kNeverSharded = 4;

struct Counts {
    double whole, sharded;
    int dense_shard, expert_shard;
};

Counts counts(const ParallelPlan& plan, double dense, double expert) {
    const ShardRanks shard = zero_shard_ranks(plan);
    const int experts = std::max(1, shard.expert);
    return {dense + expert, dense / shard.dense + expert / experts, shard.dense, experts};
}

}  // namespace

ModelStateBytes model_state_bytes(const ParallelPlan& plan, double dense, double expert) {
    const Element b = element_bytes(plan);
    const Counts n = counts(plan, dense, expert);
    const double on_device = 1.0 - plan.offload_optimizer;
    ModelStateBytes bytes;
    bytes.parameters = b.parameter * (plan.zero_stage >= sharded_parameters(plan) ? n.sharded : n.whole) +
                       b.gathered * n.whole;
    bytes.gradients = b.gradient * (shards_gradients(plan) ? n.sharded : n.whole);
    bytes.master = b.master * on_device * (plan.zero_stage >= 1 ? n.sharded : n.whole);
    bytes.optimizer = b.states * on_device * (plan.zero_stage >= 1 ? n.sharded : n.whole);
    return bytes;
}

double offloaded_bytes(const ParallelPlan& plan, double dense, double expert) {
    const Element b = element_bytes(plan);
    const double own = b.master > 0 ? b.master : b.parameter;
    return plan.offload_optimizer * updated_parameters(plan, dense, expert) * (own + b.states + b.gradient);
}

std::vector<MemoryAddend> model_state_addends(const ParallelPlan& plan, double dense, double expert) {
    const Element b = element_bytes(plan);
    const Counts n = counts(plan, dense, expert);
    const ModelStateBytes bytes = model_state_bytes(plan, dense, expert);
    std::vector<MemoryAddend> addends;
    const auto divided = [](double parameters, int shards) {
        return shards > 1 ? fmt::format("{:.6g} / {}", parameters, shards)
                          : fmt::format("{:.6g}", parameters);
    };
    const auto add = [&](const char* name, double total, double each, int sharded_from) {
        if (total <= 0) return;
        std::string formula = fmt::format("{:g} B x {:.6g} parameters", each, n.whole);
        if (plan.zero_stage >= sharded_from) {
            if (expert > 0 && n.expert_shard != n.dense_shard) {  // experts have replicas of their own
                formula = fmt::format("{:g} B x ({} + experts {})", each, divided(dense, n.dense_shard),
                                      divided(expert, n.expert_shard));
            } else if (n.dense_shard > 1) {
                formula += fmt::format(" / {} shards", n.dense_shard);
            }
        }
        addends.push_back({name, total, std::move(formula)});
    };
    const double on_device = 1.0 - plan.offload_optimizer;
    add("parameters", bytes.parameters - b.gathered * n.whole, b.parameter, sharded_parameters(plan));
    add("gathered parameters", b.gathered * n.whole, b.gathered, kNeverSharded);
    add("gradients", bytes.gradients, b.gradient, shards_gradients(plan) ? 2 : kNeverSharded);
    add("master weights", bytes.master, b.master * on_device, 1);
    add("optimizer states", bytes.optimizer, b.states * on_device, 1);
    return addends;
}

double gathered_parameter_bytes(const ParallelPlan& plan) {
    const Precision compute = plan.precision.compute;
    return holds_fp8_parameters(plan) ? bytes_per_element(compute) : activation_bytes(compute);
}

bool holds_fp8_parameters(const ParallelPlan& plan) {
    return plan.precision.compute == Precision::Fp8 && framework_defaults(plan.framework).fp8_parameters;
}

double updated_parameters(const ParallelPlan& plan, double dense, double expert) {
    const Counts n = counts(plan, dense, expert);
    return plan.zero_stage >= 1 ? n.sharded : n.whole;
}

UpdateTraffic update_traffic(const ParallelPlan& plan, double dense, double expert) {
    const Element b = element_bytes(plan);
    const double updated = updated_parameters(plan, dense, expert);
    // Reads gradient, master (or parameter) and states; writes the latter two and the compute copy.
    const double master = b.master > 0 ? 2 * b.master + b.parameter : 2 * b.parameter;
    // The norm reads the gradients once. fp16's loss scale is divided out of them first, with a check for
    // overflow (read and written: Megatron-LM optimizer.py, _unscale_main_grads_and_check_for_nan; DeepSpeed
    // fp16/fused_optimizer.py, unscale_and_clip_grads), and a gradient buffer is cleared for the next step
    // (distributed.py, zero_grad_buffer).
    double prepare = updated * b.gradient;
    if (plan.precision.compute == Precision::Fp16) prepare += 2 * updated * b.gradient;
    const FrameworkDefaults& defaults = framework_defaults(plan.framework);
    if (defaults.gradient_buffer) {
        prepare += (shards_gradients(plan) ? updated : dense + expert) * b.gradient;
    }
    // Without a buffer, ZeRO's optimizers copy the gradients into flat buckets and back (DeepSpeed
    // stage_1_and_2.py, allreduce_and_copy; InternEvo hybrid_zero_optim.py, unflatten_and_copy).
    if (!defaults.gradient_buffer && (plan.zero_stage == 1 || (plan.zero_stage == 2 && !defaults.fsdp)))
        prepare += 4 * (dense + expert) * b.gradient;
    // One operation after the other (PyTorch 1.13 optim/adamw.py, _single_tensor_adamw): decay 8, each moment
    // 8 + 12, square root, quotient and epsilon 8 each, update 16; the compute copy 6 more.
    const double step = defaults.fused_optimizer ? b.gradient + master + 2 * b.states : 88 + 6;
    return {updated * step, prepare, updated * (b.gradient + b.parameter)};
}

double weight_gradient_bytes(const LayerWork& work) {
    double bytes = 0;
    for (const Op& op : work.backward) {
        if (op.phase != Phase::BackwardWeight) continue;
        if (const auto* g = std::get_if<Gemm>(&op.body)) {
            bytes += static_cast<double>(g->k) * static_cast<double>(g->m + g->n) *
                     static_cast<double>(g->batch) * static_cast<double>(g->groups) *
                     bytes_per_element(g->precision);
        }
    }
    return bytes;
}

}  // namespace tw
