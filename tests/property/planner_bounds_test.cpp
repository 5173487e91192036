// Lower bounds against simulations of random plans: no bound exceeds what it bounds. Also how tight they are.
#include <algorithm>
#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "planner/bounds.hpp"
#include "sim/memory/ledger.hpp"
#include "tests/planner/planner_fixtures.hpp"

namespace tw {
namespace {

using test::Leaf;

constexpr std::uint64_t kSeed = 20250213;

struct Case {
    std::string name;
    std::shared_ptr<const Environment> environment;
};

std::vector<Case> environments(Prng& random) {
    std::vector<Case> result;
    const auto add = [&](const std::string& model, const std::string& cluster, double dispatch_s) {
        result.push_back({model + " on " + cluster, test::environment_of(model, cluster, dispatch_s)});
    };
    add("gpt2-tiny", "h100:8", 0);
    add("gpt2-tiny", "rtx4090-pcie:8", 5e-6);
    add("llama3.2-1b", "h100:8", 0);
    add("llama3.2-1b", "rtx4090-pcie:8", 0);
    add("llama3.2-1b", "p4d:16", 0);
    add("mixtral-8x7b", "h100:64", 0);
    add("mixtral-8x7b", "p4d:16", 0);
    add("deepseek-v2-lite", "h100:32", 0);
    add("llama3-8b", "a100:64", 0);
    add("bert-large", "p4d:16", 8e-6);
    add("t5-3b", "a100:16", 0);
    add("resnet50", "h100:8", 0);
    for (int i = 0; i < 8; ++i) {
        const std::string cluster =
            test::pick<std::string>(random, {"h100:8", "h100:16", "a100:16", "p4d:16", "rtx4090-pcie:8"});
        result.push_back({"random model " + std::to_string(i) + " on " + cluster,
                          test::environment_of(test::random_model(random, 12), cluster)});
    }
    return result;
}

PlanRequest random_request(Prng& random, const Environment& environment) {
    const auto coin = [&] { return random.integer(0, 1) == 1; };
    PlanRequest request;
    request.constraints = test::every_schedule();
    request.global_batch = environment.cluster.devices() * test::pick<std::int64_t>(random, {1, 2, 3, 8});
    if (environment.graph.counts_tokens) request.seq_len = test::pick<std::int64_t>(random, {128, 512, 2048});
    if (environment.graph.family == "bert") request.seq_len = 128;
    if (environment.graph.family == "gpt")  // no longer than its learned positions
        request.seq_len = std::min(request.seq_len, environment.graph.default_seq_len);
    ParallelPlan& base = request.base;
    base.overlap.grad_reduce = coin();
    base.overlap.param_gather = coin();
    base.overlap.p2p = coin();
    base.overlap.tp = coin();
    base.offload_optimizer = random.integer(0, 3) == 0 ? 0.5 : 0.0;
    base.offload_activations = random.integer(0, 7) == 0;
    base.dropout = coin();
    base.precision.gradient_fp32 = coin();
    base.optimizer = test::pick<OptimizerKind>(random, {OptimizerKind::Adam, OptimizerKind::Sgd});
    base.framework = test::pick<std::string>(random, {"trainwright", "megatron", "torchtitan"});
    return request;
}

std::string describe(const Case& c, const PlanRequest& request, const Leaf& leaf) {
    std::string text = c.name + ": " + summary(leaf.plan) + " ep" + std::to_string(leaf.plan.mesh.ep) +
                       " etp" + std::to_string(leaf.plan.mesh.etp) + " m" +
                       std::to_string(leaf.plan.microbatches) + " zero_shard " +
                       std::to_string(leaf.plan.zero_shard) + " recompute_layers " +
                       std::to_string(leaf.chunk.recompute_layers) + " stages";
    for (const StageSpec& s : leaf.plan.stages)
        text += " " + std::to_string(s.last_layer - s.first_layer);
    const OverlapSpec& o = request.base.overlap;
    return text + " overlap " + std::to_string(o.grad_reduce) + std::to_string(o.param_gather) +
           std::to_string(o.p2p) + std::to_string(o.tp) + " offload " +
           std::to_string(request.base.offload_activations);
}

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

TEST(PlannerBounds, NoBoundExceedsTheSimulation) {
    Prng random(kSeed);
    const std::vector<Case> all = environments(random);
    const int wanted = test::cases(3000, 100'000);
    const int per_request = 30;
    std::vector<double> mesh_ratio, chunk_ratio, layer_ratio, schedule_ratio, leaf_ratio, memory_ratio;
    std::map<std::string, int> schedules;
    int done = 0, requests = 0, failed = 0, limited_binds = 0;
    while (done < wanted) {
        const Case& c = all[static_cast<std::size_t>(requests++) % all.size()];
        const Environment& environment = *c.environment;
        const PlanRequest request = random_request(random, environment);
        const SearchSpace space(environment, request);
        ASSERT_FALSE(space.meshes().empty()) << c.name;
        const Simulator simulator(c.environment);
        for (int draw = 0; draw < per_request && done < wanted; ++draw) {
            Leaf leaf;
            if (!test::draw_leaf(random, space, leaf) || leaf.mesh.microbatches > 64) continue;
            const int stages = leaf.plan.stage_count();
            if (leaf.chunk.recompute_layers < 0 && stages > 1 && random.integer(0, 1) == 0) {
                leaf.plan.stages =
                    test::random_partition(random, environment.graph, stages, leaf.chunk.recompute);
            }
            const auto simulated = simulator.evaluate(leaf.plan);
            // Orders made for given costs may find none that fits in memory.
            if (!simulated && leaf.schedule->info().uses_costs) continue;
            ASSERT_TRUE(simulated) << describe(c, request, leaf) << ": " << to_string(simulated.errors());
            const SimTime step = simulated->step_time;
            const std::string what = describe(c, request, leaf);

            const auto shape =
                test::shapes_of(simulator, request, space, leaf.mesh, {leaf.plan.stages.front()}).front();
            const MeshBounds bounds(environment, *shape, leaf.mesh, request.base);
            const bool hides = leaf.schedule->info().overlaps_passes;
            EXPECT_LE(bounds.step_time(hides), step) << what;
            EXPECT_LE(bounds.step_time(leaf.chunk, hides), step) << what;
            EXPECT_LE(bounds.memory(), simulated->required_bytes) << what;
            EXPECT_LE(bounds.memory(leaf.chunk, leaf.zero), simulated->required_bytes) << what;

            const std::vector<std::uint16_t> ranks = test::placement_of(*leaf.schedule, leaf.plan);
            const LayerBounds layers(environment.graph, *shape, leaf.chunk);
            const SimTime layer_bound =
                layers.step_time(leaf.plan.stages, ranks, leaf.schedule->info(), leaf.plan.microbatches);
            EXPECT_LE(layer_bound, step) << what;
            const PlanCost costs(environment, leaf.plan, ranks, simulator.shapes());
            const auto options = lowering_options(environment.graph, leaf.plan, costs.parameters());
            const SimTime leaf_bound =
                leaf_step_time_bound(leaf.plan, costs, ranks, leaf.schedule->info(), options.buckets, true);
            EXPECT_LE(leaf_bound, step) << what;
            const GeneratorInfo info = leaf.schedule->info();
            if (info.uses_costs && simulated->fits && !leaf.plan.offload_activations) {
                StageCosts limited = costs.stage_costs();
                limited.memory_limit_bytes = activation_room(environment, leaf.plan, costs, ranks);
                const SimTime bound = memory_limited_step_time_bound(leaf.plan, costs, limited);
                EXPECT_LE(bound, step) << what;
                limited_binds += bound > leaf_bound;
            }
            if (info.uses_costs && !leaf.plan.offload_activations) {
                const MemoryBase one =
                    memory_base(environment, leaf.plan, costs, ranks, one_in_flight_profile(ranks));
                EXPECT_LE(memory_totals(leaf.plan, one).device, simulated->peak_device_bytes) << what;
            }
            ParallelPlan unsharded = leaf.plan;
            unsharded.zero_stage = unsharded.zero_shard = 0;
            const PlanCost plain(environment, unsharded, ranks, simulator.shapes());
            const SimTime schedule_bound =
                leaf_step_time_bound(unsharded, plain, ranks, leaf.schedule->info(), {}, false);
            EXPECT_LE(schedule_bound, step) << what;

            const auto ratio = [&](SimTime bound) {
                return static_cast<double>(bound) / static_cast<double>(step);
            };
            mesh_ratio.push_back(ratio(bounds.step_time(hides)));
            chunk_ratio.push_back(ratio(bounds.step_time(leaf.chunk, hides)));
            layer_ratio.push_back(ratio(layer_bound));
            schedule_ratio.push_back(ratio(schedule_bound));
            leaf_ratio.push_back(ratio(leaf_bound));
            memory_ratio.push_back(bounds.memory(leaf.chunk, leaf.zero) / simulated->peak_device_bytes);
            ++schedules[leaf.plan.schedule];
            ++done;
            if (HasFailure()) ++failed;
            ASSERT_LT(failed, 5) << "more are not shown";
        }
    }
    for (const std::string& name : schedule_names())
        EXPECT_GE(schedules[name], done / 200) << name << " was hardly tried";
    EXPECT_GE(limited_binds, done / 1000);
    const auto record = [](const std::string& name, const std::vector<double>& ratios) {
        ::testing::Test::RecordProperty(name, std::to_string(median(ratios)));
    };
    record("median_mesh_bound_over_simulation", mesh_ratio);
    record("median_chunk_bound_over_simulation", chunk_ratio);
    record("median_layer_bound_over_simulation", layer_ratio);
    record("median_schedule_bound_over_simulation", schedule_ratio);
    record("median_leaf_bound_over_simulation", leaf_ratio);
    record("median_memory_bound_over_simulation", memory_ratio);
    std::printf(
        "medians of bound / simulation over %d plans: mesh %.3f, chunk %.3f, layers %.3f, schedule %.3f, "
        "leaf "
        "%.3f, "
        "memory %.3f\n",
        done, median(mesh_ratio), median(chunk_ratio), median(layer_ratio), median(schedule_ratio),
        median(leaf_ratio), median(memory_ratio));
}

}  // namespace
}  // namespace tw
