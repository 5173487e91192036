#include "planner/bounds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "plan/frameworks/framework.hpp"
#include "plan/lower_plan.hpp"
#include "sim/memory/device_overhead.hpp"
#include "sim/memory/ledger.hpp"
#include "sim/memory/model_states.hpp"

namespace tw {
namespace {

// What one stream does in a phase, one thing after the other: a lower bound that adds up over layers (the
// whole device path would not: a layer's overlapped tail may hide behind the next layer, and a path that is
// on one stream in this layer need not be on the other in the next).
SimTime stream_path(const PhaseCost& phase, CostStream stream) {
    return phase.matrix.get(stream, stream);
}

SimTime backward_path(const LayerCost& layer, RecomputeMode mode, CostStream stream) {
    return std::min(stream_path(layer.phase(mode, Opcode::Backward), stream),
                    stream_path(layer.phase(mode, Opcode::BackwardInput), stream) +
                        stream_path(layer.phase(mode, Opcode::BackwardWeight), stream));
}

// Updates of a rank's stages, then each one's gather: a stage is updated while another is gathered (a flow
// shop of two machines), so each machine works through, and the other has at least its shortest piece before
// or after.
class UpdateBound {
  public:
    void add(SimTime update, SimTime gather) {
        updates_ += update;
        gathers_ += gather;
        least_update_ = std::min(least_update_, update);
        least_gather_ = std::min(least_gather_, gather);
    }
    [[nodiscard]] SimTime time() const {
        if (updates_ == 0) return gathers_;
        return std::max(updates_ + least_gather_, least_update_ + gathers_);
    }

  private:
    SimTime updates_ = 0, gathers_ = 0;
    SimTime least_update_ = kNever, least_gather_ = kNever;
};

// Blocks that a uniform partition recomputes when each stage runs its first k again.
std::int64_t recomputed_blocks(std::int64_t blocks, std::int64_t stages, std::int64_t k) {
    const std::int64_t floor = blocks / stages, longer = blocks % stages;
    return longer * std::min(floor + 1, k) + (stages - longer) * std::min(floor, k);
}

}  // namespace

MeshBounds::MeshBounds(const Environment& environment, const ShapeCost& shape, const MeshChoice& mesh,
                       const ParallelPlan& base, int node_group)
    : mesh_(mesh),
      states_plan_(base),
      blocks_(environment.graph.blocks),
      device_(&environment.node_group(node_group).device),
      executor_(shape.executor) {
    states_plan_.mesh = mesh.mesh;
    states_plan_.microbatches = mesh.microbatches;
    states_plan_.stages.clear();
    holds_gradients_ = framework_defaults(base.framework).gradient_buffer || mesh.microbatches > 1;
    const LayerGraph& graph = environment.graph;
    full_block_.compute = full_block_.comm = full_block_.shard = kNever;
    // Of one layer, by mode.
    std::vector<std::array<Sums, kRecomputeModes.size()>> classes(shape.works.size());
    for (std::size_t c = 0; c < classes.size(); ++c) {
        for (const RecomputeMode mode : kRecomputeModes)
            classes[c][static_cast<std::size_t>(mode)] = sums_of(shape.layers[c], shape.works[c], mode);
    }
    const auto add = [](Sums& sums, const Sums& layer) {
        sums.compute = saturating_add(sums.compute, layer.compute);
        sums.comm += layer.comm;
        sums.shard += layer.shard;
        sums.hidden += layer.hidden;
        sums.saved += layer.saved;
    };
    for (int i = 0; i < graph.size(); ++i) {
        const auto c = static_cast<std::size_t>(graph.layer(i).layer_class);
        dense_ += static_cast<double>(shape.works[c].dense_parameters);
        expert_ += static_cast<double>(shape.works[c].expert_parameters);
        const Sums& none = classes[c][static_cast<std::size_t>(RecomputeMode::None)];
        const Sums& full = classes[c][static_cast<std::size_t>(RecomputeMode::Full)];
        if (!recomputes(graph.layer(i).role)) {
            add(ends_sums_, none);
            continue;
        }
        for (const RecomputeMode mode : kRecomputeModes) {
            if (mode == RecomputeMode::SelectiveOps && !shape.shape.by_op) continue;
            if (mode == RecomputeMode::Modules && !shape.shape.modules.any()) continue;
            add(blocks_sums_[static_cast<std::size_t>(mode)], classes[c][static_cast<std::size_t>(mode)]);
        }
        full_block_.compute = std::min(full_block_.compute, full.compute - none.compute);
        full_block_.comm = std::min(full_block_.comm, full.comm - none.comm);
        full_block_.shard = std::min(full_block_.shard, full.shard - none.shard);
        full_block_.saved = std::max(full_block_.saved, none.saved - full.saved);
    }
    // Without a pipeline a tied head has no rows of its own (as in PlanCost).
    if (mesh.mesh.pp == 1) dense_ -= shared_table_parameters(graph, shape.shape);
    if (!executor_) add_layers(graph, shape);
}

MeshBounds::Sums MeshBounds::sums_of(const LayerCost& layer, const LayerWork& work, RecomputeMode mode) {
    const PhaseCost& forward = layer.phase(mode, Opcode::Forward);
    const auto path = [&](CostStream stream) {
        return stream_path(forward, stream) + backward_path(layer, mode, stream);
    };
    Sums sums;
    sums.compute = path(CostStream::Compute);
    sums.comm = path(CostStream::Comm);
    sums.shard = path(CostStream::Shard);
    sums.hidden =
        to_sim_time(Seconds(forward.ep.blocking_s + layer.phase(mode, Opcode::Backward).ep.blocking_s));
    sums.saved = saved_bytes(work, mode);
    return sums;
}

void MeshBounds::add_layers(const LayerGraph& graph, const ShapeCost& shape) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    for (Beside& mode : beside_)
        mode.least_inner = kInfinity;
    least_inner_parameters_ = graph.size() > 2 ? kInfinity : 0;
    // Temporaries of one layer, by mode.
    std::vector<std::array<double, kRecomputeModes.size()>> classes(shape.works.size());
    for (std::size_t c = 0; c < classes.size(); ++c) {
        const LayerWork& work = shape.works[c];
        for (std::size_t m = 0; m < classes[c].size(); ++m) {
            classes[c][m] = std::max(
                work.transient_forward_bytes,
                work.transient_backward_bytes + recomputed_bytes(work, static_cast<RecomputeMode>(m)));
        }
    }
    for (int i = 0; i < graph.size(); ++i) {
        const Layer& layer = graph.layer(i);
        const LayerWork& work = shape.works[static_cast<std::size_t>(layer.layer_class)];
        const bool first = i == 0, last = i + 1 == graph.size();
        for (std::size_t m = 0; m < beside_.size(); ++m) {
            const double bytes =
                classes[static_cast<std::size_t>(layer.layer_class)][recomputes(layer.role) ? m : 0];
            double& own = first ? beside_[m].first : last ? beside_[m].last : beside_[m].least_inner;
            own = first || last ? bytes : std::min(own, bytes);
        }
        const bool outside = layer.role == LayerRole::Embedding || layer.role == LayerRole::Head;
        const auto parameters = static_cast<double>(work.dense_parameters + work.expert_parameters);
        if (!first && !last)
            least_inner_parameters_ = std::min(least_inner_parameters_, outside ? 0 : parameters);
        (outside ? whole_.outside_blocks : whole_.largest_block) =
            outside ? whole_.outside_blocks + parameters : std::max(whole_.largest_block, parameters);
        whole_.quantised += static_cast<double>(work.quantised_parameters);
        whole_.largest_weight = std::max(whole_.largest_weight, static_cast<double>(work.largest_weight));
    }
    if (graph.size() <= 2) {
        for (Beside& mode : beside_)
            mode.least_inner = 0;
    }
    if (mesh_.mesh.pp > 1) return;
    whole_.dense = dense_;
    whole_.expert = expert_;
    whole_.outside_blocks = std::min(whole_.outside_blocks, dense_);
    whole_.device = device_;
    StageSpec all;
    all.last_layer = graph.size();
    for (std::size_t m = 0; m < whole_beside_.size(); ++m) {
        all.recompute = static_cast<RecomputeMode>(m);
        const StageFootprint f = stage_footprint(graph, all, shape);
        whole_beside_[m] = std::max(f.transient_forward, f.transient_backward);
    }
}

// A rank holds all its own layers' activations of its first microbatch when the last of its stages runs that
// microbatch's backward. One such stage ends with the model's last layer, at most one with its first.
double MeshBounds::beside_at_ends(RecomputeMode mode) const {
    const Beside& b = beside_[static_cast<std::size_t>(mode)];
    const int pp = mesh_.mesh.pp;
    if (pp == 1) return b.last;
    return (b.last + (pp - 2) * b.least_inner + std::min(b.first, b.least_inner)) / pp;
}

MeshBounds::Held MeshBounds::held(const ChunkChoice& chunk) const {
    Held held;
    if (!states_plan_.offload_activations) held.saved = sums(chunk).saved / mesh_.mesh.pp;
    if (executor_) return held;
    const auto mode = static_cast<std::size_t>(chunk.recompute);
    if (chunk.recompute_layers >= 0) {
        held.beside = std::min(beside_at_ends(RecomputeMode::None), beside_at_ends(RecomputeMode::Full));
    } else {
        held.beside = mesh_.mesh.pp == 1 ? whole_beside_[mode] : beside_at_ends(chunk.recompute);
    }
    return held;
}

MeshBounds::Sums MeshBounds::sums(const ChunkChoice& chunk) const {
    Sums s = blocks_sums_[static_cast<std::size_t>(chunk.recompute)];
    if (chunk.recompute == RecomputeMode::Full && chunk.recompute_layers >= 0) {
        const std::int64_t stages = std::int64_t{mesh_.mesh.pp} * chunk.virtual_stages;
        const std::int64_t again = recomputed_blocks(blocks_, stages, chunk.recompute_layers);
        s = blocks_sums_[static_cast<std::size_t>(RecomputeMode::None)];
        s.compute = saturating_add(s.compute, saturating_multiply(full_block_.compute, again));
        s.comm += full_block_.comm * again;
        s.shard += full_block_.shard * again;
        s.hidden =
            blocks_sums_[static_cast<std::size_t>(RecomputeMode::Full)].hidden;  // the largest of the modes
        s.saved = std::max(0.0, s.saved - full_block_.saved * static_cast<double>(again));
    }
    s.compute = saturating_add(s.compute, ends_sums_.compute);
    s.comm += ends_sums_.comm;
    s.shard += ends_sums_.shard;
    s.hidden += ends_sums_.hidden;
    s.saved += ends_sums_.saved;
    return s;
}

SimTime MeshBounds::step_time(const ChunkChoice& chunk, bool hides_collectives) const {
    const Sums s = sums(chunk);
    // One picosecond a layer and phase for roundings.
    const SimTime busiest = std::max({s.compute, s.comm, s.shard});
    const SimTime work =
        std::max(SimTime{0}, (hides_collectives ? busiest - s.hidden : busiest) - 16 * (blocks_ + 2));
    return saturating_multiply(work, mesh_.microbatches) / mesh_.mesh.pp;
}

double MeshBounds::memory(const Held& held, const ZeroChoice& zero, bool gradients_beside) const {
    ParallelPlan plan = states_plan_;  // without stages: cheap to copy
    plan.zero_stage = zero.stage;
    plan.zero_shard = zero.shard;
    const bool processor = executor_ || device_->architecture == "cpu";
    const double overhead = processor ? 0 : device_overhead(plan, *device_);
    if (mesh_.mesh.pp == 1 && !executor_) {
        RankFootprint f = whole_;
        f.activations = held.saved;
        f.transient = held.beside;
        return rank_memory(plan, f).allocated + overhead;
    }
    // The rank that holds most holds at least the mean: the states of 1/pp of the layers, and one microbatch
    // of theirs, unless activations leave the device.
    const int pp = mesh_.mesh.pp;
    const ModelStateBytes states = model_state_bytes(plan, dense_ / pp, expert_ / pp);
    double dynamic = held.saved + held.beside;
    const bool by_layer = zero.stage == 3 && !executor_ && !fsdp_in_pipeline(plan) &&
                          framework_defaults(plan.framework).live_parameters <= 0;
    if (by_layer) {
        // As in rank_memory; ranks of the first or the last layer alone gather none of the others.
        const double layer = least_inner_parameters_ * (pp - std::min(2, pp - 1)) / pp;
        dynamic +=
            layer * (2 * gathered_parameter_bytes(plan) + bytes_per_element(plan.precision.gradient_reduce));
    }
    if (gradients_beside) return overhead + states.device() + dynamic;
    return overhead + states.device() - states.gradients + std::max(states.gradients, dynamic);
}

double MeshBounds::memory(const ChunkChoice& chunk, const ZeroChoice& zero) const {
    return memory(held(chunk), zero, holds_gradients_ || zero.stage == 3);
}

double MeshBounds::memory() const {
    ChunkChoice full;
    full.recompute = RecomputeMode::Full;
    Held least = held(full);
    if (!executor_) {
        for (std::size_t m = 0; m < beside_.size(); ++m)
            least.beside = std::min(least.beside, beside_at_ends(static_cast<RecomputeMode>(m)));
    }
    // What is sharded more is gathered again, and flattened even for one replica.
    double bytes = std::numeric_limits<double>::infinity();
    for (const int stage : {0, 1, 2, 3})
        bytes = std::min(bytes, memory(least, {stage, 0}, holds_gradients_));
    return bytes;
}

LayerBounds::LayerBounds(const LayerGraph& graph, const ShapeCost& shape, const ChunkChoice& chunk)
    : forward_{0}, compute_{0}, comm_{0}, hidden_{0} {
    const auto add = [](std::vector<SimTime>& sums, SimTime time) {
        sums.push_back(saturating_add(sums.back(), time));
    };
    for (int i = 0; i < graph.size(); ++i) {
        const LayerCost& layer = shape.layers[static_cast<std::size_t>(graph.layer(i).layer_class)];
        std::array<RecomputeMode, 2> modes = {RecomputeMode::None, RecomputeMode::None};
        if (recomputes(graph.layer(i).role)) {
            modes[0] = modes[1] = chunk.recompute;
            if (chunk.recompute_layers >= 0) modes[1] = RecomputeMode::None;  // of some blocks
        }
        const auto least = [&](const auto& of) { return std::min(of(modes[0]), of(modes[1])); };
        const auto forward = [&](RecomputeMode mode, CostStream stream) {
            return stream_path(layer.phase(mode, Opcode::Forward), stream);
        };
        const auto both = [&](CostStream stream) {
            return least([&](RecomputeMode mode) {
                return saturating_add(forward(mode, stream), backward_path(layer, mode, stream));
            });
        };
        add(forward_, least([&](RecomputeMode mode) { return forward(mode, CostStream::Compute); }));
        add(compute_, both(CostStream::Compute));
        add(comm_, both(CostStream::Comm));
        add(hidden_, -least([&](RecomputeMode mode) {  // the most
                return -to_sim_time(Seconds(layer.phase(mode, Opcode::Forward).ep.blocking_s +
                                            layer.phase(mode, Opcode::Backward).ep.blocking_s));
            }));
    }
}

SimTime LayerBounds::step_time(std::span<const StageSpec> stages,
                               std::span<const std::uint16_t> rank_of_stage, const GeneratorInfo& schedule,
                               std::int64_t microbatches) const {
    const auto of = [](const std::vector<SimTime>& sums, const StageSpec& stage) {
        return sums[static_cast<std::size_t>(stage.last_layer)] -
               sums[static_cast<std::size_t>(stage.first_layer)];
    };
    struct Rank {
        SimTime compute = 0, comm = 0, hidden = 0;
    };
    std::vector<Rank> ranks(stages.size());
    for (std::size_t s = 0; s < stages.size(); ++s) {
        Rank& rank = ranks[rank_of_stage[s]];
        rank.compute += of(compute_, stages[s]);
        rank.comm += of(comm_, stages[s]);
        if (schedule.overlaps_passes) rank.hidden += of(hidden_, stages[s]);
    }
    // One picosecond a layer and phase for roundings, as in MeshBounds.
    const auto rounding = static_cast<SimTime>(16 * (forward_.size() + 1));
    const auto work = [&](const Rank& rank) {
        const SimTime once = std::max(rank.compute, rank.comm) - rank.hidden - rounding;
        return saturating_multiply(std::max(SimTime{0}, once), microbatches);
    };
    SimTime bound = 0;
    for (const Rank& rank : ranks)
        bound = std::max(bound, work(rank));
    if (schedule.boundary != StepBoundary::Barrier || schedule.overlaps_passes) return bound;
    SimTime before = -rounding;  // as in leaf_step_time_bound
    for (std::size_t s = 0; s < stages.size() && rank_of_stage[s] == s; ++s) {
        bound = std::max(bound, saturating_add(before, work(ranks[s])));
        before += of(schedule.splits_backward ? forward_ : compute_, stages[s]);
    }
    return bound;
}

SimTime leaf_step_time_bound(const ParallelPlan& plan, const PlanCost& costs,
                             std::span<const std::uint16_t> rank_of_stage, const GeneratorInfo& schedule,
                             std::span<const int> chunks, bool whole) {
    const auto stages = static_cast<std::size_t>(costs.stages());
    const auto time = [](double seconds) { return to_sim_time(Seconds(seconds)); };
    std::vector<SimTime> work(static_cast<std::size_t>(plan.mesh.pp), 0), bucket(work), lane(work);
    std::vector<UpdateBound> update(work.size());
    const bool gathers = !gathers_beside_forward(plan) && schedule.boundary != StepBoundary::None;
    // A rank's first forward waits for its own stage's gather, whichever of its stages begins.
    std::vector<SimTime> first(work.size(), kNever);
    std::vector<SimTime> forward(stages), backward(stages);
    for (std::size_t s = 0; s < stages; ++s) {
        const StageCostSet& c = costs.stage(static_cast<int>(s));
        SimTime f = c.forward.device_time();
        SimTime b = c.backward.device_time();
        if (schedule.splits_backward)
            b = std::min(b, c.backward_input.device_time() + c.backward_weight.device_time());
        if (schedule.overlaps_passes) {
            f -= time(c.forward.ep.blocking_s);
            b -= time(c.backward.ep.blocking_s);
        }
        forward[s] = f;
        backward[s] = b;
        const std::size_t r = rank_of_stage[s];
        // Chunks of a cut backward are rounded down: at most 8 picoseconds each.
        work[r] = saturating_add(work[r], saturating_multiply(f + b - 8, plan.microbatches));
        if (!whole) continue;
        // The lane of data-parallel collectives is a resource too: ZeRO-2 uses it after every microbatch.
        const std::int64_t times = syncs_every_microbatch(plan) ? plan.microbatches : 1;
        lane[r] = saturating_add(lane[r], saturating_multiply(time(c.gradient_sync.seconds), times) - 8);
        update[r].add(time(c.optimizer_s), gathers ? time(c.parameter_gather.seconds) : 0);
        const bool beside = gathers_beside_forward(plan) && schedule.boundary != StepBoundary::None;
        first[r] = std::min(first[r], beside ? time(costs.waited_gather(static_cast<int>(s))) : 0);
        const int parts = chunks.empty() ? 1 : chunks[s];
        bucket[r] = std::max(bucket[r], time(c.gradient_sync.seconds / parts));
    }
    // Without a flush collectives may lag behind for as long as the simulated steps last.
    if (schedule.boundary == StepBoundary::None) {
        std::fill(bucket.begin(), bucket.end(), SimTime{0});
        std::fill(lane.begin(), lane.end(), SimTime{0});
    }
    const SimTime norm =
        whole && schedule.boundary == StepBoundary::Barrier ? time(costs.gradient_norm().seconds) : 0;
    SimTime bound = 0;
    for (std::size_t r = 0; r < work.size(); ++r) {
        const SimTime begins = first[r] == kNever ? 0 : first[r];
        bound = std::max(bound, std::max(begins + work[r], lane[r]) + update[r].time() + norm);
    }
    if (schedule.boundary != StepBoundary::Barrier) return bound;
    SimTime before = 0;
    for (std::size_t s = 0; s < work.size() && rank_of_stage[s] == s; ++s) {
        // Stage 0's last backward ends last on rank 0; its last bucket follows.
        const bool followed = stages == work.size() && !schedule.splits_backward;
        const SimTime after = (followed ? bucket[0] : SimTime{0}) + norm + update[0].time();
        bound = std::max(bound, before + work[s] + after);
        const StageCostSet& c = costs.stage(static_cast<int>(s));
        before += forward[s] - 8 + time(c.send_activation.seconds);
        if (schedule.splits_backward) continue;  // a weight gradient may come last, which nothing follows
        before += backward[s];
        if (s + 1 < stages) before += time(costs.stage(static_cast<int>(s) + 1).send_gradient.seconds);
    }
    return bound;
}

SimTime memory_limited_step_time_bound(const ParallelPlan& plan, const PlanCost& costs,
                                       const StageCosts& limited) {
    const auto time = [](double seconds) { return to_sim_time(Seconds(seconds)); };
    double bound = 0;
    double behind = 0;  // from the end of a rank's forward to its gradient's arrival
    for (int s = costs.stages() - 1; s >= 0; --s) {
        const StageCostSet& c = costs.stage(s);
        const auto r = static_cast<std::size_t>(s);
        if (s + 1 < costs.stages()) {
            const StageCostSet& next = costs.stage(s + 1);
            const SimTime there = time(c.send_activation.seconds), back = time(next.send_gradient.seconds);
            behind += static_cast<double>(there + next.forward.device_time() +
                                          next.backward_input.device_time() + back);
        }
        // Generators count activations when actions begin: the gradient's own time holds what is kept.
        const double whole = static_cast<double>(c.forward.device_time()) + behind;
        const double held =
            whole * limited.activation_bytes[r] +
            static_cast<double>(c.backward_input.device_time()) * limited.weight_grad_bytes[r];
        const double limit = std::max(limited.memory_limit_bytes[r], limited.activation_bytes[r]);
        if (limit <= 0) continue;
        const double update = static_cast<double>(time(c.optimizer_s));
        // Sums of sizes are rounded.
        bound = std::max(bound, held / limit * static_cast<double>(plan.microbatches) * (1 - 1e-6) + update);
    }
    return bound < static_cast<double>(kNever) ? static_cast<SimTime>(bound) : kNever;
}

}  // namespace tw
