#include "plan/gradient_sync/gradient_sync.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "plan/gradient_sync/schedule_staleness.hpp"
#include "plan/gradient_sync/staleness.hpp"
#include "plan/schedule/generator.hpp"
#include "plan/schedule/lower.hpp"

namespace tw {
namespace {

SyncRequest request_for(std::string_view method, int replicas = 8) {
    SyncRequest request;
    request.parameters = 1e9;
    request.gradient = Precision::Bf16;
    request.replicas = replicas;
    request.zero_stage = method == "zero" ? 1 : 0;
    return request;
}

SyncCost cost_of(std::string_view method, const SyncRequest& request, const SyncOptions& options = {}) {
    const auto cost = gradient_sync_cost(method, request, options);
    EXPECT_TRUE(cost) << (cost ? "" : to_string(cost.errors()));
    return cost ? *cost : SyncCost{};
}

TEST(GradientSync, EveryMethodIsFoundByNameAndStatesItsSource) {
    ASSERT_EQ(gradient_sync_names().size(), 9U);
    for (const GradientSync* method : gradient_syncs()) {
        const SyncInfo info = method->info();
        EXPECT_EQ(*find_gradient_sync(info.name), method);
        EXPECT_FALSE(info.source.empty());
        EXPECT_FALSE(info.title.empty());
    }
}

TEST(GradientSync, UnknownNameOffersTheNearest) {
    const auto method = find_gradient_sync("all-reduc");
    ASSERT_FALSE(method);
    EXPECT_NE(method.error().hint.find("all-reduce"), std::string::npos);
}

// Conformance: every method's wire bytes are those of the collectives it lists; one replica sends nothing;
// cost does not shrink with parameters.
TEST(GradientSync, WireBytesAreThoseOfItsCollectives) {
    for (const GradientSync* method : gradient_syncs()) {
        const std::string_view name = method->info().name;
        const SyncRequest request = request_for(name);
        const SyncCost cost = cost_of(name, request);
        double sum = 0;
        for (const SyncCollective& c : cost.collectives)
            sum += c.times * rank_wire_bytes(c.kind, c.bytes, request.replicas);
        EXPECT_DOUBLE_EQ(cost.wire_bytes, sum) << name;
        EXPECT_GT(cost.wire_bytes, 0) << name;

        SyncRequest larger = request;
        larger.parameters *= 2;
        EXPECT_GT(cost_of(name, larger).wire_bytes, cost.wire_bytes) << name;

        const SyncCost alone = cost_of(name, request_for(name, 1));
        EXPECT_EQ(alone.wire_bytes, 0) << name;
        EXPECT_TRUE(alone.collectives.empty()) << name;
    }
}

TEST(GradientSync, SemanticsOfTheApproximateMethods) {
    const auto semantics = [](std::string_view name) {
        return (*find_gradient_sync(name))->info().semantics;
    };
    EXPECT_EQ(semantics("all-reduce"), Semantics::Synchronous);
    EXPECT_EQ(semantics("ps-async"), Semantics::Asynchronous);
    EXPECT_EQ(semantics("local-sgd"), Semantics::LocalSteps);
    EXPECT_TRUE((*find_gradient_sync("zero"))->info().exact);
    EXPECT_FALSE((*find_gradient_sync("top-k"))->info().exact);
}

TEST(GradientSync, AllReduceSendsTwiceTheGradientsLessAShare) {
    const SyncCost cost = cost_of("all-reduce", request_for("all-reduce"));
    ASSERT_EQ(cost.collectives.size(), 1U);
    EXPECT_DOUBLE_EQ(cost.collectives[0].bytes, 2e9);
    EXPECT_DOUBLE_EQ(cost.wire_bytes, 2 * 7.0 / 8 * 2e9);
}

// Rajbhandari et al. 2020, section 7: stages 1 and 2 move what an all-reduce moves, stage 3 half as much
// again.
TEST(GradientSync, ZeroVolumes) {
    SyncRequest request = request_for("zero");
    const double plain = cost_of("all-reduce", request_for("all-reduce")).wire_bytes;
    for (const int stage : {1, 2}) {
        request.zero_stage = stage;
        EXPECT_DOUBLE_EQ(cost_of("zero", request).wire_bytes, plain);
    }
    request.zero_stage = 3;
    EXPECT_DOUBLE_EQ(cost_of("zero", request).wire_bytes, 1.5 * plain);
    request.microbatches = 4;
    EXPECT_DOUBLE_EQ(cost_of("zero", request).wire_bytes, 6 * plain);
}

TEST(GradientSync, ZeroRefusesStageNoneAndAllReduceRefusesShards) {
    SyncRequest request = request_for("all-reduce");
    EXPECT_EQ(gradient_sync_cost("zero", request).error().context, "zero_stage");
    request.zero_stage = 2;
    const auto refused = gradient_sync_cost("all-reduce", request);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().hint, "zero");
}

TEST(GradientSync, ServerPortCarriesAllWorkers) {
    SyncRequest request = request_for("ps-sync");
    request.parameter = Precision::Fp32;  // twice the gradients
    SyncOptions options;
    options.servers = 2;
    const SyncCost cost = cost_of("ps-sync", request, options);
    EXPECT_DOUBLE_EQ(cost.wire_bytes, 2e9);  // the pull is sent by a server
    ASSERT_EQ(cost.collectives.size(), 2U);
    EXPECT_DOUBLE_EQ(cost.collectives[0].server_bytes, 8 * 2e9 / 2);
    EXPECT_DOUBLE_EQ(cost.collectives[1].server_bytes, 8 * 4e9 / 2);
    EXPECT_DOUBLE_EQ(cost.server_bytes, 8 * 4e9 / 2);
    EXPECT_EQ(cost.max_staleness, 0);
    // A shard on every worker: its own share stays, and one port carries pushes and pulls.
    const SyncCost shards = cost_of("ps-sync", request);
    EXPECT_DOUBLE_EQ(shards.collectives[0].bytes, 7.0 / 8 * 2e9);
    EXPECT_DOUBLE_EQ(shards.collectives[0].server_bytes, 7.0 / 8 * 2e9);
    EXPECT_DOUBLE_EQ(shards.server_bytes, 7.0 / 8 * 6e9);
    EXPECT_DOUBLE_EQ(shards.wire_bytes, 7.0 / 8 * 6e9);
    EXPECT_TRUE(std::isinf(cost_of("ps-async", request_for("ps-async"), options).max_staleness));
    options.staleness = 3;
    EXPECT_EQ(cost_of("ps-async", request_for("ps-async"), options).max_staleness, 21);
    options.servers = -1;
    EXPECT_EQ(gradient_sync_cost("ps-sync", request, options).error().context, "servers");
}

// Every option is one of some method's, and those of the others are refused by name.
TEST(GradientSync, OptionsBelongToMethods) {
    for_each_sync_option([](std::string_view name, auto /*member*/) {
        int users = 0;
        for (const GradientSync* method : gradient_syncs())
            users += why_not_an_option(*method, name) ? 0 : 1;
        EXPECT_GT(users, 0) << name;
    });
    const auto reason = why_not_an_option(**find_gradient_sync("top-k"), "servers");
    ASSERT_TRUE(reason);
    EXPECT_EQ(reason->message, "gradient sync top-k does not use 'servers'");
    EXPECT_EQ(reason->hint, "its options: density");
    EXPECT_EQ(why_not_an_option(**find_gradient_sync("all-reduce"), "density")->hint, "it has no options");
}

TEST(GradientSync, LocalStepsAmortise) {
    SyncOptions options;
    options.local_steps = 1;
    const double every = cost_of("local-sgd", request_for("local-sgd"), options).wire_bytes;
    options.local_steps = 50;
    options.outer_momentum = true;
    const SyncCost cost = cost_of("local-sgd", request_for("local-sgd"), options);
    EXPECT_DOUBLE_EQ(cost.wire_bytes, every / 50);
    EXPECT_DOUBLE_EQ(cost.memory_bytes, 8e9);
    options.local_steps = 0;
    EXPECT_FALSE(gradient_sync_cost("local-sgd", request_for("local-sgd"), options));
}

TEST(GradientSync, TopKGathersIndexAndValue) {
    SyncOptions options;
    options.density = 0.001;
    const SyncCost cost = cost_of("top-k", request_for("top-k"), options);
    ASSERT_EQ(cost.collectives.size(), 1U);
    EXPECT_EQ(cost.collectives[0].kind, CollectiveKind::AllGather);
    EXPECT_DOUBLE_EQ(cost.collectives[0].bytes, 8 * 1e6 * (4 + 2));
    EXPECT_DOUBLE_EQ(cost.wire_bytes, 7 * 1e6 * 6);  // each rank's share reaches the 7 others
    EXPECT_GE(cost.memory_bytes, 4e9);               // error feedback
    // Sparse all-gathers grow with the replicas: at this density 1000 ranks would send more than dense
    // all-reduce.
    EXPECT_GT(cost_of("top-k", request_for("top-k", 1000), options).wire_bytes,
              cost_of("all-reduce", request_for("all-reduce", 1000)).wire_bytes);
}

TEST(GradientSync, EightBitHalvesBf16) {
    const SyncCost cost = cost_of("8-bit", request_for("8-bit"));
    EXPECT_DOUBLE_EQ(cost.wire_bytes, 2 * 7.0 / 8 * 1e9 * (1 + 4.0 / 256));
    EXPECT_GT(cost.kernel_bytes, 1e10);
}

// Vogels et al. 2019: rank r of a d x d matrix sends 2 d r numbers instead of d^2.
TEST(GradientSync, PowerSgdCompressesByRank) {
    SyncRequest request = request_for("powersgd");
    request.gradient = Precision::Fp32;
    request.matrix_dim = 1024;
    SyncOptions options;
    options.rank = 2;
    const double dense = cost_of("all-reduce", request).wire_bytes;
    EXPECT_NEAR(dense / cost_of("powersgd", request, options).wire_bytes, 1024.0 / (2 * 2), 1e-9);
    options.rank = 600;
    EXPECT_FALSE(gradient_sync_cost("powersgd", request, options));
}

TEST(GradientSync, CountSketchSendsItsTableAndTheChosenValues) {
    SyncOptions options;
    options.sketch_rows = 5;
    options.sketch_width = 0.01;
    options.density = 0.001;
    const SyncCost cost = cost_of("count-sketch", request_for("count-sketch"), options);
    ASSERT_EQ(cost.collectives.size(), 2U);
    EXPECT_DOUBLE_EQ(cost.collectives[0].bytes, 4 * 5 * 0.01 * 1e9);
    EXPECT_DOUBLE_EQ(cost.collectives[1].bytes, 2 * 0.001 * 1e9);
    options.density = 0;
    options.sketch_rows = 0;
    EXPECT_EQ(gradient_sync_cost("count-sketch", request_for("count-sketch"), options).errors().size(), 2U);
}

TEST(Staleness, UnboundedMeanIsTheOtherWorkers) {
    for (const int workers : {1, 2, 8, 32}) {
        const StalenessDistribution d = parameter_server_staleness(workers, -1);
        EXPECT_NEAR(std::accumulate(d.probability.begin(), d.probability.end(), 0.0), 1, 1e-12);
        EXPECT_NEAR(d.mean(), workers - 1, 1e-5 * workers);
    }
}

TEST(Staleness, BoundIsKept) {
    const StalenessDistribution none = parameter_server_staleness(8, 0);
    EXPECT_EQ(none.max(), 0);
    EXPECT_EQ(none.probability[0], 1);
    double mean = 0;
    for (const int bound : {1, 2, 4, 16}) {
        const StalenessDistribution d = parameter_server_staleness(8, bound);
        EXPECT_EQ(d.max(), bound * 7);
        EXPECT_NEAR(std::accumulate(d.probability.begin(), d.probability.end(), 0.0), 1, 1e-12);
        EXPECT_GT(d.mean(), mean);
        EXPECT_LT(d.mean(), 7);
        mean = d.mean();
    }
}

TEST(Staleness, Quantiles) {
    EXPECT_EQ(parameter_server_staleness(2, -1).quantile(0.5), 0);  // 1/2, 1/4, 1/8, ...
    EXPECT_EQ(parameter_server_staleness(2, -1).quantile(0.75), 1);
    EXPECT_EQ(parameter_server_staleness(2, -1).quantile(0.95), 4);
    EXPECT_EQ(parameter_server_staleness(8, 0).quantile(0.95), 0);
    EXPECT_EQ(parameter_server_staleness(8, 2).quantile(1), 14);
}

// What the instructions of a schedule name is what the papers say.
TEST(Staleness, OfSchedulesByTheirWeightVersions) {
    const auto of = [](const char* name, int stages) {
        ScheduleShape shape;
        shape.ranks = stages;
        shape.microbatches = 8;
        const auto order = generate_order(name, shape);
        EXPECT_TRUE(order) << (order ? "" : to_string(order.errors()));
        return schedule_staleness(lower(*order, name, {}));
    };
    for (const int stages : {2, 4, 5}) {
        const std::vector<int> stale = of("pipedream", stages);
        ASSERT_EQ(std::ssize(stale), stages);
        for (int s = 0; s < stages; ++s)
            EXPECT_EQ(stale[static_cast<std::size_t>(s)], pipedream_staleness(s, stages, false)) << s;
    }
    EXPECT_EQ(of("pipedream-2bw", 4), (std::vector<int>{1, 1, 1, 1}));
    EXPECT_EQ(of("1f1b", 4), (std::vector<int>{0, 0, 0, 0}));
}

TEST(Staleness, PipeDreamStages) {
    EXPECT_EQ(pipedream_staleness(0, 4, false), 3);
    EXPECT_EQ(pipedream_staleness(3, 4, false), 0);
    EXPECT_EQ(pipedream_staleness(3, 4, true), 3);
}

}  // namespace
}  // namespace tw
