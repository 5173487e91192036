// Options of gradient synchronisation that a plan may have.
#include <gtest/gtest.h>

#include "tests/plan/plan_fixtures.hpp"

namespace tw {
namespace {

using testing::make_cluster;
using testing::make_model;
using testing::make_plan;
using testing::text_of;

TEST(GradientSyncRules, OptionsAreThoseOfTheMethod) {
    const LayerGraph graph = make_model({.hidden = 16});
    const Cluster cluster = make_cluster(8);
    ParallelPlan plan = make_plan(graph, cluster, {}, 8);
    const auto refused = [&](const char* method, const SyncOptions& options) {
        plan.gradient_sync = method;
        plan.gradient_sync_options = options;
        const PlanCheck check = check_plan(graph, cluster, plan);
        EXPECT_LE(check.errors.size(), 1U) << text_of(check);
        return check.errors.empty() ? Error{} : check.errors.front();
    };
    EXPECT_EQ(refused("ps-sync", {.servers = 3}).message, "");
    EXPECT_EQ(refused("powersgd", {.rank = 8}).message, "");
    EXPECT_EQ(refused("count-sketch", {.density = 0.1, .sketch_rows = 3, .sketch_width = 0.1}).message, "");
    const Error wide = refused("powersgd", {.rank = 9});  // twice the rank is more than a side
    EXPECT_EQ(wide.context, "gradient_sync_options");
    EXPECT_EQ(wide.hint, "rank 4, or gradient_sync all-reduce");
    const Error other = refused("8-bit", {.rank = 8});
    EXPECT_EQ(other.context, "gradient_sync_options");
    EXPECT_EQ(other.message, "gradient sync 8-bit does not use 'rank'");
    EXPECT_EQ(other.hint, "its options: block");
    EXPECT_EQ(refused("all-reduce", {.staleness = 1}).hint, "it has no options");
    EXPECT_EQ(refused("ps-sync", {.servers = -1}).context, "gradient_sync_options");
}

}  // namespace
}  // namespace tw
