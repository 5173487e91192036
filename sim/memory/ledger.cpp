#include "sim/memory/ledger.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "plan/frameworks/framework.hpp"
#include "plan/lower_plan.hpp"
#include "sim/memory/model_states.hpp"

namespace tw {
namespace {

// What a device holds outside the framework's allocator during training: CUDA context and library workspaces,
// one H200, PyTorch 2.11, CUDA 13.0 (0.55 GB at start, 0.89 GB in training; measured 2026-11-29).
constexpr double kContextBytes = 0.89e9;
// NCCL's buffers of one communicator: channels times the protocols' buffers for two neighbours. NCCL_BUFFSIZE
// defaults to 4 MiB (Simple); LL128 and LL take 120 * 640 * 8 * 3 / 2 and 512 * 256 * 16 / 4 bytes
// (NVIDIA/nccl, src/init.cc, comm.h).
constexpr double kNcclChannelBytes = 2.0 * (4.0 * 1048576 + 1.8 * 1048576 + 0.5 * 1048576);
// Channels of a communicator: assumed, not measured; NCCL opens 2 to 32 by topology (NCCL_MAX_NCHANNELS).
constexpr double kNcclChannels = 16;
// PyTorch's caching allocator hands out large blocks in multiples of 2 MiB
// (c10/cuda/CUDACachingAllocator.cpp, kRoundLarge).
constexpr double kLargeBlock = 2.0 * 1048576;

struct RankParameters {
    double dense = 0, expert = 0;
    double sync_buffers = 0;  // bytes
};

RankParameters rank_parameters(const ParallelPlan& plan, const PlanCost& costs,
                               std::span<const std::uint16_t> rank_of_stage, int rank) {
    RankParameters p;
    for (int s = 0; s < costs.stages(); ++s) {
        const int first = rank_of_stage[static_cast<std::size_t>(s)];
        const int replicas = plan.stages[static_cast<std::size_t>(s)].replicas;
        if (rank < first || rank >= first + replicas) continue;
        p.dense += costs.stage(s).dense_parameters;
        p.expert += costs.stage(s).expert_parameters;
        p.sync_buffers += costs.stage(s).sync_memory_bytes;
    }
    return p;
}

// What may be used of the smallest device of a pipeline rank.
double rank_capacity(const Environment& environment, const ParallelPlan& plan,
                     std::span<const std::uint16_t> rank_of_stage, int rank) {
    double capacity = std::numeric_limits<double>::infinity();
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
        const int first = rank_of_stage[s];
        if (rank < first || rank >= first + plan.stages[s].replicas) continue;
        capacity = std::min(capacity, environment.usable_memory(plan.stages[s].node_group));
    }
    return capacity;
}

int communicators(const ParallelPlan& plan) {
    const DeviceMesh& m = plan.mesh;
    return (m.tp > 1) + (m.cp > 1) + (m.dp * m.cp > 1) + (m.ep > 1) + (m.etp > 1) + 2 * (m.pp > 1);
}

}  // namespace

StageFootprint stage_footprint(const LayerGraph& graph, const StageSpec& stage, const ShapeCost& shape) {
    StageFootprint f;
    for (const StageSegment& segment : stage_segments(graph, stage)) {
        const LayerWork& work = shape.works[static_cast<std::size_t>(segment.layer_class)];
        f.activations += saved_bytes(work, segment.recompute) * segment.count;
        f.held_for_weight +=
            shape.weight_gradient_bytes[static_cast<std::size_t>(segment.layer_class)] * segment.count;
        f.transient_forward = std::max(f.transient_forward, work.transient_forward_bytes);
        f.transient_backward = std::max(
            f.transient_backward, work.transient_backward_bytes + recomputed_bytes(work, segment.recompute));
    }
    f.held_for_weight = std::min(f.held_for_weight, f.activations);
    return f;
}

// What an instruction needs while it runs, beyond what is held.
static double transient_bytes(Opcode opcode, const StageFootprint& stage, const StageFootprint& stage2) {
    if (opcode == Opcode::Forward) return stage.transient_forward;
    if (opcode == Opcode::OverlapForwardBackward) return stage.transient_forward + stage2.transient_backward;
    return opcode == Opcode::Backward || opcode == Opcode::BackwardInput ? stage.transient_backward : 0;
}

DynamicPeak dynamic_peak(const RankMemoryProfile& profile, const std::vector<StageFootprint>& stages,
                         const std::vector<double>& parameter_bytes) {
    // Sizes of the rank's stages side by side: schedules with many chunks have thousands of counts.
    const std::size_t own = profile.stages.size();
    std::vector<double> held(own), held_for_weight(own), stashed(own);
    for (std::size_t k = 0; k < own; ++k) {
        const StageFootprint& f = stages[profile.stages[k]];
        held[k] = f.activations;
        held_for_weight[k] = f.held_for_weight;
        stashed[k] = parameter_bytes[profile.stages[k]];
    }
    DynamicPeak peak;
    for (std::size_t i = 0; i < profile.snapshots.size(); ++i) {
        const MemorySnapshot& snapshot = profile.snapshots[i];
        const std::uint16_t* counts = profile.counts_of(i).data();
        DynamicPeak now;
        for (std::size_t k = 0; k < own; ++k)
            now.activations += counts[k] * held[k] + counts[own + k] * held_for_weight[k];
        for (std::size_t k = 0; k < own && profile.weight_versions > 1; ++k)
            now.weight_stash += counts[2 * own + k] * stashed[k];
        now.transient = transient_bytes(snapshot.running, stages[snapshot.stage], stages[snapshot.stage2]);
        now.instruction = snapshot.instruction;
        if (now.total() > peak.total()) peak = now;
    }
    return peak;
}

std::vector<double> activation_limits(const Environment& environment, const ParallelPlan& plan,
                                      const PlanCost& costs, std::span<const std::uint16_t> rank_of_stage) {
    std::vector<double> dense(static_cast<std::size_t>(plan.mesh.pp), 0), expert(dense), transient(dense);
    for (int s = 0; s < costs.stages(); ++s) {
        const auto r = static_cast<std::size_t>(rank_of_stage[static_cast<std::size_t>(s)]);
        dense[r] += costs.stage(s).dense_parameters;
        expert[r] += costs.stage(s).expert_parameters;
        const StageFootprint f =
            stage_footprint(environment.graph, plan.stages[static_cast<std::size_t>(s)], costs.shape(s));
        transient[r] = std::max({transient[r], f.transient_forward, f.transient_backward});
    }
    std::vector<double> limits;
    const double outside = kContextBytes + communicators(plan) * kNcclChannels * kNcclChannelBytes;
    for (std::size_t r = 0; r < dense.size(); ++r) {
        limits.push_back(std::max(0.0, rank_capacity(environment, plan, rank_of_stage, static_cast<int>(r)) -
                                           outside - model_state_bytes(plan, dense[r], expert[r]).device() -
                                           transient[r]));
    }
    return limits;
}

namespace {

struct Footprints {
    std::vector<StageFootprint> stages;
    std::vector<double> parameter_bytes;  // one version of each stage's weights
};

Footprints footprints(const Environment& environment, const ParallelPlan& plan, const PlanCost& costs) {
    Footprints f;
    for (int s = 0; s < costs.stages(); ++s) {
        const auto i = static_cast<std::size_t>(s);
        // Equal stages share their costs; so do they their footprint.
        const bool same = s > 0 && &costs.stage(s) == &costs.stage(s - 1);
        f.stages.push_back(same ? f.stages.back()
                                : stage_footprint(environment.graph, plan.stages[i], costs.shape(s)));
        f.parameter_bytes.push_back((costs.stage(s).dense_parameters + costs.stage(s).expert_parameters) *
                                    bytes_per_element(plan.precision.parameters));
    }
    return f;
}

// Buffers beside the model states that live through the step.
struct Buffers {
    double buckets = 0, gathered = 0, unsharded_gradients = 0;
};

// Two instants compete for the peak. While the compute instruction of the dynamic peak runs, gradients are
// held where an earlier microbatch (or a buffer that lives from the start) made them; at the optimizer's step
// no activation is.
struct Instants {
    bool gradients_held = true;
    double step = 0;  // that the step allocates
    [[nodiscard]] bool step_is_peak(double gradients, double dynamic) const {
        return gradients + step > (gradients_held ? gradients : 0) + dynamic;
    }
};

Instants instants(const ParallelPlan& plan, double dense, double expert) {
    const FrameworkDefaults& defaults = framework_defaults(plan.framework);
    Instants i;
    i.gradients_held = defaults.gradient_buffer || plan.microbatches > 1 || plan.zero_stage == 3;
    i.step = defaults.step_bytes * updated_parameters(plan, dense, expert);
    return i;
}

// `largest_layer`: parameters of the largest layer that the rank computes with.
Buffers buffers(const ParallelPlan& plan, double parameters, double largest_layer) {
    Buffers b;
    // Megatron's buckets are views of its gradient buffer.
    if (plan.mesh.dp * plan.mesh.cp > 1 && !framework_defaults(plan.framework).gradient_buffer &&
        plan.zero_stage < 3) {
        b.buckets = std::min(bucket_bytes(plan), parameters * 4.0);
    }
    if (plan.zero_stage == 2)
        b.unsharded_gradients = largest_layer * (plan.precision.gradient_fp32 ? 4.0 : 2.0);
    if (plan.zero_stage == 3) {  // the layer in use and the one prefetched, whole
        b.gathered = 2 * largest_layer * bytes_per_element(plan.precision.compute);
        b.unsharded_gradients = largest_layer * bytes_per_element(plan.precision.gradient_reduce);
    }
    return b;
}

double largest_layer(const LayerGraph& graph, const ParallelPlan& plan, const PlanCost& costs,
                     std::span<const std::uint16_t> rank_of_stage, int rank) {
    double largest = 0;
    for (int s = 0; s < costs.stages(); ++s) {
        if (rank_of_stage[static_cast<std::size_t>(s)] != rank) continue;
        const StageSpec& stage = plan.stages[static_cast<std::size_t>(s)];
        for (int i = stage.first_layer; i < stage.last_layer; ++i) {
            const LayerWork& w = costs.shape(s).works[static_cast<std::size_t>(graph.layer(i).layer_class)];
            largest = std::max(largest, static_cast<double>(w.dense_parameters + w.expert_parameters));
        }
    }
    return largest;
}

double rounded(double bytes) {
    return std::ceil(bytes / kLargeBlock) * kLargeBlock;
}

double outside_allocator(const ParallelPlan& plan) {
    return kContextBytes + communicators(plan) * kNcclChannels * kNcclChannelBytes;
}

}  // namespace

MemoryBase memory_base(const Environment& environment, const ParallelPlan& plan, const PlanCost& costs,
                       std::span<const std::uint16_t> rank_of_stage,
                       std::span<const RankMemoryProfile> profiles) {
    const Footprints f = footprints(environment, plan, costs);
    MemoryBase base;
    for (std::size_t r = 0; r < profiles.size(); ++r) {
        const RankParameters parameters = rank_parameters(plan, costs, rank_of_stage, static_cast<int>(r));
        const DynamicPeak peak = dynamic_peak(profiles[r], f.stages, f.parameter_bytes);
        MemoryBase::Rank rank;
        rank.dense = parameters.dense;
        rank.expert = parameters.expert;
        rank.largest_layer =
            largest_layer(environment.graph, plan, costs, rank_of_stage, static_cast<int>(r));
        rank.capacity = rank_capacity(environment, plan, rank_of_stage, static_cast<int>(r));
        rank.allocated = peak.total() + parameters.sync_buffers;
        rank.reserved = rounded(peak.activations) + rounded(peak.transient) + rounded(peak.weight_stash) +
                        rounded(parameters.sync_buffers);
        base.ranks.push_back(rank);
    }
    return base;
}

MemoryTotals memory_totals(const ParallelPlan& plan, const MemoryBase& base) {
    MemoryTotals totals;
    const double outside = outside_allocator(plan);
    for (const MemoryBase::Rank& rank : base.ranks) {
        const ModelStateBytes states = model_state_bytes(plan, rank.dense, rank.expert);
        const Buffers b = buffers(plan, rank.dense + rank.expert, rank.largest_layer);
        const Instants at = instants(plan, rank.dense, rank.expert);
        const double dynamic = b.gathered + b.unsharded_gradients + rank.allocated;
        const bool step = at.step_is_peak(states.gradients, dynamic);
        double allocated = 0, reserved = 0;
        const auto add = [&](double bytes) {
            allocated += bytes;
            reserved += rounded(bytes);
        };
        for (const double bytes : {states.parameters, states.master, states.optimizer, b.buckets})
            add(bytes);
        if (step || at.gradients_held) add(states.gradients);
        if (step) {
            add(at.step);
        } else {
            add(b.gathered);
            add(b.unsharded_gradients);
            allocated += rank.allocated;
            reserved += rank.reserved;
        }
        totals.allocated = std::max(totals.allocated, allocated);
        totals.reserved = std::max(totals.reserved, reserved);
        totals.device = std::max(totals.device, reserved + outside);
        totals.fits &= reserved + outside <= rank.capacity;
    }
    return totals;
}

std::vector<StageMemory> memory_ledger(const Environment& environment, const ParallelPlan& plan,
                                       const PlanCost& costs, const LoweredSchedule& lowered) {
    const Schedule& schedule = lowered.schedule;
    const Footprints f = footprints(environment, plan, costs);
    // Anew, so that the peak's instruction counts transfers too.
    const std::vector<RankMemoryProfile> profiles = memory_profile(schedule);
    std::vector<StageMemory> result;
    for (int r = 0; r < schedule.ranks(); ++r) {
        const RankProgram& program = schedule.programs[static_cast<std::size_t>(r)];
        const RankMemoryProfile& profile = profiles[static_cast<std::size_t>(r)];
        const RankParameters parameters = rank_parameters(plan, costs, schedule.rank_of_stage, r);
        const DynamicPeak peak = dynamic_peak(profile, f.stages, f.parameter_bytes);
        const double layer = largest_layer(environment.graph, plan, costs, schedule.rank_of_stage, r);
        const Buffers b = buffers(plan, parameters.dense + parameters.expert, layer);
        StageMemory m;
        m.rank = r;
        m.addends = model_state_addends(plan, parameters.dense, parameters.expert);
        for (const MemoryAddend& a : m.addends)
            m.initialisation_peak_bytes += a.bytes;
        const auto add = [&](const char* name, double bytes, std::string formula) {
            if (bytes > 0) m.addends.push_back({name, bytes, std::move(formula)});
        };
        const double element = bytes_per_element(plan.precision.compute);
        const double grad = layer > 0 ? b.unsharded_gradients / layer : 0;
        add("gradient buckets", b.buckets, fmt::format("one bucket of {:.4g} B in flight", b.buckets));
        const Instants at = instants(plan, parameters.dense, parameters.expert);
        const double gradients = model_state_bytes(plan, parameters.dense, parameters.expert).gradients;
        const bool step = at.step_is_peak(
            gradients, b.gathered + b.unsharded_gradients + parameters.sync_buffers + peak.total());
        if (!step && !at.gradients_held) {
            std::erase_if(m.addends, [](const MemoryAddend& a) { return a.name == "gradients"; });
        }
        if (step) {
            add("optimizer temporaries", at.step, "of the optimizer's step");
        } else {
            add("gathered parameters", b.gathered,
                fmt::format("2 layers x {:g} B x {:.6g} parameters", element, layer));
            add("unsharded gradients", b.unsharded_gradients,
                fmt::format("{:g} B x {:.6g} parameters", grad, layer));
            add("synchronisation buffers", parameters.sync_buffers,
                "of gradient_sync '" + plan.gradient_sync + "'");
            add("activations", peak.activations,
                fmt::format("{} microbatch(es) of this rank's stages in flight", profile.peak_in_flight));
            add("temporaries", peak.transient, "largest layer at the peak's instruction");
            add("stashed weights", peak.weight_stash, "older versions kept for backwards in flight");
        }
        for (const MemoryAddend& a : m.addends) {
            m.peak_allocated_bytes += a.bytes;
            m.peak_reserved_bytes += rounded(a.bytes);
        }
        m.device_bytes = m.peak_reserved_bytes + outside_allocator(plan);
        m.capacity_bytes = rank_capacity(environment, plan, schedule.rank_of_stage, r);
        if (!program.instructions.empty()) {
            m.peak_instant = fmt::format("rank {}, {}", r, to_string(program.instructions[peak.instruction]));
        }
        result.push_back(std::move(m));
    }
    return result;
}

void add_memory_curves(const Environment& environment, const ParallelPlan& plan, const PlanCost& costs,
                       const Schedule& schedule, Trace& trace) {
    const Footprints sizes = footprints(environment, plan, costs);
    trace.memory_categories = {"model states", "activations", "temporaries", "stashed weights"};
    double smallest = std::numeric_limits<double>::infinity();  // one line for all ranks
    for (int r = 0; r < schedule.ranks(); ++r)
        smallest = std::min(smallest, rank_capacity(environment, plan, schedule.rank_of_stage, r));
    trace.memory_capacity_bytes = static_cast<std::int64_t>(smallest);
    for (RankTrace& rank : trace.ranks) {
        const auto r = rank.rank % schedule.ranks();
        const RankProgram& program = schedule.programs[static_cast<std::size_t>(r)];
        const RankParameters parameters = rank_parameters(plan, costs, schedule.rank_of_stage, r);
        const auto states =
            static_cast<std::int64_t>(model_state_bytes(plan, parameters.dense, parameters.expert).device());
        const std::vector<std::uint32_t> last = last_chunks(program, schedule.stages);
        double activations = 0, stash = 0;
        const auto sample = [&](SimTime t, double transient) {
            rank.memory.push_back({t,
                                   {states, static_cast<std::int64_t>(activations),
                                    static_cast<std::int64_t>(transient), static_cast<std::int64_t>(stash)}});
        };
        std::int32_t step = -1;
        for (const TraceEvent& event : rank.events) {
            const Instruction& in = event.instruction;
            if (schedule.boundary != StepBoundary::None && event.step != step) {
                activations = stash = 0;
                step = event.step;
            }
            const MemoryEffect effect = memory_effect(in.opcode, in.part == 0 || in.part == last[in.stage]);
            if (!effect.any()) continue;
            const StageFootprint& f = sizes.stages[in.stage];
            const auto apply = [&](const MemoryEffect::Counts& delta) {
                activations += delta.held * f.activations + delta.held_for_weight * f.held_for_weight;
                stash = std::max(0.0, stash + delta.stashed * sizes.parameter_bytes[in.stage]);
            };
            apply(effect.before);
            sample(event.start, transient_bytes(in.opcode, f, sizes.stages[in.stage2]));
            apply(effect.after);
            activations += effect.after2_held * sizes.stages[in.stage2].activations;
            sample(event.end, 0);
        }
        std::stable_sort(rank.memory.begin(), rank.memory.end(),
                         [](const auto& a, const auto& b) { return a.time < b.time; });
    }
}

}  // namespace tw
