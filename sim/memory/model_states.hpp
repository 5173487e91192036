// Bytes that a rank holds for its parameters, and that the optimizer moves.
//
// Sources: ZeRO (Rajbhandari et al. 2020, section 3.1: 2 + 2 + K bytes a parameter, K = 12 for
// mixed-precision Adam); Megatron-LM theoretical_memory_usage.py (18 bytes with fp32 gradients, or 6 + 12 /
// dp with the distributed optimizer).
#pragma once

#include <string>
#include <vector>

#include "models/graph/layer_graph.hpp"
#include "plan/parallel_plan.hpp"
#include "sim/report/report.hpp"

namespace tw {

struct ModelStates {
    std::vector<MemoryAddend>
        addends;            // "parameters", "gradients", "master weights", "optimizer states"; on the device
    double host_bytes = 0;  // offloaded optimizer states
    double optimizer_traffic_bytes = 0;  // read and written by one update of this rank's share
    double gradient_norm_traffic_bytes = 0;
    double offload_traffic_bytes = 0;  // over PCIe in one update if all of it were offloaded
    [[nodiscard]] double device_bytes() const;
};

// `dense` and `expert`: parameters that one rank computes with. Sharding: ZeRO-1 divides master weights and
// optimizer states, ZeRO-2 also gradients, ZeRO-3 also parameters, by dp * cp (experts: their own replicas),
// or by zero_shard.
ModelStates model_states(const ParallelPlan& plan, double dense, double expert);

// Input activations and output gradients that weight-gradient GEMMs read: what stays from BackwardInput to
// BackwardWeight (Qi et al. 2024, table 1: 32 sbh of a GPT layer's 34 sbh).
double weight_gradient_bytes(const LayerWork& work);

}  // namespace tw
