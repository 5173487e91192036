#include "sim/memory/model_states.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace tw {
namespace {

struct StateBytes {
    double parameter, gradient, master, states;
};

StateBytes state_bytes(const ParallelPlan& plan) {
    const PrecisionSpec& p = plan.precision;
    StateBytes b{};
    b.parameter = bytes_per_element(p.parameters);
    b.gradient = p.gradient_fp32 ? 4 : bytes_per_element(p.parameters);
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

}  // namespace

double ModelStates::device_bytes() const {
    double sum = 0;
    for (const MemoryAddend& a : addends)
        sum += a.bytes;
    return sum;
}

ModelStates model_states(const ParallelPlan& plan, double dense, double expert) {
    const StateBytes b = state_bytes(plan);
    const int replicas = plan.mesh.dp * plan.mesh.cp;
    const int dense_shard = plan.zero_shard > 0 ? std::min(plan.zero_shard, replicas) : replicas;
    const int expert_replicas = std::max(1, plan.mesh.expert_dp());
    const int expert_shard =
        plan.zero_shard > 0 ? std::min(plan.zero_shard, expert_replicas) : expert_replicas;
    const double sharded = dense / dense_shard + expert / expert_shard;
    const double whole = dense + expert;

    ModelStates states;
    const auto add = [&](const char* name, double bytes_each, bool is_sharded, double share = 1.0) {
        if (bytes_each <= 0) return;
        const double count = (is_sharded ? sharded : whole) * share;
        states.addends.push_back({name, bytes_each * count,
                                  is_sharded && dense_shard > 1
                                      ? fmt::format("{:g} B x {:.6g} parameters / {} shards", bytes_each,
                                                    whole * share, dense_shard)
                                      : fmt::format("{:g} B x {:.6g} parameters", bytes_each, count)});
    };
    const double on_device = 1.0 - plan.offload_optimizer;
    add("parameters", b.parameter, plan.zero_stage >= 3);
    add("gradients", b.gradient, plan.zero_stage >= 2);
    add("master weights", b.master, plan.zero_stage >= 1, on_device);
    add("optimizer states", b.states, plan.zero_stage >= 1, on_device);

    const double updated = plan.zero_stage >= 1 ? sharded : whole;
    states.host_bytes = plan.offload_optimizer * (b.master + b.states) * updated;
    // Reads gradient, master (or parameter) and states; writes the latter two and the compute copy.
    const double master_traffic = b.master > 0 ? 2 * b.master + b.parameter : 2 * b.parameter;
    states.optimizer_traffic_bytes = updated * (b.gradient + master_traffic + 2 * b.states);
    states.gradient_norm_traffic_bytes = updated * b.gradient;
    states.offload_traffic_bytes = updated * (b.gradient + b.parameter);
    return states;
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
