#include "sim/memory/ledger.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

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
constexpr double kNcclChannels = 16;
// PyTorch's caching allocator hands out large blocks in multiples of 2 MiB
// (c10/cuda/CUDACachingAllocator.cpp, kRoundLarge).
constexpr double kLargeBlock = 2.0 * 1048576;

// The running state of one rank's dynamic memory.
class Replay {
  public:
    Replay(const std::vector<StageFootprint>& stages, const std::vector<double>& parameter_bytes)
        : stages_(&stages), parameter_bytes_(&parameter_bytes) {}

    struct State {
        double activations = 0, transient = 0, stash = 0;
    };

    // The state while the instruction runs (temporaries included), then the state after it.
    std::pair<State, State> step(const Instruction& in) {
        const StageFootprint& f = (*stages_)[in.stage];
        State during = now_;
        switch (in.opcode) {
            case Opcode::Forward:
                now_.activations += f.activations;
                during = now_;
                during.transient += f.transient_forward;
                break;
            case Opcode::Backward:
                during.transient += f.transient_backward;
                if (in.part == 0 || in.part == chunks_left(in)) now_.activations -= f.activations;
                break;
            case Opcode::BackwardInput:
                during.transient += f.transient_backward;
                now_.activations -= f.activations - f.held_for_weight;
                break;
            case Opcode::BackwardWeight:
                if (in.part == 0 || in.part == chunks_left(in)) now_.activations -= f.held_for_weight;
                break;
            case Opcode::OverlapForwardBackward: {
                const StageFootprint& b = (*stages_)[in.stage2];
                now_.activations += f.activations;
                during = now_;
                during.transient += f.transient_forward + b.transient_backward;
                now_.activations -= b.activations;
                break;
            }
            case Opcode::StashWeights:
                now_.stash += (*parameter_bytes_)[in.stage];
                during = now_;
                break;
            case Opcode::Free:
                now_.stash = std::max(0.0, now_.stash - (*parameter_bytes_)[in.stage]);
                break;
            case Opcode::Offload:
                now_.activations -= f.activations;
                break;
            case Opcode::Reload:
                now_.activations += f.activations;
                during = now_;
                break;
            default:
                break;
        }
        return {during, now_};
    }
    void set_last_part(std::uint16_t stage, std::uint32_t part) {
        last_part_[stage] = std::max(last_part_[stage], part);
    }

  private:
    [[nodiscard]] std::uint32_t chunks_left(const Instruction& in) const { return last_part_.at(in.stage); }

    const std::vector<StageFootprint>* stages_;
    const std::vector<double>* parameter_bytes_;
    std::map<std::uint16_t, std::uint32_t> last_part_;
    State now_;
};

Replay make_replay(const RankProgram& program, const std::vector<StageFootprint>& stages,
                   const std::vector<double>& parameters) {
    Replay replay(stages, parameters);
    for (const Instruction& in : program.instructions) {
        if (in.part > 0 && is_backward(in.opcode)) replay.set_last_part(in.stage, in.part);
    }
    return replay;
}

struct RankStates {
    ModelStates states;
    double parameters = 0;
};

RankStates rank_states(const ParallelPlan& plan, const PlanCost& costs, const Schedule& schedule, int rank) {
    double dense = 0, expert = 0;
    for (int s = 0; s < costs.stages(); ++s) {
        const int first = schedule.rank_of_stage[static_cast<std::size_t>(s)];
        const int replicas = plan.stages[static_cast<std::size_t>(s)].replicas;
        if (rank < first || rank >= first + replicas) continue;
        dense += costs.stage(s).dense_parameters;
        expert += costs.stage(s).expert_parameters;
    }
    return {model_states(plan, dense, expert), dense + expert};
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
        f.held_for_weight += weight_gradient_bytes(work) * segment.count;
        f.transient_forward = std::max(f.transient_forward, work.transient_forward_bytes);
        f.transient_backward = std::max(
            f.transient_backward, work.transient_backward_bytes + recomputed_bytes(work, segment.recompute));
    }
    f.held_for_weight = std::min(f.held_for_weight, f.activations);
    return f;
}

DynamicPeak dynamic_peak(const RankProgram& program, const std::vector<StageFootprint>& stages,
                         const std::vector<double>& parameter_bytes) {
    Replay replay = make_replay(program, stages, parameter_bytes);
    DynamicPeak peak;
    for (std::uint32_t i = 0; i < program.instructions.size(); ++i) {
        const auto [during, after] = replay.step(program.instructions[i]);
        if (during.activations + during.transient + during.stash > peak.total()) {
            peak = {during.activations, during.transient, i, during.stash};
        }
    }
    return peak;
}

int peak_in_flight(const RankProgram& program) {
    std::map<std::uint16_t, std::uint32_t> last_part;
    bool split = false;
    for (const Instruction& in : program.instructions) {
        if (is_backward(in.opcode)) last_part[in.stage] = std::max(last_part[in.stage], in.part);
        split |= in.opcode == Opcode::BackwardWeight;
    }
    int held = 0, peak = 0;
    for (const Instruction& in : program.instructions) {
        if (in.opcode == Opcode::Forward || in.opcode == Opcode::OverlapForwardBackward)
            peak = std::max(peak, ++held);
        const bool ends = in.opcode == Opcode::Backward || in.opcode == Opcode::BackwardWeight;
        if (in.opcode == Opcode::OverlapForwardBackward ||
            (ends && (in.part == 0 || in.part == last_part[in.stage])))
            --held;
        if (in.opcode == Opcode::BackwardInput && !split) --held;
    }
    return peak;
}

int weight_versions(const RankProgram& program) {
    int held = 1, most = 1;
    for (const Instruction& in : program.instructions) {
        if (in.opcode == Opcode::StashWeights) most = std::max(most, ++held);
        if (in.opcode == Opcode::Free) held = std::max(1, held - 1);
    }
    return most;
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
    const double capacity = as_double(environment.node_group(plan.stages.front().node_group).device.memory);
    const double outside = kContextBytes + communicators(plan) * kNcclChannels * kNcclChannelBytes;
    for (std::size_t r = 0; r < dense.size(); ++r) {
        limits.push_back(std::max(
            0.0, capacity - outside - model_states(plan, dense[r], expert[r]).device_bytes() - transient[r]));
    }
    return limits;
}

std::vector<StageMemory> memory_ledger(const Environment& environment, const ParallelPlan& plan,
                                       const PlanCost& costs, const Schedule& schedule) {
    std::vector<StageFootprint> footprints;
    std::vector<double> stash;
    for (int s = 0; s < costs.stages(); ++s) {
        footprints.push_back(
            stage_footprint(environment.graph, plan.stages[static_cast<std::size_t>(s)], costs.shape(s)));
        stash.push_back((costs.stage(s).dense_parameters + costs.stage(s).expert_parameters) *
                        bytes_per_element(plan.precision.parameters));
    }
    std::vector<StageMemory> result;
    for (int r = 0; r < schedule.ranks(); ++r) {
        const RankProgram& program = schedule.programs[static_cast<std::size_t>(r)];
        const RankStates persistent = rank_states(plan, costs, schedule, r);
        const DynamicPeak peak = dynamic_peak(program, footprints, stash);
        StageMemory m;
        m.rank = r;
        m.addends = persistent.states.addends;
        if (plan.mesh.dp * plan.mesh.cp > 1 && plan.framework != "megatron" && plan.zero_stage < 3) {
            const double bucket = std::min(bucket_bytes(plan), persistent.parameters * 4.0);
            m.addends.push_back(
                {"gradient buckets", bucket, fmt::format("one bucket of {:.4g} B in flight", bucket)});
        }
        if (plan.zero_stage == 3) {  // the layer in use and the one prefetched, whole
            double largest = 0;
            for (int s = 0; s < costs.stages(); ++s) {
                if (schedule.rank_of_stage[static_cast<std::size_t>(s)] != r) continue;
                for (const LayerWork& w : costs.shape(s).works) {
                    largest =
                        std::max(largest, static_cast<double>(w.dense_parameters + w.expert_parameters));
                }
            }
            const double element = bytes_per_element(plan.precision.compute);
            const double grad = bytes_per_element(plan.precision.gradient_reduce);
            m.addends.push_back({"gathered parameters", 2 * largest * element,
                                 fmt::format("2 layers x {:g} B x {:.6g} parameters", element, largest)});
            m.addends.push_back({"unsharded gradients", largest * grad,
                                 fmt::format("{:g} B x {:.6g} parameters", grad, largest)});
        }
        m.initialisation_peak_bytes = persistent.states.device_bytes();
        m.addends.push_back(
            {"activations", peak.activations,
             fmt::format("{} microbatch(es) of this rank's stages in flight", peak_in_flight(program))});
        if (peak.transient > 0)
            m.addends.push_back({"temporaries", peak.transient, "largest layer at the peak's instruction"});
        if (peak.weight_stash > 0)
            m.addends.push_back(
                {"stashed weights", peak.weight_stash, "older versions kept for backwards in flight"});
        double reserved = 0;
        for (const MemoryAddend& a : m.addends) {
            m.peak_allocated_bytes += a.bytes;
            reserved += std::ceil(a.bytes / kLargeBlock) * kLargeBlock;
        }
        m.peak_reserved_bytes = reserved;
        m.device_bytes = reserved + kContextBytes + communicators(plan) * kNcclChannels * kNcclChannelBytes;
        m.capacity_bytes = as_double(environment.node_group(plan.stages.front().node_group).device.memory);
        if (!program.instructions.empty()) {
            m.peak_instant = fmt::format("rank {}, {}", r, to_string(program.instructions[peak.instruction]));
        }
        result.push_back(std::move(m));
    }
    return result;
}

void add_memory_curves(const Environment& environment, const ParallelPlan& plan, const PlanCost& costs,
                       const Schedule& schedule, Trace& trace) {
    std::vector<StageFootprint> footprints;
    std::vector<double> stash;
    for (int s = 0; s < costs.stages(); ++s) {
        footprints.push_back(
            stage_footprint(environment.graph, plan.stages[static_cast<std::size_t>(s)], costs.shape(s)));
        stash.push_back((costs.stage(s).dense_parameters + costs.stage(s).expert_parameters) *
                        bytes_per_element(plan.precision.parameters));
    }
    trace.memory_categories = {"model states", "activations", "temporaries", "stashed weights"};
    trace.memory_capacity_bytes = environment.node_group(plan.stages.front().node_group).device.memory.value;
    for (RankTrace& rank : trace.ranks) {
        const auto r = rank.rank % schedule.ranks();
        const RankProgram& program = schedule.programs[static_cast<std::size_t>(r)];
        const auto states =
            static_cast<std::int64_t>(rank_states(plan, costs, schedule, r).states.device_bytes());
        const auto sample = [&](SimTime t, const auto& s) {
            rank.memory.push_back(
                {t,
                 {states, static_cast<std::int64_t>(s.activations), static_cast<std::int64_t>(s.transient),
                  static_cast<std::int64_t>(s.stash)}});
        };
        std::int32_t step = -1;
        Replay replay = make_replay(program, footprints, stash);
        for (const TraceEvent& event : rank.events) {
            if (schedule.boundary != StepBoundary::None && event.step != step) {
                replay = make_replay(program, footprints, stash);
                step = event.step;
            }
            const Opcode op = event.instruction.opcode;
            if (!is_compute(op) && op != Opcode::StashWeights && op != Opcode::Free &&
                op != Opcode::Offload && op != Opcode::Reload)
                continue;
            const auto [during, after] = replay.step(event.instruction);
            sample(event.start, during);
            sample(event.end, after);
        }
        std::stable_sort(rank.memory.begin(), rank.memory.end(),
                         [](const auto& a, const auto& b) { return a.time < b.time; });
    }
}

}  // namespace tw
