#include "sim/validate/predict.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "plan/frameworks/framework.hpp"
#include "sim/memory/ledger.hpp"
#include "sim/simulator.hpp"

namespace tw {
namespace {

// Forward and backward of the model's first block.
double layer_time(const LayerGraph& graph, const ParallelPlan& plan, const PlanCost& costs) {
    for (int i = 0; i < graph.size(); ++i) {
        if (graph.layer(i).role != LayerRole::Block) continue;
        const LayerCost& layer = costs.shape(0).layers[static_cast<std::size_t>(graph.layer(i).layer_class)];
        const SimTime both = layer.phase(plan.recompute, Opcode::Forward).device_time() +
                             layer.phase(plan.recompute, Opcode::Backward).device_time();
        return to_seconds(both).value;
    }
    return 0;
}

double read_bytes(const StageMemory& memory, MemoryKind kind) {
    switch (kind) {
        case MemoryKind::Allocated:
            return memory.peak_allocated_bytes;
        case MemoryKind::Reserved:
            return memory.peak_reserved_bytes;
        case MemoryKind::Device:
            return memory.device_bytes;
        case MemoryKind::None:
            return 0;
    }
    return 0;
}

std::string addends_text(const StageMemory& memory) {
    std::vector<MemoryAddend> addends = memory.addends;
    std::stable_sort(addends.begin(), addends.end(),
                     [](const MemoryAddend& a, const MemoryAddend& b) { return a.bytes > b.bytes; });
    std::string text;
    for (const MemoryAddend& a : addends)
        text += fmt::format("{}{} {:.3f}", text.empty() ? "" : ", ", a.name, a.bytes / 1e9);
    return text + " GB";
}

// What the busiest rank waits for in a step whose communication and dispatch take no time.
double bubble_time(const PlanCost& costs, const LoweredSchedule& lowered) {
    const Schedule& schedule = lowered.schedule;
    CostTable table = costs.table(schedule, lowered.compiled);
    table.dispatch.clear();
    table.host_path.clear();
    for (int r = 0; r < lowered.compiled.ranks; ++r) {
        for (std::size_t k = 0; k < schedule.duration_classes.size(); ++k) {
            const Opcode opcode = schedule.duration_classes[k].opcode;
            if (is_transfer(opcode) || is_collective(opcode))
                table.duration[lowered.compiled.slot_of(r, static_cast<int>(k))] = 0;
        }
    }
    EngineWorkspace workspace;
    const SimTime period = run_engine(schedule, lowered.compiled, table, workspace).period;
    const std::vector<SimTime> busy = busy_times(schedule, lowered.compiled, table);
    return to_seconds(std::max(SimTime{0}, period - *std::max_element(busy.begin(), busy.end()))).value;
}

// `blocks`: of each stage, of a full recomputation; -1: all.
ParallelPlan recomputing(ParallelPlan plan, RecomputeMode mode, int blocks = -1) {
    plan.recompute = mode;
    for (StageSpec& stage : plan.stages) {
        stage.recompute = mode;
        stage.recompute_layers = blocks;
    }
    return plan;
}

double period_s(const Simulator::Prepared& prepared) {
    const LoweredSchedule& lowered = *prepared.lowered;
    EngineWorkspace workspace;
    return to_seconds(run_engine(lowered.schedule, lowered.compiled,
                                 prepared.costs->table(lowered.schedule, lowered.compiled), workspace)
                          .period)
        .value;
}

// The plan's step where it fits the devices.
std::optional<double> fitting_step(const Environment& environment, const Simulator& simulator,
                                   const ParallelPlan& plan) {
    const auto prepared = simulator.prepare(plan);
    if (!prepared) return std::nullopt;
    const std::vector<StageMemory> ledger =
        memory_ledger(environment, plan, *prepared->costs, *prepared->lowered);
    if (!std::all_of(ledger.begin(), ledger.end(), [](const StageMemory& m) { return m.fits(); }))
        return std::nullopt;
    return period_s(*prepared);
}

// What a recipe leaves open where the row does not state it: as much is recomputed as memory asks. Nothing
// where that fits or where nothing does; else the fastest that fits of the attention core, operations, and
// the fewest blocks of each stage.
ParallelPlan recompute_as_needed(const Environment& environment, const Simulator& simulator,
                                 const ParallelPlan& plan) {
    if (fitting_step(environment, simulator, plan)) return plan;
    int too_few = 0, enough = 0;
    for (const StageSpec& stage : plan.stages)
        enough = std::max(enough, stage.last_layer - stage.first_layer);
    while (enough - too_few > 1) {
        const int blocks = (too_few + enough) / 2;
        const ParallelPlan some = recomputing(plan, RecomputeMode::Full, blocks);
        (fitting_step(environment, simulator, some) ? enough : too_few) = blocks;
    }
    ParallelPlan best = plan;
    double step_s = std::numeric_limits<double>::infinity();
    for (ParallelPlan candidate :
         {recomputing(plan, RecomputeMode::Selective), recomputing(plan, RecomputeMode::SelectiveOps),
          recomputing(plan, RecomputeMode::Full, enough)}) {
        const std::optional<double> step = fitting_step(environment, simulator, candidate);
        if (!step || *step >= step_s) continue;
        step_s = *step;
        best = std::move(candidate);
    }
    return best;
}

// Where nothing need be recomputed a recipe may do so all the same: the time may be either's.
void widen_by_recipe(const Simulator& simulator, const ParallelPlan& plan, Prediction& p) {
    if (plan.recompute != RecomputeMode::None) return;
    const ParallelPlan selective = recomputing(plan, RecomputeMode::Selective);  // the costs refer to it
    if (auto other = simulator.prepare(selective))
        p.sigma_s = std::hypot(p.sigma_s, (period_s(*other) - p.step_time_s) / std::sqrt(2.0));
}

}  // namespace

Result<Prediction> predict(const ValidationCase& c, const TruthRow& row, const PredictOptions& options) {
    auto environment = std::make_shared<Environment>();
    environment->graph = c.graph;
    environment->cluster = c.cluster;
    environment->profiles.assign(c.cluster.groups.size(), c.profile);
    environment->dispatch_s = dispatch_seconds(c.profile) * options.dispatch_factor;
    environment->free_axes = options.free_axes;
    for (HardwareProfile& profile : environment->profiles) {
        for (HostEntry& entry : profile.host) {
            if (options.dispatch_sigma >= 0) entry.fit.sigma = options.dispatch_sigma;
        }
    }
    const Simulator simulator(environment);
    const bool open = row.recompute.empty() && framework_defaults(c.plan.framework).recipe_recompute &&
                      c.plan.recompute == RecomputeMode::None;
    const ParallelPlan plan = open ? recompute_as_needed(*environment, simulator, c.plan) : c.plan;
    auto prepared = simulator.prepare(plan);
    if (!prepared) return prepared.errors();
    const LoweredSchedule& lowered = *prepared->lowered;

    Prediction p;
    const std::vector<StageMemory> ledger = memory_ledger(*environment, plan, *prepared->costs, lowered);
    const StageMemory* read = nullptr;
    for (const StageMemory& m : ledger) {
        p.fits = p.fits && m.fits();
        const int first_device = m.rank * plan.mesh.devices() / plan.mesh.pp;  // ranks: pp outermost
        if (row.memory_of_first_node && first_device >= c.cluster.groups.front().type.devices) continue;
        if (read == nullptr || row.memory_of_last_stage ||
            read_bytes(m, row.memory_kind) > read_bytes(*read, row.memory_kind)) {
            read = &m;
        }
    }
    if (read != nullptr && row.memory_kind != MemoryKind::None) {
        p.memory_bytes = read_bytes(*read, row.memory_kind);
        p.memory_text = addends_text(*read);
    }
    if (row.one_layer) {
        p.step_time_s = layer_time(c.graph, plan, *prepared->costs);
        return p;
    }
    p.step_time_s = period_s(*prepared);
    const SimTime period = to_sim_time(Seconds(p.step_time_s));
    if (!options.bubble) p.step_time_s -= bubble_time(*prepared->costs, lowered);
    p.sigma_s = step_uncertainty(plan, *prepared->costs, lowered.schedule, period).sigma();
    if (open) widen_by_recipe(simulator, plan, p);
    return p;
}

}  // namespace tw
