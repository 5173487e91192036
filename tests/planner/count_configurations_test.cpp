// Counted configurations against partitions that are made.
#include "planner/count_configurations.hpp"

#include <set>

#include <gtest/gtest.h>

#include "tests/planner/planner_fixtures.hpp"

namespace tw {
namespace {

TEST(CountConfigurations, EqualsThePartitionsThatAreMade) {
    Prng random(20250216);
    std::vector<std::shared_ptr<const Environment>> environments = {
        test::environment_of("llama3.2-1b", "h100:16"), test::environment_of("gpt3-175b", "a100:1024")};
    for (int i = 0; i < 6; ++i)
        environments.push_back(test::environment_of(test::random_model(random, 24), "a100:32"));
    int uneven = 0, alone = 0, levelled = 0;
    for (const auto& environment : environments) {
        PlanRequest request;
        request.global_batch = environment->cluster.devices() * 2;
        const SearchSpace space(*environment, request);
        const Simulator simulator(environment);
        ConfigurationCounter counter(*environment, space);
        for (int draw = 0; draw < 40; ++draw) {
            const MeshChoice& mesh = test::pick(random, space.meshes());
            const auto chunks = space.chunks(mesh);
            if (chunks.empty()) continue;
            const ChunkChoice& chunk = test::pick(random, chunks);
            const auto schedules = space.schedules(mesh, chunk.virtual_stages);
            const auto shapes = test::shapes_of(simulator, request, space, mesh,
                                                space.make_plan(mesh, chunk, *schedules.front(), {}).stages);
            std::size_t pairs = 0;  // of a schedule and a partition
            for (const ScheduleGenerator* schedule : schedules) {
                const ParallelPlan plan = space.make_plan(mesh, chunk, *schedule, {});
                std::size_t partitions = 1;
                if (space.has_partitions(mesh, chunk)) {
                    partitions =
                        distinct_partitions(environment->graph, shapes, test::placement_of(*schedule, plan),
                                            plan.stages, chunk.recompute)
                            .size();
                    (partitions > 1 ? uneven : alone) += 1;
                    levelled += partitions > 2;
                }
                pairs += partitions;
            }
            const ConfigurationCount count = counter.below(mesh, chunk, *shapes.front());
            EXPECT_EQ(count.plans, static_cast<std::int64_t>(pairs * space.zeros(mesh).size()));
            EXPECT_EQ(count.uniform_only, 0);
        }
        const MeshChoice& mesh = test::pick(random, space.meshes());
        const auto shape = test::shapes_of(simulator, request, space, mesh, {StageSpec{}}).front();
        std::int64_t sum = 0;
        for (const ChunkChoice& chunk : space.chunks(mesh))
            sum += counter.below(mesh, chunk, *shape).plans;
        EXPECT_EQ(counter.below(mesh, *shape).plans, sum);
    }
    EXPECT_GE(uneven, 20);
    EXPECT_GE(alone, 5);
    EXPECT_GE(levelled, 20);
}

TEST(CountConfigurations, SaysWhatItDoesNotCountOnMixedClusters) {
    const auto plain = test::environment_of("llama3.2-1b", "h100:8");
    Cluster machines = plain->cluster;
    machines.groups.push_back(load_cluster("l40s:8").value().groups.front());
    const auto environment = *make_environment(plain->graph, machines);
    PlanRequest request;
    request.global_batch = 16;
    const SearchSpace space(*environment, request);
    const Simulator simulator(environment);
    ConfigurationCounter counter(*environment, space);
    const auto mesh = std::find_if(space.meshes().begin(), space.meshes().end(),
                                   [](const MeshChoice& m) { return m.mesh.pp > 1; });
    ASSERT_NE(mesh, space.meshes().end());
    const auto shape = test::shapes_of(simulator, request, space, *mesh, {StageSpec{}}).front();
    const ConfigurationCount count = counter.below(*mesh, *shape);
    EXPECT_EQ(count.plans, space.leaves(*mesh));
    EXPECT_GT(count.uniform_only, 0);
}

}  // namespace
}  // namespace tw
