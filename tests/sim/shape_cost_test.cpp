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

}  // namespace
}  // namespace tw
