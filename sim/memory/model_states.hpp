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

struct ModelStateBytes {
    double parameters = 0, gradients = 0, master = 0, optimizer = 0;  // on the device
    [[nodiscard]] double device() const { return parameters + gradients + master + optimizer; }
};

// `dense` and `expert`: parameters that one rank computes with. Sharding: ZeRO-1 divides master weights and
// optimizer states, ZeRO-2 also gradients, ZeRO-3 also parameters, by dp * cp (experts: their own replicas),
// or by zero_shard. FSDP's ZeRO-2 divides its fp32 parameters too and holds a whole copy to compute with.
ModelStateBytes model_state_bytes(const ParallelPlan& plan, double dense, double expert);
// Of the host's memory: master weights (or parameters), states and gradients of the share that is offloaded.
double offloaded_bytes(const ParallelPlan& plan, double dense, double expert);
// The same with names and formulas.
std::vector<MemoryAddend> model_state_addends(const ParallelPlan& plan, double dense, double expert);

// Of a parameter that FSDP or ZeRO-3 has gathered: in the precision of activations, whatever it stores
// (mixed_precision.param_dtype). fp8 modules cast what was gathered (torchtitan's train_configs leave
// float8's enable_fsdp_float8_all_gather off), but for frameworks with fp8 parameters.
double gathered_parameter_bytes(const ParallelPlan& plan);
// The framework keeps parameters as their casts (FrameworkDefaults::fp8_parameters), and the plan runs in
// fp8.
bool holds_fp8_parameters(const ParallelPlan& plan);

// What one update of a rank's share moves.
struct UpdateTraffic {
    double optimizer_bytes = 0;      // read and written in device memory
    double gradient_norm_bytes = 0;  // of the norm, the loss scale's division and the buffer's clearing
    double offload_bytes = 0;        // over PCIe if all of the optimizer were offloaded
};
// Parameters that one rank's optimizer updates: its share of them.
double updated_parameters(const ParallelPlan& plan, double dense, double expert);
UpdateTraffic update_traffic(const ParallelPlan& plan, double dense, double expert);

// Input activations and output gradients that weight-gradient GEMMs read: what stays from BackwardInput to
// BackwardWeight (Qi et al. 2024, table 1: 32 sbh of a GPT layer's 34 sbh).
double weight_gradient_bytes(const LayerWork& work);

}  // namespace tw
