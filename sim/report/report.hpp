// SimulationReport: everything that is said about one simulated plan.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"
#include "plan/parallel_plan.hpp"
#include "plan/trace/trace.hpp"
#include "sim/cost/phase_cost.hpp"
#include "sim/report/gradient_sync_report.hpp"

namespace tw {

// One named addend of a memory total, with the formula that made it ("2 bytes x 1.2e9 parameters").
struct MemoryAddend {
    std::string name;  // "parameters", "gradients", "master weights", "optimizer states", "activations",
                       // "logits", ...
    double bytes = 0;
    std::string formula;
};

struct StageMemory {
    int rank = 0;                       // pipeline rank
    std::vector<MemoryAddend> addends;  // at the peak's instant: they add up to peak_allocated_bytes
    // From there to device_bytes: rounding to the allocator's blocks, cached blocks, context, communicators.
    std::vector<MemoryAddend> beside;
    double peak_allocated_bytes = 0;  // as the framework's allocator counts
    double peak_reserved_bytes = 0;   // with the allocator's rounding and fragmentation
    double device_bytes = 0;          // as nvidia-smi shows: reserved plus context and communication buffers
    double required_bytes = 0;  // of it, without cached blocks, which are given back before memory runs out
    // Before the first step: the model states, as they are sharded. What a framework allocates to build and
    // shard the model is not modelled.
    double initialisation_peak_bytes = 0;
    double capacity_bytes = 0;
    double host_bytes = 0;           // of the host's memory: offloaded states and activations
    double host_capacity_bytes = 0;  // the device's share of the node's; 0: unknown
    std::string peak_instant;        // "rank 0, 0B3: ..." which instruction
    [[nodiscard]] bool fits_host() const {
        return host_capacity_bytes <= 0 || host_bytes <= host_capacity_bytes;
    }
    [[nodiscard]] bool fits() const { return required_bytes <= capacity_bytes && fits_host(); }
};

// Share of a rank's period by what it was doing, seconds; they add up to the period.
struct TimeBreakdown {
    double forward = 0, backward = 0, recompute = 0, optimizer = 0;
    double exposed_tp = 0, exposed_dp = 0, exposed_pp = 0, exposed_cp = 0, exposed_ep = 0;
    double exposed_offload = 0;  // activations on their way to the host and back
    // Backwards take longer beside the reductions of gradients, which hold multiprocessors
    // (sim/collectives/multiprocessors.hpp). What collectives inside a stage take is among the exposed ones.
    double slowed = 0;
    double stash = 0;   // copies of weights (PipeDream)
    double host = 0;    // device idle because the host had not dispatched yet
    double bubble = 0;  // idle otherwise: waiting for other ranks
    [[nodiscard]] double total() const {
        return forward + backward + recompute + optimizer + exposed_tp + exposed_dp + exposed_pp +
               exposed_cp + exposed_ep + exposed_offload + slowed + stash + host + bubble;
    }
};

struct RankReport {
    int rank = 0;
    double busy_s = 0;  // compute stream, a period
    double idle_s = 0;
    double bubble_fraction = 0;
    TimeBreakdown breakdown;
    int peak_in_flight = 0;  // microbatches (times chunks) whose activations are held
    int weight_versions = 1;
};

struct CommunicationReport {
    std::string kind;       // "tp", "dp", "pp", "cp", "ep"
    double total_s = 0;     // a step, of the rank that has most of this kind
    double exposed_s = 0;   // of it, not hidden behind compute
    double bytes = 0;       // sent by a rank, a step
    std::string algorithm;  // "ring simple", of the largest
};

struct SimulationReport {
    ParallelPlan plan;
    double step_time_s = 0;        // the steady period
    double step_time_sigma_s = 0;  // one standard deviation of the prediction
    Uncertainty uncertainty;       // what it is made of
    double makespan_s = 0;         // an isolated step
    StepBoundary boundary = StepBoundary::Barrier;
    double tokens_per_s = 0;  // images per second where the model counts images
    double samples_per_s = 0;
    std::string rate_unit = "tokens/s";  // of tokens_per_s; "images/s" where the model counts images
    double mfu = 0, hfu = 0;             // shares of the peak of all devices
    std::string flop_convention;         // "Megatron: causal half, head included"
    double model_flops = 0;              // a step, forward and backward
    double hardware_flops = 0;           // with recompute
    double bubble_fraction = 0;          // idle share of the period, all ranks
    std::vector<RankReport> ranks;
    std::vector<StageMemory> memory;
    std::vector<CommunicationReport> communication;
    GradientSyncReport gradient_sync;  // of a synchronisation that does not simply sum
    // "rank 0: 0F0 12.1 ms", compressed runs; filled where asked for.
    std::vector<std::string> critical_path;
    // Rows of the embedding: the model's own, and padded for tensor parallelism; 0: no vocabulary.
    std::int64_t vocabulary = 0, padded_vocabulary = 0;
    double energy_j = 0;                // devices at TDP times utilisation model; 0: unknown
    double usd_per_step = 0;            // 0: no price known
    std::vector<std::string> warnings;  // out-of-range curves, implausible MFU
    std::vector<std::string>
        not_executable;  // parts of the plan that this build's executor cannot run; empty: runs
    double peak_allocated_bytes = 0, peak_reserved_bytes = 0, peak_device_bytes = 0;  // largest over ranks
    bool fits = true;
    Trace trace;  // filled where asked for
};

}  // namespace tw
