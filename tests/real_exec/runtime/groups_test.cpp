#include "real_exec/runtime/groups.hpp"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/real_exec/runtime/failing_group.hpp"
#include "tests/real_exec/runtime/train_harness.hpp"

namespace tw::testing {
namespace {

class CountingTransport final : public Transport {
  public:
    [[nodiscard]] int rank() const override { return 0; }
    [[nodiscard]] int size() const override { return 1; }
    Result<std::unique_ptr<Communicator>> create(std::string name, std::span<const int> ranks) override {
        if (ranks.size() > 1) created.insert(name);
        return std::unique_ptr<Communicator>(std::make_unique<FailingGroup>());
    }
    Result<std::unique_ptr<Communicator>> create_for_messages(std::string name, std::span<const int> ranks,
                                                              std::span<const Route> ways) override {
        if (ranks.size() > 1) for_messages.insert(std::move(name));
        for (const Route& way : ways)
            routes.emplace_back(way.from, way.to);
        return std::unique_ptr<Communicator>(std::make_unique<FailingGroup>());
    }
    void progress() override {}
    [[noreturn]] void abort(int, std::string_view message) override {
        throw std::runtime_error(std::string(message));
    }
    std::multiset<std::string> created, for_messages;  // of more than one rank
    std::vector<std::pair<int, int>> routes;
};

struct Made {
    std::multiset<std::string> names, for_messages;
    std::vector<std::pair<int, int>> routes;
    Groups groups;
};

Made make(const RunSetup& setup, const Groups::Options& options) {
    const PlanDocument document = document_of(setup);
    const auto schedule = executed_schedule(document.graph, document.plan, 1);
    EXPECT_TRUE(schedule);
    const auto layout = RankLayout::make(document.plan, document.cluster, schedule->ranks(), 0);
    EXPECT_TRUE(layout);
    CountingTransport transport;
    auto groups = Groups::create(transport, *layout, *schedule, options);
    EXPECT_TRUE(groups);
    return {std::move(transport.created), std::move(transport.for_messages), std::move(transport.routes),
            std::move(*groups)};
}

using Names = std::multiset<std::string>;

// A communicator takes a GPU's memory and connections: none is opened that nobody uses.
TEST(Groups, OpenWhatThePlanUses) {
    RunSetup setup;
    setup.mesh.dp = 4;
    const Made replicas = make(setup, {});
    EXPECT_EQ(replicas.names, (Names{"dp", "world"}));
    EXPECT_EQ(&replicas.groups.norm(), replicas.groups.world.get());
    EXPECT_EQ(&replicas.groups.replicas(0, true), replicas.groups.dp.get());

    const Made layers = make(setup, {.layer_by_layer = true});
    EXPECT_EQ(layers.names, (Names{"dp", "dp layer by layer", "world"}));
    EXPECT_EQ(layers.groups.layer_shards(true).shard, layers.groups.layer_dp.get());

    const Made cut = make(setup, {.shard = 2, .layer_by_layer = true});
    EXPECT_EQ(cut.names, (Names{"dp layer by layer shards", "dp layer by layer shards", "dp shards",
                                "dp shards", "world"}));
    EXPECT_EQ(cut.for_messages, (Names{"dp", "dp layer by layer"}));  // they move nothing
    EXPECT_EQ(cut.groups.shards(0, true).shard, cut.groups.dp_cut.shard.get());
    EXPECT_EQ(cut.groups.layer_shards(true).copies, cut.groups.layer_dp_cut.copies.get());

    setup.family = Family::Moe;
    setup.tied = false;
    setup.mesh.ep = 2;
    const Made experts = make(setup, {.layer_by_layer = true, .experts = true});
    EXPECT_EQ(experts.names, (Names{"dp", "dp layer by layer", "edp", "edp layer by layer", "ep", "world"}));
    EXPECT_EQ(&experts.groups.replicas(0, true), experts.groups.edp.get());
    EXPECT_EQ(experts.groups.layer_shards(true).shard, experts.groups.layer_edp.get());
    EXPECT_EQ(experts.groups.layer_shards(false).shard, experts.groups.layer_dp.get());
}

TEST(Groups, OfTensorParallelRanks) {
    RunSetup setup;
    setup.mesh.tp = 2;
    setup.mesh.dp = 2;
    EXPECT_EQ(make(setup, {}).names, (Names{"dp", "tp", "world"}));
}

// A pipeline's ranks have ways to their neighbours and no communicator of all of them.
TEST(Groups, OfAPipeline) {
    RunSetup setup;
    setup.family = Family::Llama;
    setup.tied = false;
    setup.mesh.pp = 4;
    const Made made = make(setup, {});
    EXPECT_EQ(made.names, (Names{"world"}));
    EXPECT_EQ(made.for_messages, (Names{"pp"}));
    EXPECT_EQ(made.routes,
              (std::vector<std::pair<int, int>>{{0, 1}, {1, 0}, {1, 2}, {2, 1}, {2, 3}, {3, 2}}));
    setup.family = Family::Gpt;
    setup.tied = true;
    EXPECT_EQ(make(setup, {}).names, (Names{"tied embeddings", "world"}));
}

// Replicas that step by themselves have norms of their own.
TEST(Groups, NormsOfReplicas) {
    RunSetup setup;
    setup.mesh.dp = 2;
    setup.mesh.pp = 2;
    const Made made = make(setup, {.replica_norms = true});
    EXPECT_EQ(made.names.count("norm"), 1U);
    EXPECT_EQ(&made.groups.norm(), made.groups.replica_norm.get());
}

}  // namespace
}  // namespace tw::testing
