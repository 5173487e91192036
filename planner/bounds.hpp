// Lower bounds on the step time and on the memory of plans that were not simulated. Each holds for every plan
// below the node it is asked for: tests/property compares them with simulations.
//
// Time. A rank computes one thing at a time, so its period is at least its own work; the busiest rank has at
// least the mean. Where a step ends with a barrier, the stage s (of the first chunk) begins after the
// forwards of the stages before it and ends before their backwards, so that
//     period >= max_s [ sum_{t<s} (F_t + B_t + transfers) + m * work of s's rank ] + the last gradient bucket
//     of stage 0
//               + the norm + rank 0's update + its gather of updated parameters.
// For equal stages this is (m + p - 1)(F + B), and (m v + p - 1)(F + B) / v interleaved: what 1F1B and the
// interleaved schedule reach.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "planner/space.hpp"
#include "sim/cost/shape_cost.hpp"
#include "sim/memory/rank_memory.hpp"

namespace tw {

// Sums over all layers of a shape, by recompute mode: what no partition can avoid.
class MeshBounds {
  public:
    // `base` gives the precision and the optimizer; `shape` is the layers' on devices of `node_group`. Keeps
    // a reference to `environment`.
    MeshBounds(const Environment& environment, const ShapeCost& shape, const MeshChoice& mesh,
               const ParallelPlan& base, int node_group = 0);

    // For every schedule, ZeRO stage and partition below a chunking; `hides_collectives` where its schedules
    // run a stage's collectives beside another pass's kernels (DualPipeV).
    [[nodiscard]] SimTime step_time(const ChunkChoice& chunk, bool hides_collectives) const;
    // Over everything below the mesh.
    [[nodiscard]] SimTime step_time(bool hides_collectives) const {
        return step_time(ChunkChoice{}, hides_collectives);
    }
    // Bytes that some rank holds at least under a chunking, whatever the schedule.
    [[nodiscard]] double memory(const ChunkChoice& chunk, const ZeroChoice& zero) const;
    // ... whatever the ZeRO stage and the recomputation.
    [[nodiscard]] double memory() const;

  private:
    struct Sums {
        SimTime compute = 0, comm = 0, shard = 0;  // max-plus paths that stay on one stream
        SimTime hidden = 0;                        // of them, blocking expert collectives
        double saved = 0;                          // activations of one microbatch
    };
    [[nodiscard]] Sums sums(const ChunkChoice& chunk) const;
    static Sums sums_of(const LayerCost& layer, const LayerWork& work, RecomputeMode mode);
    // What one rank holds of a microbatch when its first backward begins, bytes: the mean over the ranks.
    struct Held {
        double saved = 0, beside = 0;  // activations; what its last layer needs while it runs
    };
    [[nodiscard]] Held held(const ChunkChoice& chunk) const;
    [[nodiscard]] double memory(const Held& held, const ZeroChoice& zero, bool gradients_beside) const;
    void add_layers(const LayerGraph& graph, const ShapeCost& shape);
    [[nodiscard]] double beside_at_ends(RecomputeMode mode) const;

    MeshChoice mesh_;
    ParallelPlan states_plan_;  // what model_states reads of a plan
    std::int64_t blocks_;
    // Gradients lie beside a whole microbatch's activations: in a buffer, or from a microbatch before
    // (RankMemory::holds_gradients); else they come as activations go.
    bool holds_gradients_ = true;
    double dense_ = 0, expert_ = 0;  // parameters that one rank computes with, over all stages
    // Blocks and other layers by mode; the ends are never recomputed.
    std::array<Sums, kRecomputeModes.size()> blocks_sums_;
    Sums ends_sums_;
    // Of one block, full recompute over none: the least time that it adds, the most bytes that it saves.
    Sums full_block_;
    const Device* device_;
    bool executor_;  // whose layers have other temporaries, and whose processes no communicators of NCCL
    // Temporaries of the first layer, the last one and the least of the others, by mode.
    struct Beside {
        double first = 0, least_inner = 0, last = 0;
    };
    std::array<Beside, kRecomputeModes.size()> beside_;
    double least_inner_parameters_ = 0;  // that are gathered by themselves; 0 where some layer has none
    // Without a pipeline the rank is known: all layers.
    RankFootprint whole_;
    std::array<double, kRecomputeModes.size()> whole_beside_{};  // temporaries, by mode
};

// The bounds of a mesh on a cluster of several kinds of devices: the least over the kinds, because a
// partition may put any share of the layers on the fastest.
class ClusterBounds {
    template <class Bound>
    [[nodiscard]] auto least(const Bound& bound) const {
        auto result = bound(kinds_.front());
        for (std::size_t k = 1; k < kinds_.size(); ++k)
            result = std::min(result, bound(kinds_[k]));
        return result;
    }

  public:
    void add(MeshBounds bounds) { kinds_.push_back(std::move(bounds)); }

    [[nodiscard]] SimTime step_time(const ChunkChoice& chunk, bool hides_collectives) const {
        return least([&](const MeshBounds& b) { return b.step_time(chunk, hides_collectives); });
    }
    [[nodiscard]] SimTime step_time(bool hides_collectives) const {
        return least([&](const MeshBounds& b) { return b.step_time(hides_collectives); });
    }
    [[nodiscard]] double memory(const ChunkChoice& chunk, const ZeroChoice& zero) const {
        return least([&](const MeshBounds& b) { return b.memory(chunk, zero); });
    }
    [[nodiscard]] double memory() const {
        return least([](const MeshBounds& b) { return b.memory(); });
    }

  private:
    std::vector<MeshBounds> kinds_;
};

// Of a partition whose stages are not costed yet: sums over the layers of each rank, on clusters of one kind
// of device. Costing a stage takes longer than all of this by far.
class LayerBounds {
  public:
    LayerBounds(const LayerGraph& graph, const ShapeCost& shape, const ChunkChoice& chunk);

    // Whatever the ZeRO stage, but for one under which layers compute less.
    [[nodiscard]] SimTime step_time(std::span<const StageSpec> stages,
                                    std::span<const std::uint16_t> rank_of_stage,
                                    const GeneratorInfo& schedule, std::int64_t microbatches) const;

  private:
    // Of the layers before each: of a forward, of both passes, on the streams; of both, blocking expert
    // collectives.
    std::vector<SimTime> forward_, compute_, comm_, hidden_;
};

// The bound of one leaf, from its exact stages. `chunks` of each stage's last backward decide how much of the
// gradient synchronisation can hide (lowering_options); `whole` adds what depends on the ZeRO stage: updates,
// synchronisation.
SimTime leaf_step_time_bound(const ParallelPlan& plan, const PlanCost& costs,
                             std::span<const std::uint16_t> rank_of_stage, const GeneratorInfo& schedule,
                             std::span<const int> chunks, bool whole);

// Of orders that split backwards, one stage a rank, none of which holds more activations than
// limited.memory_limit_bytes (one microbatch is in flight all the same): a microbatch holds its activations
// until its gradient is back from the stages behind, then what its weight gradient needs. In a period a rank
// holds m of these spans one beside the other, so that
//     period >= m * (span of activations + span of the rest) / limit + the update.
SimTime memory_limited_step_time_bound(const ParallelPlan& plan, const PlanCost& costs,
                                       const StageCosts& limited);

}  // namespace tw
