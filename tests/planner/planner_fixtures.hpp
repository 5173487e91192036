// Models, clusters and plans drawn at random for the tests of the planner.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/prng.hpp"
#include "models/families/registry.hpp"
#include "models/load_model.hpp"
#include "plan/lower_plan.hpp"
#include "plan/schedule/placement.hpp"
#include "planner/partitions/partition_strategy.hpp"
#include "planner/request.hpp"
#include "planner/space.hpp"
#include "tests/support/test_scale.hpp"

namespace tw::test {

// How many cases a random test runs; TW_LONG=1 asks for `thorough` of them.
inline int cases(int usual, int thorough) {
    const char* text = std::getenv("TW_LONG");
    return text != nullptr && std::string(text) == "1" ? thorough : scaled(usual);
}

inline std::shared_ptr<const Environment> environment_of(LayerGraph graph, const std::string& cluster,
                                                         double dispatch_s = 0) {
    auto loaded = load_cluster(cluster);
    auto made = make_environment(std::move(graph), loaded.value());
    auto environment = std::make_shared<Environment>(**made);
    environment->dispatch_s = dispatch_s;
    return environment;
}

inline std::shared_ptr<const Environment> environment_of(const std::string& model, const std::string& cluster,
                                                         double dispatch_s = 0) {
    return environment_of(load_model(model).value().graph, cluster, dispatch_s);
}

template <class T>
const T& pick(Prng& random, const std::vector<T>& choices) {
    return choices[static_cast<std::size_t>(
        random.integer(0, static_cast<std::int64_t>(choices.size()) - 1))];
}

// A few blocks of a dense or a sparse transformer, from small to so wide that not every plan fits.
inline LayerGraph random_model(Prng& random, int most_layers) {
    ModelConfig c;
    c.name = "random";
    c.source = "drawn";
    const std::int64_t kind = random.integer(0, 3);
    c.family = kind == 3 ? "moe" : kind == 2 ? "llama" : "gpt";
    c.layers = random.integer(2, most_layers);
    c.heads = pick<std::int64_t>(random, {4, 8, 16, 24, 64, 64});
    c.hidden = c.heads * pick<std::int64_t>(random, {32, 64, 128});
    c.ffn = c.hidden * pick<std::int64_t>(random, {2, 4});
    c.vocab = pick<std::int64_t>(random, {1000, 32000, 128256});
    c.seq_len = pick<std::int64_t>(random, {256, 1024, 2048});
    if (c.family == "gpt") {
        c.positions = PositionKind::Learned;
        c.qkv_bias = c.attention_out_bias = c.mlp_bias = true;
        c.tied_embeddings = kind == 1;
    } else {
        c.gated = true;
        c.activation = ActivationKind::Silu;
        c.norm = NormKind::Rms;
        c.norm_bias = false;
        c.kv_heads = c.heads / 2;
    }
    if (c.family == "moe") {
        c.experts = pick<std::int64_t>(random, {4, 8});
        c.experts_per_token = 2;
        c.expert_ffn = c.ffn;
    }
    return build_model(c).value();
}

inline PlanConstraints every_schedule() {
    PlanConstraints constraints;
    constraints.schedule.words = schedule_names();
    return constraints;
}

// One leaf of a space, as indices and as a plan with the uniform partition.
struct Leaf {
    MeshChoice mesh;
    ChunkChoice chunk;
    const ScheduleGenerator* schedule = nullptr;
    ZeroChoice zero;
    ParallelPlan plan;
};

// A leaf drawn level by level; false where the mesh that was drawn has none.
inline bool draw_leaf(Prng& random, const SearchSpace& space, Leaf& leaf) {
    leaf.mesh = pick(random, space.meshes());
    const auto chunks = space.chunks(leaf.mesh);
    const auto zeros = space.zeros(leaf.mesh);
    if (chunks.empty() || zeros.empty()) return false;
    leaf.chunk = pick(random, chunks);
    leaf.schedule = pick(random, space.schedules(leaf.mesh, leaf.chunk.virtual_stages));
    leaf.zero = pick(random, zeros);
    leaf.plan = space.make_plan(leaf.mesh, leaf.chunk, *leaf.schedule, leaf.zero);
    return true;
}

// Cuts all layers at random places.
inline std::vector<StageSpec> random_partition(Prng& random, const LayerGraph& graph, int stages,
                                               RecomputeMode recompute) {
    std::vector<int> cuts;
    for (int layer = 1; layer < graph.size(); ++layer)
        cuts.push_back(layer);
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
        const auto j = static_cast<std::size_t>(
            random.integer(static_cast<std::int64_t>(i), static_cast<std::int64_t>(cuts.size()) - 1));
        std::swap(cuts[i], cuts[j]);
    }
    cuts.resize(static_cast<std::size_t>(stages) - 1);
    std::sort(cuts.begin(), cuts.end());
    cuts.push_back(graph.size());
    std::vector<StageSpec> specs;
    int first = 0;
    for (const int last : cuts) {
        StageSpec spec;
        spec.first_layer = std::exchange(first, last);
        spec.last_layer = last;
        spec.recompute = recompute;
        specs.push_back(spec);
    }
    return specs;
}

// What a bound of a mesh is made of: the plan's shape on its placement.
// What the layers cost on each stage's devices.
inline std::vector<std::shared_ptr<const ShapeCost>> shapes_of(const Simulator& simulator,
                                                               const PlanRequest& request,
                                                               const SearchSpace& space,
                                                               const MeshChoice& mesh,
                                                               const std::vector<StageSpec>& stages) {
    ParallelPlan plan = request.base;
    plan.mesh = mesh.mesh;
    plan.microbatch = mesh.microbatch;
    plan.seq_len = space.seq_len();
    plan.sequence_parallel = mesh.sequence_parallel;
    if (space.recomputes_by_op()) plan.recompute = RecomputeMode::SelectiveOps;
    const Environment& environment = simulator.environment();
    const RankPlacement placement = place_plan(environment.cluster, plan);
    std::vector<std::shared_ptr<const ShapeCost>> shapes;
    for (const StageSpec& stage : stages) {
        shapes.push_back(simulator.shapes().get(
            environment, shape_key(environment.graph, plan, placement, stage.node_group)));
    }
    return shapes;
}

inline std::vector<std::uint16_t> placement_of(const ScheduleGenerator& schedule, const ParallelPlan& plan) {
    return rank_of_stage(schedule, schedule_shape(plan));
}

}  // namespace tw::test
