#include "planner/bounds.hpp"

#include <algorithm>
#include <cmath>

#include "sim/memory/model_states.hpp"

namespace tw {
namespace {

// Kernels and blocking collectives of a phase, one after the other: a lower bound that adds up over layers
// (the whole device path would not: a layer's overlapped tail may hide behind the next layer).
SimTime compute_path(const PhaseCost& phase) {
    return std::max(phase.matrix.get(CostStream::Compute, CostStream::Compute),
                    phase.matrix.get(CostStream::Comm, CostStream::Comm));
}

SimTime backward_path(const LayerCost& layer, RecomputeMode mode) {
    return std::min(compute_path(layer.phase(mode, Opcode::Backward)),
                    compute_path(layer.phase(mode, Opcode::BackwardInput)) +
                        compute_path(layer.phase(mode, Opcode::BackwardWeight)));
}

// Blocks that a uniform partition recomputes when each stage runs its first k again.
std::int64_t recomputed_blocks(std::int64_t blocks, std::int64_t stages, std::int64_t k) {
    const std::int64_t floor = blocks / stages, longer = blocks % stages;
    return longer * std::min(floor + 1, k) + (stages - longer) * std::min(floor, k);
}

}  // namespace

MeshBounds::MeshBounds(const Environment& environment, const ShapeCost& shape, const MeshChoice& mesh,
                       const ParallelPlan& base)
    : mesh_(mesh), states_plan_(base), blocks_(environment.graph.blocks) {
    states_plan_.mesh = mesh.mesh;
    const LayerGraph& graph = environment.graph;
    full_block_.compute = full_block_.kernels = kNever;
    for (int i = 0; i < graph.size(); ++i) {
        const auto c = static_cast<std::size_t>(graph.layer(i).layer_class);
        const LayerWork& work = shape.works[c];
        const LayerCost& layer = shape.layers[c];
        dense_ += static_cast<double>(work.dense_parameters);
        expert_ += static_cast<double>(work.expert_parameters);
        const bool recomputes =
            graph.layer(i).role == LayerRole::Block || graph.layer(i).role == LayerRole::Other;
        const auto add = [&](Sums& sums, RecomputeMode mode) {
            const PhaseCost& forward = layer.phase(mode, Opcode::Forward);
            sums.compute += compute_path(forward) + backward_path(layer, mode);
            sums.kernels +=
                to_sim_time(Seconds(forward.kernel_s + layer.phase(mode, Opcode::Backward).kernel_s));
            sums.saved += saved_bytes(work, mode);
        };
        if (!recomputes) {
            add(ends_sums_, RecomputeMode::None);
            continue;
        }
        for (const RecomputeMode mode :
             {RecomputeMode::None, RecomputeMode::Selective, RecomputeMode::Full}) {
            add(blocks_sums_[static_cast<std::size_t>(mode)], mode);
        }
        Sums none, full;
        add(none, RecomputeMode::None);
        add(full, RecomputeMode::Full);
        full_block_.compute = std::min(full_block_.compute, full.compute - none.compute);
        full_block_.kernels = std::min(full_block_.kernels, full.kernels - none.kernels);
        full_block_.saved = std::max(full_block_.saved, none.saved - full.saved);
    }
}

MeshBounds::Sums MeshBounds::sums(const ChunkChoice& chunk) const {
    Sums s = blocks_sums_[static_cast<std::size_t>(chunk.recompute)];
    if (chunk.recompute == RecomputeMode::Full && chunk.recompute_layers >= 0) {
        const std::int64_t stages = std::int64_t{mesh_.mesh.pp} * chunk.virtual_stages;
        const std::int64_t again = recomputed_blocks(blocks_, stages, chunk.recompute_layers);
        s = blocks_sums_[static_cast<std::size_t>(RecomputeMode::None)];
        s.compute += full_block_.compute * again;
        s.kernels += full_block_.kernels * again;
        s.saved = std::max(0.0, s.saved - full_block_.saved * static_cast<double>(again));
    }
    s.compute += ends_sums_.compute;
    s.kernels += ends_sums_.kernels;
    s.saved += ends_sums_.saved;
    return s;
}

SimTime MeshBounds::step_time(const ChunkChoice& chunk, bool hides_collectives) const {
    const Sums s = sums(chunk);
    // One picosecond a layer and phase for roundings.
    const SimTime work = std::max(
        SimTime{0}, (hides_collectives ? std::min(s.kernels, s.compute) : s.compute) - 16 * (blocks_ + 2));
    return work * mesh_.microbatches / mesh_.mesh.pp;
}

double MeshBounds::memory(const ChunkChoice& chunk, const ZeroChoice& zero) const {
    ParallelPlan plan = states_plan_;
    plan.zero_stage = zero.stage;
    plan.zero_shard = zero.shard;
    // The rank that holds most holds at least the mean: the states of 1/pp of the layers, and one microbatch
    // of theirs.
    return model_states(plan, dense_ / mesh_.mesh.pp, expert_ / mesh_.mesh.pp).device_bytes() +
           sums(chunk).saved / mesh_.mesh.pp;
}

double MeshBounds::memory() const {
    ChunkChoice full;
    full.recompute = RecomputeMode::Full;
    return memory(full, {3, 0});
}

SimTime leaf_step_time_bound(const ParallelPlan& plan, const PlanCost& costs,
                             std::span<const std::uint16_t> rank_of_stage, const GeneratorInfo& schedule) {
    const int p = plan.mesh.pp;
    std::vector<SimTime> work(static_cast<std::size_t>(p), 0), update(work);
    std::vector<SimTime> forward(static_cast<std::size_t>(costs.stages())), backward(forward);
    for (int s = 0; s < costs.stages(); ++s) {
        const StageCostSet& c = costs.stage(s);
        SimTime f = c.forward.device_time();
        SimTime b = c.backward.device_time();
        if (schedule.splits_backward)
            b = std::min(b, c.backward_input.device_time() + c.backward_weight.device_time());
        if (schedule.overlaps_passes) {
            f = std::min(f, to_sim_time(Seconds(c.forward.kernel_s)));
            b = std::min(b, to_sim_time(Seconds(c.backward.kernel_s)));
        }
        forward[static_cast<std::size_t>(s)] = f;
        backward[static_cast<std::size_t>(s)] = b;
        const auto r = static_cast<std::size_t>(rank_of_stage[static_cast<std::size_t>(s)]);
        // Chunks of a cut backward are rounded down: at most 8 picoseconds each.
        work[r] += (f + b - 8) * plan.microbatches;
        update[r] += to_sim_time(Seconds(c.optimizer_s));
    }
    SimTime bound = 0;
    for (int r = 0; r < p; ++r)
        bound = std::max(bound, work[static_cast<std::size_t>(r)] + update[static_cast<std::size_t>(r)]);
    if (schedule.boundary != StepBoundary::Barrier) return bound;
    SimTime before = 0;
    for (int s = 0; s < p && rank_of_stage[static_cast<std::size_t>(s)] == s; ++s) {
        bound = std::max(bound, before + work[static_cast<std::size_t>(s)] + update[0]);
        const StageCostSet& c = costs.stage(s);
        before += forward[static_cast<std::size_t>(s)] - 8 + to_sim_time(Seconds(c.send_activation.seconds));
        if (schedule.splits_backward) continue;  // a weight gradient may come last, which nothing follows
        before += backward[static_cast<std::size_t>(s)];
        if (s + 1 < costs.stages()) before += to_sim_time(Seconds(costs.stage(s + 1).send_gradient.seconds));
    }
    return bound;
}

}  // namespace tw
