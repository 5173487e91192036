// The lowering passes, in the order in which lower() runs them. Each is one file and works on the schedule
// that the earlier ones made; one that has nothing to do leaves it as it is.
#pragma once

#include "plan/schedule/lower.hpp"
#include "plan/schedule/schedule.hpp"

namespace tw {

// Computes in their order plus the transfers between ranks. Transfers stand in one global order (that of a
// replay), the same on every rank, so that no lane layout can deadlock, whatever the costs. False where the
// order waits for itself.
bool place_transfers(const ComputeOrder& order, const LoweringOptions& options, Schedule& schedule);
// The same where the host's calls for transfers block (LoweringOptions::p2p_calls); false, and nothing that
// can be used, for orders with split or overlapped backwards, replicated stages or several steps, and where
// the calls would wait for each other in a circle.
bool place_blocking_transfers(const ComputeOrder& order, const LoweringOptions& options, Schedule& schedule);
// Splits the last backward of each stage with several buckets into chunks (part 1, 2, ...).
void split_last_backward(const ComputeOrder& order, const LoweringOptions& options, Schedule& schedule);
// Unshard before and Reshard after every forward and backward, prefetched by one compute.
void unshard_parameters(const LoweringOptions& options, Schedule& schedule);
void offload_activations(const LoweringOptions& options, Schedule& schedule);
// Synchronous: gradient collectives after the last backward of each stage (or each microbatch), by bucket.
void synchronise_gradients(const LoweringOptions& options, Schedule& schedule);
// Synchronous: all-reduce of tied embeddings, the global norm, the optimizer, the gather of updated
// parameters.
void finish_step(const LoweringOptions& options, Schedule& schedule);
// Asynchronous (StepBoundary::None): after every update's backwards, synchronisation over replicas, the stash
// of versions still needed, the optimizer, and the release of versions no longer needed.
void update_asynchronously(const ComputeOrder& order, const LoweringOptions& options, Schedule& schedule);

// Fills both classes of an instruction from its own fields: the duration class always, the size class unless
// the instruction neither holds, frees nor moves memory (Wait, GradNorm).
void set_classes(Schedule& schedule, Instruction& instruction);
// The P2p stream's lane of a rank for transfers with `peer`.
std::uint16_t p2p_lane(LoweringOptions::P2p p2p, std::uint16_t peer, bool send);
// Index of the group of these pipeline ranks, added where it is new; 0 for a group within one rank.
std::uint16_t group_of_ranks(Schedule& schedule, std::vector<std::uint16_t> ranks);

}  // namespace tw
