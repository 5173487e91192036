// From a compute order to a complete schedule: the passes place transfers, gradient synchronisation, ZeRO's
// gathers, weight stashes, offload, the gradient norm and the optimizer step, each as instructions on their
// streams with explicit waits. One pass a file in passes/; lower() runs them in a fixed order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "plan/schedule/schedule.hpp"

namespace tw {

struct LoweringOptions {
    enum class P2p : std::uint8_t {
        PerDirection,  // one lane for each (peer, direction): sends never block receives (default)
        PerPeer,       // one lane a peer
        Single,        // one communicator: a posted receive can block a later send
    } p2p = P2p::PerDirection;
    bool batch_p2p = false;  // adjacent send and receive to the same peer form one group (batch_isend_irecv);
                             // a lane a peer
    bool overlap_p2p = true;  // false: compute waits for its own sends
    // How a rank's host issues its transfers. Posted: beside what it computes. Blocking: it computes nothing
    // while it exchanges, and exchanges nothing while it computes (1F1B, plain and interleaved; other orders:
    // posted). Synchronised: likewise, and the host waits for the device after each call.
    enum class P2pCalls : std::uint8_t { Posted, Blocking, Synchronised } p2p_calls = P2pCalls::Posted;

    enum class GradSync : std::uint8_t { None, AllReduce, ReduceScatter } grad_sync = GradSync::AllReduce;
    bool overlap_grad_sync = true;  // starts with the last backward of a stage, bucket by bucket
    // Gradient buckets of each virtual stage; empty: one each. With overlap the last backward of a stage is
    // split into as many chunks (Instruction::part), and bucket k is reduced beside chunk k + 2.
    std::vector<int> buckets;
    bool sync_every_microbatch = false;     // ZeRO-2/3 with accumulation: reduce after each microbatch
    bool gather_params_after_step = false;  // ZeRO-1/2: all-gather of updated parameters
    bool overlap_param_gather = false;      // ... beside the next forward
    bool unshard = false;  // ZeRO-3: Unshard before, Reshard after each forward and backward of a stage
    bool tied_embeddings = false;  // all-reduce between first and last stage before the optimizer
    bool grad_norm = true;         // with StepBoundary::Barrier: over all pipeline ranks
    bool offload_activations = false;
    // Gradients are pushed to a sharded server (ReduceScatter), which takes the step, and parameters come
    // back (Broadcast), instead of an all-reduce. Where there are no replicas (grad_sync None, one replica a
    // stage) there is no server.
    bool parameter_server = false;
    // The thread that computes also moves messages (the executor on processors): collectives over replicas
    // take its time, whatever stands beside them. For simulations alone: no instruction changes, only what
    // shares a lane.
    bool collectives_on_compute = false;
};

// CHECKs that the order does not wait for itself (check_order says whether); legality is the generator's and
// check_plan's. Every lane layout is free of deadlock, because transfers stand in one global order on all
// ranks. GradNorm spans all pipeline ranks under StepBoundary::Barrier and stays within one (group 0)
// otherwise; there is one OptimizerStep a stage.
Schedule lower(const ComputeOrder& order, const std::string& generator, const LoweringOptions& options);

// The same, action by action, without copies of a steady phase (steady_phase.hpp). Nothing where the order
// waits for itself.
std::optional<Schedule> lower_each(const ComputeOrder& order, const std::string& generator,
                                   const LoweringOptions& options);

}  // namespace tw
