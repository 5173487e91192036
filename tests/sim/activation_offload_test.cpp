// Activations that go to host memory layer by layer: what stays on the device, and how long a step takes.
#include <algorithm>

#include <gtest/gtest.h>

#include "models/load_model.hpp"
#include "plan/stage_partition.hpp"
#include "sim/memory/ledger.hpp"
#include "sim/simulator.hpp"

namespace tw {
namespace {

struct Case {
    std::shared_ptr<const Environment> environment;
    ParallelPlan plan;

    explicit Case(bool offload, double link = 1, int pp = 1, RecomputeMode recompute = RecomputeMode::None) {
        auto made = make_environment(load_model("llama3-8b").value().graph, load_cluster("h100:8").value());
        auto changed = std::make_shared<Environment>(**made);
        changed->dispatch_s = 0;
        for (NodeGroup& group : changed->cluster.groups)
            group.type.pcie_bandwidth.value *= link;
        environment = changed;
        plan.mesh.tp = 8 / pp;
        plan.mesh.pp = pp;
        plan.microbatches = 4;
        plan.global_batch = 4;
        plan.seq_len = 8192;
        plan.framework = "megatron";
        plan.recompute = recompute;
        plan.stages = uniform_partition(environment->graph, pp, recompute);
        plan.offload_activations = offload;
    }
    [[nodiscard]] SimulationReport report() const {
        auto result = Simulator(environment).simulate(plan);
        EXPECT_TRUE(result.has_value()) << (result.has_value() ? "" : to_string(result.errors()));
        return result.has_value() ? std::move(*result) : SimulationReport{};
    }
    [[nodiscard]] double pcie() const { return environment->node_group(0).type.pcie_bandwidth.value; }
};

double activations(const SimulationReport& report) {
    for (const MemoryAddend& addend : report.memory.front().addends)
        if (addend.name == "activations") return addend.bytes;
    return 0;
}

// Of 32 blocks and a head with its logits the device holds two layers: the one at work and the one whose
// activations are on their way.
TEST(ActivationOffload, ADeviceHoldsTwoLayersWithoutAPipeline) {
    for (const RecomputeMode recompute : {RecomputeMode::None, RecomputeMode::Full}) {
        const SimulationReport kept = Case(false, 1, 1, recompute).report();
        const SimulationReport away = Case(true, 1, 1, recompute).report();
        EXPECT_LT(activations(away), 0.5 * activations(kept));
        EXPECT_DOUBLE_EQ(away.memory[0].host_bytes, activations(kept));
        EXPECT_LT(away.peak_allocated_bytes, kept.peak_allocated_bytes - 0.5 * activations(kept));
    }
}

// A footprint's peak is that of its worst layer with what the one in front of it still holds.
TEST(ActivationOffload, TheWindowIsOfNeighbours) {
    const Case c(true);
    ShapeCostCache shapes;
    const std::vector<std::uint16_t> ranks = {0};
    const PlanCost costs(*c.environment, c.plan, ranks, shapes);
    const LayerGraph& graph = c.environment->graph;
    const StageSpec& stage = c.plan.stages.front();
    double window = 0, peak = 0, before = 0, all = 0;
    for (int i = stage.first_layer; i < stage.last_layer; ++i) {
        const LayerWork& work = costs.shape(0).works[static_cast<std::size_t>(graph.layer(i).layer_class)];
        const double own = saved_bytes(work, RecomputeMode::None);
        window = std::max(window, own + before);
        peak = std::max(peak, own + before + work.transient_backward_bytes);
        before = own;
        all += own;
    }
    const StageFootprint f = footprints(*c.environment, c.plan, costs).stages.front();
    EXPECT_DOUBLE_EQ(f.activations, window);
    EXPECT_DOUBLE_EQ(f.all_activations, all);
    EXPECT_DOUBLE_EQ(f.activations + f.transient_backward, peak);
    // What a split backward leaves for weight gradients does not go to the host.
    EXPECT_DOUBLE_EQ(f.activations + f.transient_backward_input, peak + f.held_for_weight);
    // A stage of one layer has nothing to window.
    StageSpec one = stage;
    one.last_layer = one.first_layer + 2;
    StageFootprint small = stage_footprint(graph, one, costs.shape(0));
    const double whole = small.activations;
    offload_layers(graph, one, costs.shape(0), small);
    EXPECT_DOUBLE_EQ(small.activations, whole);
}

// Copies hide behind passes that are longer, and pace those that are not: down in the forward, up in the
// backward.
TEST(ActivationOffload, PassesTakeNoLessThanTheCopiesBesideThem) {
    const SimulationReport kept = Case(false).report();
    const SimulationReport fast = Case(true, 1000).report();
    EXPECT_NEAR(fast.step_time_s, kept.step_time_s, 1e-3 * kept.step_time_s);
    const Case narrow(true, 0.1);
    const SimulationReport slow = narrow.report();
    EXPECT_NEAR(slow.step_time_s, 4 * 2 * activations(kept) / narrow.pcie(), 0.03 * slow.step_time_s);
    const TimeBreakdown& b = slow.ranks.front().breakdown;
    EXPECT_NEAR(b.total(), slow.step_time_s, 1e-6 * slow.step_time_s);
    EXPECT_NEAR(b.exposed_offload, slow.step_time_s - kept.step_time_s, 0.01 * slow.step_time_s);
    EXPECT_NEAR(b.forward, kept.ranks.front().breakdown.forward, 1e-9);
}

TEST(ActivationOffload, StagesOfAPipelineToo) {
    const SimulationReport kept = Case(false, 1, 2).report();
    const SimulationReport away = Case(true, 1, 2).report();
    EXPECT_LT(activations(away), activations(kept) / 4);  // 16 blocks, two microbatches in flight
    EXPECT_NEAR(away.ranks.front().breakdown.total(), away.step_time_s, 1e-6 * away.step_time_s);
}

}  // namespace
}  // namespace tw
