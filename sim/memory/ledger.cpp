#include "sim/memory/ledger.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "plan/frameworks/framework.hpp"
#include "plan/lower_plan.hpp"
#include "sim/memory/device_overhead.hpp"
#include "sim/memory/executor_footprint.hpp"
#include "sim/memory/model_states.hpp"
#include "sim/memory/peak_formulas.hpp"

namespace tw {
namespace {

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
        p.sync_buffers += costs.stage(s).sync.memory_bytes;
    }
    return p;
}

// The smallest device that a pipeline rank uses.
const Device& rank_device(const Environment& environment, const ParallelPlan& plan,
                          std::span<const std::uint16_t> rank_of_stage, int rank) {
    const Device* smallest = nullptr;
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
        const int first = rank_of_stage[s];
        if (rank < first || rank >= first + plan.stages[s].replicas) continue;
        const Device& device = environment.node_group(plan.stages[s].node_group).device;
        if (smallest == nullptr || device.memory < smallest->memory) smallest = &device;
    }
    return smallest == nullptr ? environment.node_group(0).device : *smallest;
}

}  // namespace

StageFootprint stage_footprint(const LayerGraph& graph, const StageSpec& stage, const ShapeCost& shape) {
    StageFootprint f;
    const std::vector<StageSegment> segments = stage_segments(graph, stage);
    // From the last layer to the first: while a layer runs, forward or backward, those after it hold nothing.
    double later = 0;
    for (auto segment = segments.rbegin(); segment != segments.rend(); ++segment) {
        const auto c = static_cast<std::size_t>(segment->layer_class);
        const LayerWork& work = shape.works[c];
        f.transient_forward = std::max(f.transient_forward, work.transient_forward_bytes - later);
        f.transient_backward =
            std::max(f.transient_backward,
                     work.transient_backward_bytes + recomputed_bytes(work, segment->recompute) - later);
        f.loose = std::max(f.loose, work.loose_bytes);
        later += saved_bytes(work, segment->recompute) * segment->count;
        f.held_for_weight += shape.weight_gradient_bytes[c] * segment->count;
    }
    f.activations = later;
    f.held_for_weight = std::min(f.held_for_weight, f.activations);
    f.transient_backward_input = f.transient_backward_input_beside = f.transient_backward;
    return f;
}

void offload_layers(const LayerGraph& graph, const StageSpec& stage, const ShapeCost& shape,
                    StageFootprint& footprint) {
    double window = 0, forward = 0, backward = 0, before = 0;  // before: of the layer in front
    const auto layer = [&](const LayerWork& work, RecomputeMode recompute) {
        const double own = saved_bytes(work, recompute);
        const double held = own + before;
        window = std::max(window, held);
        forward = std::max(forward, held + work.transient_forward_bytes);
        backward =
            std::max(backward, held + work.transient_backward_bytes + recomputed_bytes(work, recompute));
        before = own;
    };
    for (const StageSegment& segment : stage_segments(graph, stage)) {
        const LayerWork& work = shape.works[static_cast<std::size_t>(segment.layer_class)];
        for (int i = 0; i < std::min(segment.count, 2); ++i)  // the others are as the second
            layer(work, segment.recompute);
    }
    if (window >= footprint.activations) return;
    footprint.activations = window;
    footprint.transient_forward = forward - window;
    footprint.transient_backward = backward - window;
    // The first half of a split backward leaves what weight gradients need, layer by layer, on the device.
    footprint.transient_backward_input = footprint.transient_backward_input_beside =
        backward - window + footprint.held_for_weight;
}

double transient_bytes(Opcode opcode, const StageFootprint& stage, const StageFootprint& stage2, bool owes,
                       bool again, int held) {
    if (again && !owes && opcode == Opcode::Forward)
        return stage.transient_forward + stage.gradient_on_its_way;
    if (opcode == Opcode::Backward) {
        const double next = held < stage.microbatches ? stage.next_input : 0;
        if (!again || owes) return stage.transient_backward + next;
        return std::max(stage.transient_backward, stage.transient_backward_last + stage.gradient_on_its_way) +
               next;
    }
    if (opcode == Opcode::Forward) return stage.transient_forward;
    if (opcode == Opcode::OverlapForwardBackward) return stage.transient_forward + stage2.transient_backward;
    if (opcode != Opcode::BackwardInput) return 0;
    return owes ? stage.transient_backward_input_beside : stage.transient_backward_input;
}

DynamicPeak dynamic_peak(const RankMemoryProfile& profile, const std::vector<StageFootprint>& stages,
                         const std::vector<double>& parameter_bytes) {
    // Sizes of the rank's stages side by side: schedules with many chunks have thousands of counts.
    const std::size_t own = profile.stages.size();
    std::vector<double> held(own), held_for_weight(own), stashed(own), gradients(own), on_its_way(own);
    for (std::size_t k = 0; k < own; ++k) {
        const StageFootprint& f = stages[profile.stages[k]];
        held[k] = f.activations;
        held_for_weight[k] = f.held_for_weight;
        gradients[k] = f.gradients_for_weight;
        on_its_way[k] = f.gradient_on_its_way;
        stashed[k] = parameter_bytes[profile.stages[k]];
    }
    DynamicPeak peak;
    for (std::size_t i = 0; i < profile.snapshots.size(); ++i) {
        const MemorySnapshot& snapshot = profile.snapshots[i];
        const std::uint16_t* counts = profile.counts_of(i).data();
        DynamicPeak now;
        bool owes = false;
        int in_flight = 0;
        for (std::size_t k = 0; k < own; ++k) {
            now.activations += counts[k] * held[k] + counts[own + k] * held_for_weight[k];
            const bool runs = profile.stages[k] == snapshot.stage;
            if (runs) in_flight = counts[k];
            if (counts[own + k] == 0) {
                if (!runs) now.transient += on_its_way[k];
                continue;
            }
            now.activations += gradients[k];
            owes |= runs;
        }
        for (std::size_t k = 0; k < own && profile.weight_versions > 1; ++k)
            now.weight_stash += counts[2 * own + k] * stashed[k];
        now.transient += transient_bytes(snapshot.running, stages[snapshot.stage], stages[snapshot.stage2],
                                         owes, snapshot.again, in_flight);
        now.instruction = snapshot.instruction;
        if (now.total() > peak.total()) peak = now;
    }
    return peak;
}

static StageFootprint footprint_of(const Environment& environment, const ParallelPlan& plan,
                                   const PlanCost& costs, int s) {
    const ShapeCost& shape = costs.shape(s);
    const StageSpec& stage = plan.stages[static_cast<std::size_t>(s)];
    StageFootprint f = shape.executor ? executor_footprint(environment.graph, plan, s, shape)
                                      : stage_footprint(environment.graph, stage, shape);
    f.all_activations = f.activations;
    if (plan.offload_activations) offload_layers(environment.graph, stage, shape, f);
    return f;
}

Footprints footprints(const Environment& environment, const ParallelPlan& plan, const PlanCost& costs) {
    Footprints f;
    for (int s = 0; s < costs.stages(); ++s) {
        // Equal stages share their costs; so do they their footprint.
        const bool same = s > 0 && &costs.stage(s) == &costs.stage(s - 1);
        f.stages.push_back(same ? f.stages.back() : footprint_of(environment, plan, costs, s));
        f.parameter_bytes.push_back((costs.stage(s).dense_parameters + costs.stage(s).expert_parameters) *
                                    bytes_per_element(plan.precision.parameters));
    }
    return f;
}

namespace {

// Layers of one rank: the largest that is gathered by itself, and those that belong to no block.
void add_layers(const LayerGraph& graph, const ParallelPlan& plan, const PlanCost& costs,
                std::span<const std::uint16_t> rank_of_stage, int rank, RankFootprint& f) {
    for (int s = 0; s < costs.stages(); ++s) {
        if (rank_of_stage[static_cast<std::size_t>(s)] != rank) continue;
        const StageSpec& stage = plan.stages[static_cast<std::size_t>(s)];
        for (int i = stage.first_layer; i < stage.last_layer; ++i) {
            const Layer& layer = graph.layer(i);
            const LayerWork& w = costs.shape(s).works[static_cast<std::size_t>(layer.layer_class)];
            const auto parameters = static_cast<double>(w.dense_parameters + w.expert_parameters);
            if (layer.role == LayerRole::Embedding || layer.role == LayerRole::Head) {
                f.outside_blocks += parameters;
            } else {
                f.largest_block = std::max(f.largest_block, parameters);
            }
            f.quantised += static_cast<double>(w.quantised_parameters);
            f.largest_weight = std::max(f.largest_weight, static_cast<double>(w.largest_weight));
        }
    }
    // Tied tables are one tensor where one rank holds both.
    f.outside_blocks = std::min(f.outside_blocks, f.dense);
}

MemoryBase base_of(const Environment& environment, const ParallelPlan& plan, const PlanCost& costs,
                   std::span<const std::uint16_t> rank_of_stage, std::span<const RankMemoryProfile> profiles,
                   const Footprints& footprint) {
    MemoryBase base;
    for (std::size_t r = 0; r < profiles.size(); ++r) {
        const int rank = static_cast<int>(r);
        const RankParameters parameters = rank_parameters(plan, costs, rank_of_stage, rank);
        const DynamicPeak peak = dynamic_peak(profiles[r], footprint.stages, footprint.parameter_bytes);
        RankFootprint f;
        f.dense = parameters.dense;
        f.expert = parameters.expert;
        f.sync_buffers = parameters.sync_buffers;
        f.activations = peak.activations;
        f.transient = peak.transient;
        f.weight_stash = peak.weight_stash;
        for (std::size_t k = 0; k < profiles[r].offloaded.size(); ++k)
            f.offloaded_activations +=
                profiles[r].offloaded[k] * footprint.stages[profiles[r].stages[k]].all_activations;
        for (const std::uint16_t s : profiles[r].stages) {
            f.loose = std::max(f.loose, footprint.stages[s].loose);
            const HardwareProfile& profile = environment.profile(plan.stages[s].node_group);
            f.outside = std::max(f.outside, profile.memory_outside_bytes);
        }
        f.executor = costs.shape(0).executor;
        f.tied_ends = environment.graph.tied_embeddings && rank_of_stage.front() != rank_of_stage.back();
        f.device = &rank_device(environment, plan, rank_of_stage, rank);
        f.capacity = environment.usable_memory(*f.device);
        if (f.device->architecture != "cpu" && !profiles[r].stages.empty()) {
            const int group = plan.stages[profiles[r].stages.front()].node_group;
            const NodeType& node = environment.node_group(group).type;
            f.host_capacity = as_double(node.host_memory) / node.devices;
        }
        add_layers(environment.graph, plan, costs, rank_of_stage, rank, f);
        base.ranks.push_back(f);
        base.peak_instructions.push_back(peak.instruction);
    }
    return base;
}

constexpr std::int64_t kActivationSteps = 4;  // of one microbatch's activations

// For each rank the most steps of activations that fit beside `transient` of its largest stage; `more` steps
// are added.
template <class Transient>
std::vector<double> most_activations(const Environment& environment, const ParallelPlan& plan,
                                     const PlanCost& costs, std::span<const std::uint16_t> rank_of_stage,
                                     int more, const Transient& transient) {
    const Footprints footprint = footprints(environment, plan, costs);
    const MemoryBase base =
        base_of(environment, plan, costs, rank_of_stage, one_in_flight_profile(rank_of_stage), footprint);
    std::vector<double> activations(base.ranks.size(), 0), beside(base.ranks.size(), 0);
    for (std::size_t s = 0; s < footprint.stages.size(); ++s) {
        const std::size_t r = rank_of_stage[s];
        activations[r] += footprint.stages[s].all_activations;
        beside[r] = std::max(beside[r], transient(footprint.stages[s]));
    }
    std::vector<double> most;
    for (std::size_t r = 0; r < base.ranks.size(); ++r) {
        RankFootprint f = base.ranks[r];
        f.transient = beside[r];
        const auto bytes = [&](std::int64_t steps) {
            return activations[r] * static_cast<double>(steps) / static_cast<double>(kActivationSteps);
        };
        std::int64_t fits = 0, too_many = kActivationSteps * plan.microbatches + 1;
        while (fits + 1 < too_many) {
            const std::int64_t steps = fits + (too_many - fits) / 2;
            f.activations = bytes(steps);
            (rank_memory(plan, f).required <= f.capacity ? fits : too_many) = steps;
        }
        most.push_back(bytes(fits + more));
    }
    return most;
}

}  // namespace

MemoryBase memory_base(const Environment& environment, const ParallelPlan& plan, const PlanCost& costs,
                       std::span<const std::uint16_t> rank_of_stage,
                       std::span<const RankMemoryProfile> profiles) {
    return base_of(environment, plan, costs, rank_of_stage, profiles, footprints(environment, plan, costs));
}

std::vector<double> activation_limits(const Environment& environment, const ParallelPlan& plan,
                                      const PlanCost& costs, std::span<const std::uint16_t> rank_of_stage) {
    return most_activations(environment, plan, costs, rank_of_stage, 0, [](const StageFootprint& f) {
        return std::max(f.transient_forward, f.transient_backward_input);
    });
}

std::vector<double> activation_room(const Environment& environment, const ParallelPlan& plan,
                                    const PlanCost& costs, std::span<const std::uint16_t> rank_of_stage) {
    return most_activations(environment, plan, costs, rank_of_stage, 1,
                            [](const StageFootprint& f) { return f.transient_forward; });
}

MemoryTotals memory_totals(const ParallelPlan& plan, const MemoryBase& base) {
    MemoryTotals totals;
    for (const RankFootprint& footprint : base.ranks) {
        const RankMemory m = rank_memory(plan, footprint);
        totals.allocated = std::max(totals.allocated, m.allocated);
        totals.reserved = std::max(totals.reserved, m.reserved);
        totals.device = std::max(totals.device, m.device);
        totals.required = std::max(totals.required, m.required);
        totals.fits &= m.required <= footprint.capacity;
        totals.fits &= footprint.host_capacity <= 0 || m.host <= footprint.host_capacity;
    }
    return totals;
}

namespace {

// What passes hold, at the dynamic peak's instruction.
void add_dynamic(const LayerGraph& graph, const ParallelPlan& plan, const PlanCost& costs,
                 const RankMemoryProfile& profile, const Footprints& sizes, const RankFootprint& f,
                 std::uint32_t instruction, std::vector<MemoryAddend>& addends) {
    const auto at =
        std::find_if(profile.snapshots.begin(), profile.snapshots.end(),
                     [&](const MemorySnapshot& snapshot) { return snapshot.instruction == instruction; });
    if (at == profile.snapshots.end()) return;
    const auto k = static_cast<std::size_t>(at - profile.snapshots.begin());
    if (f.activations > 0) {
        addends.push_back({"activations", f.activations,
                           activations_formula(graph, plan, costs, profile, k, sizes.stages)});
    }
    if (f.transient > 0)
        addends.push_back({"temporaries", f.transient, temporaries_formula(graph, plan, costs, *at)});
    if (f.weight_stash > 0) {
        std::vector<std::string> terms;
        for (std::size_t own = profile.stages.size(), i = 0; i < own; ++i) {
            const int versions = profile.counts_of(k)[2 * own + i];
            if (versions > 0)
                terms.push_back(fmt::format("{} older version{} x {}", versions, versions == 1 ? "" : "s",
                                            format_bytes(sizes.parameter_bytes[profile.stages[i]])));
        }
        addends.push_back({"stashed weights", f.weight_stash, fmt::format("{}", fmt::join(terms, " + "))});
    }
}

// From what is allocated to what the device holds.
std::vector<MemoryAddend> beside_allocated(const ParallelPlan& plan, const RankFootprint& f,
                                           const RankMemory& n) {
    std::vector<MemoryAddend> addends;
    const auto add = [&](const char* name, double bytes, std::string formula) {
        if (bytes > 0) addends.push_back({name, bytes, std::move(formula)});
    };
    add("rounding", n.reserved - n.cached - n.allocated, "each of them to blocks of 2 MiB");
    const double kept = n.device - n.required;
    add("cached blocks", kept,
        kept < n.cached ? fmt::format("freed and still reserved: {}, as far as the device has room",
                                      format_bytes(n.cached))
                        : "freed and still reserved");
    if (f.device->architecture == "cpu") {
        add("process", f.outside, "of a process on processors, beside what it allocates");
        return addends;
    }
    const DeviceOverhead overhead = device_overhead_parts(plan, *f.device, f.tied_ends);
    add("context", overhead.context, "CUDA's, with kernels and libraries' workspaces");
    add("communicators", overhead.communicators, fmt::format("buffers of {} of NCCL's", overhead.count));
    return addends;
}

}  // namespace

std::vector<StageMemory> memory_ledger(const Environment& environment, const ParallelPlan& plan,
                                       const PlanCost& costs, const LoweredSchedule& lowered) {
    const Schedule& schedule = lowered.schedule;
    // Anew, so that the peak's instruction counts transfers too.
    const std::vector<RankMemoryProfile> profiles = memory_profile(schedule);
    const Footprints sizes = footprints(environment, plan, costs);
    const MemoryBase base = base_of(environment, plan, costs, schedule.rank_of_stage, profiles, sizes);
    const FrameworkDefaults& defaults = framework_defaults(plan.framework);
    std::vector<StageMemory> result;
    for (int r = 0; r < schedule.ranks(); ++r) {
        const RankProgram& program = schedule.programs[static_cast<std::size_t>(r)];
        const RankFootprint& f = base.ranks[static_cast<std::size_t>(r)];
        const RankMemory n = rank_memory(plan, f);
        StageMemory m;
        m.rank = r;
        m.addends = model_state_addends(plan, f.dense, f.expert);
        for (const MemoryAddend& a : m.addends)
            m.initialisation_peak_bytes += a.bytes;
        if (!n.holds_gradients) {
            std::erase_if(m.addends, [](const MemoryAddend& a) { return a.name == "gradients"; });
        }
        const auto add = [&](const char* name, double bytes, std::string formula) {
            if (bytes > 0) m.addends.push_back({name, bytes, std::move(formula)});
        };
        add("gradient buckets", n.buckets,
            n.buckets < 4.0 * (f.dense + f.expert)
                ? fmt::format("{} of {} in flight", defaults.buckets_in_flight,
                              format_bytes(bucket_bytes(plan)))
                : fmt::format("4 B x {:.6g} parameters", f.dense + f.expert));
        add("quantised weights", n.quantised_weights,
            fmt::format("casts of {:.6g} parameters for {} products", f.quantised,
                        to_string(plan.precision.compute)));
        if (n.at_step) {
            const double each = defaults.step_bytes;
            add("optimizer temporaries", n.step,
                fmt::format("{:g} B x {:.6g} parameters of the optimizer's step", each, n.step / each));
        } else {
            const double each = gathered_parameter_bytes(plan);
            add("gathered parameters", n.gathered,
                defaults.live_parameters > 0
                    ? fmt::format("{} B x {:.6g} parameters at most", each, n.gathered / each)
                    : fmt::format("{} B x (2 layers of {:.6g} + {:.6g} parameters)", each, f.largest_block,
                                  f.outside_blocks));
            const double layer =
                plan.zero_stage == 2 ? std::max(f.largest_block, f.outside_blocks) : f.largest_block;
            add("unsharded gradients", n.unsharded_gradients,
                fmt::format("{:g} B x {:.6g} parameters of a layer", n.unsharded_gradients / layer, layer));
            add("synchronisation buffers", f.sync_buffers, "of gradient_sync '" + plan.gradient_sync + "'");
            add_dynamic(environment.graph, plan, costs, profiles[static_cast<std::size_t>(r)], sizes, f,
                        base.peak_instructions[static_cast<std::size_t>(r)], m.addends);
        }
        for (const MemoryAddend& a : m.addends)
            m.peak_allocated_bytes += a.bytes;
        m.beside = beside_allocated(plan, f, n);
        m.peak_reserved_bytes = n.reserved;
        m.required_bytes = n.required;
        m.device_bytes = n.device;
        m.capacity_bytes = f.capacity;
        m.host_bytes = n.host;
        m.host_capacity_bytes = f.host_capacity;
        if (n.at_step) {
            m.peak_instant = fmt::format("rank {}, the optimizer's step", r);
        } else if (!program.instructions.empty()) {
            const std::uint32_t at = base.peak_instructions[static_cast<std::size_t>(r)];
            m.peak_instant = fmt::format("rank {}, {}", r, to_string(program.instructions[at]));
        }
        result.push_back(std::move(m));
    }
    return result;
}

}  // namespace tw
