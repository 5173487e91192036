// LayerCost: a layer's ops under one shape, each timed once, and from them the max-plus cost of every compute
// opcode.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "models/graph/layer_graph.hpp"
#include "models/hardware/cluster.hpp"
#include "models/hardware/profile.hpp"
#include "models/hardware/rank_order.hpp"
#include "plan/frameworks/framework.hpp"
#include "plan/parallel_plan.hpp"
#include "plan/sharded_layers.hpp"
#include "plan/stage_program/stage_program.hpp"
#include "sim/collectives/collective_cost.hpp"
#include "sim/cost/one_thread.hpp"
#include "sim/cost/phase_cost.hpp"

namespace tw {

// Everything beside the work itself that decides how long a layer takes on a rank.
struct CostContext {
    const HardwareProfile* profile = nullptr;
    const NodeType* node = nullptr;
    int multiprocessors = 0;         // of the device; 0: kernels lose nothing to collectives beside them
    GroupPlacement tp, cp, ep, etp;  // of the collectives inside a layer
    double oversubscription = 1;     // of the fabric between pods
    AxisCollectives collectives;     // what NCCL is made to use
    AxisSet free_axes = {};          // what-if: communication along these takes no time
    double dispatch_s = 0;           // host seconds of one dispatch (sim/cost/host_dispatch.hpp)
    HostCode host = HostCode::Kernels;
    HostExtras host_extras = {};
    std::optional<OneThread> one_thread;  // set: kernels, dispatches and collectives take turns
    bool launch_blocking = false;         // the host waits for every kernel
    // With sequence parallelism a gather runs beside the product that follows it, a reduce-scatter beside the
    // one before it (overlaps_product).
    bool overlap_tp = false;
    // A layer's parameters are gathered before use (prefetched) and its gradients scattered after its
    // backward, over `shard`; with HSDP the shards are then reduced over `replica`.
    ShardedLayers sharded;
    bool replicas_beside = false;   // shards are reduced over `replica` on a stream of their own
    GroupPlacement shard, replica;  // dense parameters
    GroupPlacement expert_shard, expert_replica;          // expert parameters
    double parameter_bytes = 2;                           // of one gathered parameter
    double gradient_bytes = 4;                            // of one reduced gradient
    double gather_copy_bytes = 0, reduce_copy_bytes = 0;  // moved by kernels, for each parameter
};

struct OpCost {
    SimTime time = 0;
    SimTime host = 0;
    SimTime taken = 0;  // of a collective: from the kernels beside it (sim/collectives/multiprocessors.hpp)
    double seconds = 0, sigma_s = 0,
           scatter_s = 0;        // sigma_s: without the scatter (models/hardware/scatter.hpp)
    double sent_share = 1;       // of a collective's bytes: what it sends where equal messages are joined
    std::string_view algorithm;  // of a collective (CollectiveCost)
    ErrorSource source = ErrorSource::Gemm;
    bool out_of_range = false;
};

// Whether a framework can run this collective chunk by chunk inside a product: gathers and reduce-scatters of
// sequence parallelism around the modules of blocks. Not the all-reduces of plain tensor parallelism, not
// those of embeddings and output layers (Transformer Engine module/base.py, initialize_ub: buffers of qkv,
// proj, fc1 and fc2; Megatron-LM training/arguments.py asks for sequence parallelism beside
// --tp-comm-overlap; PyTorch's micro_pipeline_tp.py: gather and product, product and reduce-scatter, in the
// blocks that torchtitan compiles).
bool overlaps_product(const Op& op);

class LayerCost {
  public:
    // Keeps no reference to `work` or `context`.
    LayerCost(const LayerWork& work, const CostContext& context);

    [[nodiscard]] const PhaseCost& phase(RecomputeMode mode, Opcode opcode) const {
        return phases_[places_[static_cast<std::size_t>(mode) * kOpcodes + static_cast<std::size_t>(opcode)]];
    }

  private:
    static constexpr std::size_t kOpcodes = 4;  // Forward, Backward, BackwardInput, BackwardWeight
    std::vector<PhaseCost> phases_;             // that differ
    std::array<std::uint8_t, kRecomputeModes.size() * kOpcodes> places_{};
};

// The cost of a compute opcode for a whole virtual stage: its layers in order (backwards for the backward
// ones).
PhaseCost stage_cost(const std::vector<LayerCost>& layers, const std::vector<StageSegment>& segments,
                     Opcode opcode);

}  // namespace tw
