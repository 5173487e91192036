#include "sim/cost/shape_cost.hpp"

#include <gtest/gtest.h>

#include "models/load_model.hpp"

namespace tw {
namespace {

// A search holds hundreds of shapes: each keeps what plans ask for, not the operations that it was costed
// from.
TEST(ShapeCost, KeepsNoOperations) {
    const auto environment =
        make_environment(load_model("gpt3-175b").value().graph, load_cluster("a100:8").value()).value();
    ParallelPlan plan;
    plan.mesh.tp = 8;
    plan.seq_len = 2048;
    ShapeCostCache cache;
    const auto shape = cache.get(
        *environment, shape_key(environment->graph, plan, place_plan(environment->cluster, plan), 0));
    ASSERT_EQ(shape->works.size(), static_cast<std::size_t>(environment->graph.layer_classes()));
    for (const LayerWork& work : shape->works) {
        EXPECT_EQ(work.forward.capacity(), 0U);
        EXPECT_EQ(work.backward.capacity(), 0U);
        EXPECT_EQ(work.saved.capacity(), work.saved.size());
    }
}

// What the cache takes from the shape without expert parallel: layers without experts do the same under every
// degree of it.
TEST(ShapeCost, LayersWithoutExpertsDoTheSameUnderEveryExpertParallel) {
    for (const std::string model : {"deepseek-v3", "mixtral-8x7b", "qwen3-235b-a22b"}) {
        const LayerGraph graph = load_model(model).value().graph;
        WorkShape plain;
        plain.seq_len = 4096;
        plain.tp = 4;
        plain.sequence_parallel = true;
        WorkShape split = plain;
        split.ep = 8;
        split.etp = 4;
        const std::vector<LayerWork> alone = layer_works(graph, plain), works = layer_works(graph, split);
        int without = 0;
        for (std::size_t c = 0; c < works.size(); ++c) {
            EXPECT_EQ(works[c].expert_parameters > 0, alone[c].expert_parameters > 0) << model;
            if (works[c].expert_parameters > 0) continue;
            ++without;
            EXPECT_EQ(works[c].dense_parameters, alone[c].dense_parameters) << model;
            EXPECT_EQ(works[c].transient_backward_bytes, alone[c].transient_backward_bytes) << model;
            for (const auto list : {&LayerWork::forward, &LayerWork::backward}) {
                const std::vector<Op>&ops = works[c].*list, &same = alone[c].*list;
                ASSERT_EQ(ops.size(), same.size()) << model;
                for (std::size_t i = 0; i < ops.size(); ++i) {
                    EXPECT_EQ(ops[i].name, same[i].name) << model;
                    EXPECT_EQ(op_flops(ops[i]).value, op_flops(same[i]).value) << model << ops[i].name;
                    EXPECT_EQ(op_bytes(ops[i]), op_bytes(same[i])) << model << ops[i].name;
                    const auto* call = std::get_if<CollectiveOp>(&ops[i].body);
                    if (call == nullptr) continue;
                    EXPECT_EQ(call->bytes, std::get<CollectiveOp>(same[i].body).bytes) << ops[i].name;
                    EXPECT_TRUE(call->axis != Axis::Ep && call->axis != Axis::Etp) << ops[i].name;
                }
            }
        }
        EXPECT_GE(without, 2) << model;  // embedding and head
    }
}

// The layer's own cost, with and without what the cache shares.
TEST(ShapeCost, AnExpertsShapeDoesNotDependOnWhatWasAskedForBefore) {
    const auto environment =
        make_environment(load_model("deepseek-v3").value().graph, load_cluster("h100:64").value()).value();
    ParallelPlan plan;
    plan.mesh.dp = 8;
    plan.mesh.tp = 8;
    plan.seq_len = 4096;
    const auto cost = [&](ShapeCostCache& cache, int ep) {
        plan.mesh.ep = ep;
        return cache.get(*environment,
                         shape_key(environment->graph, plan, place_plan(environment->cluster, plan), 0));
    };
    ShapeCostCache fresh, used;
    for (const int ep : {1, 2, 4, 16})
        (void)cost(used, ep);
    const auto a = cost(fresh, 8), b = cost(used, 8);
    for (std::size_t c = 0; c < a->layers.size(); ++c) {
        for (const RecomputeMode mode :
             {RecomputeMode::None, RecomputeMode::Selective, RecomputeMode::Full}) {
            for (const Opcode opcode :
                 {Opcode::Forward, Opcode::Backward, Opcode::BackwardInput, Opcode::BackwardWeight}) {
                EXPECT_EQ(a->layers[c].phase(mode, opcode).matrix, b->layers[c].phase(mode, opcode).matrix);
            }
        }
    }
}

}  // namespace
}  // namespace tw
