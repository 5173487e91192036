// A predicted step as Chakra traces, read back by our own reader.
#include <map>
#include <tuple>

#include <gtest/gtest.h>

#include "base/json.hpp"
#include "models/load_model.hpp"
#include "plan/stage_partition.hpp"
#include "plan/trace/chakra.hpp"
#include "sim/simulator.hpp"

namespace tw {
namespace {

struct Exported {
    std::shared_ptr<const Environment> environment;
    SimulationReport report;
    std::vector<std::vector<ChakraNode>> ranks;  // as read back
    std::string groups;
};

Exported exported(const std::string& model, const std::string& cluster, ParallelPlan plan) {
    Exported e;
    e.environment = *make_environment(load_model(model)->graph, load_cluster(cluster).value());
    plan.seq_len = e.environment->graph.default_seq_len;
    plan.stages = uniform_partition(e.environment->graph, plan.mesh.pp * plan.virtual_stages, plan.recompute);
    plan.global_batch = plan.microbatch * plan.microbatches * plan.mesh.dp;
    const Simulator simulator(e.environment);
    auto report = simulator.simulate(plan, {.trace = true});
    EXPECT_TRUE(report) << to_string(report.errors());
    if (!report) return e;
    e.report = std::move(*report);
    const auto prepared = simulator.prepare(e.report.plan);
    EXPECT_TRUE(prepared);
    const RankPlacement placement = place_plan(e.environment->cluster, e.report.plan);
    const auto traces = ChakraExport::make(e.environment->graph, e.report.plan, placement,
                                           prepared->lowered->schedule, e.report.trace);
    EXPECT_TRUE(traces) << to_string(traces.errors());
    for (int r = 0; traces && r < traces->ranks(); ++r) {
        auto nodes = read_chakra(traces->file(r), "t.et");
        EXPECT_TRUE(nodes) << to_string(nodes.errors());
        EXPECT_EQ(*nodes, traces->nodes(r)) << r;
        e.ranks.push_back(std::move(*nodes));
    }
    if (traces) e.groups = traces->groups();
    return e;
}

ParallelPlan pipeline() {
    ParallelPlan plan;
    plan.mesh.pp = 4, plan.mesh.dp = 2;
    plan.microbatches = 6;
    return plan;
}

template <class T>
T attribute(const ChakraNode& node, std::string_view name) {
    for (const ChakraAttribute& a : node.attributes) {
        if (a.name == name) {
            const T* value = std::get_if<T>(&a.value);
            EXPECT_NE(value, nullptr) << name << " has another type";
            return value == nullptr ? T{} : *value;
        }
    }
    ADD_FAILURE() << node.name << " has no " << name;
    return T{};
}

TEST(ChakraExport, EveryRankHasItsStep) {
    const Exported e = exported("llama3-8b", "h100:8", pipeline());
    ASSERT_EQ(e.ranks.size(), 8U);
    for (const std::vector<ChakraNode>& nodes : e.ranks) {
        std::map<std::uint64_t, std::uint64_t> end;  // by id
        double flops = 0;
        int forwards = 0, updates = 0;
        for (const ChakraNode& node : nodes) {
            EXPECT_GT(node.duration_us, 0U) << node.name;
            EXPECT_FALSE(attribute<bool>(node, "is_cpu_op"));
            for (const std::uint64_t id : node.data_dependencies) {
                ASSERT_TRUE(end.count(id) == 1) << node.name << " depends on a later node";
                EXPECT_LE(end[id], node.start_us + 2) << node.name;  // whole microseconds
            }
            end[node.id] = node.start_us + node.duration_us;
            if (node.type != ChakraType::Compute) continue;
            forwards += node.name.starts_with("F ") ? 1 : 0;
            const bool update = node.name.starts_with("optimizer step");
            updates += update ? 1 : 0;
            if (!update) flops += static_cast<double>(attribute<std::int64_t>(node, "num_ops"));
        }
        EXPECT_EQ(forwards, 6);
        EXPECT_EQ(updates, 1);
        // Six microbatches of a quarter of the model and a little more: norms and losses count here.
        EXPECT_NEAR(flops / (e.report.model_flops / 8), 1, 0.35);
    }
}

// Every send has its receive: the same ends, tag and size.
TEST(ChakraExport, MessagesMeet) {
    const Exported e = exported("llama3-8b", "h100:8", pipeline());
    using Key = std::tuple<std::int32_t, std::int32_t, std::int32_t, std::int64_t>;
    std::map<Key, int> sent, received;
    for (std::size_t r = 0; r < e.ranks.size(); ++r) {
        for (const ChakraNode& node : e.ranks[r]) {
            if (node.type != ChakraType::Send && node.type != ChakraType::Receive) continue;
            const bool send = node.type == ChakraType::Send;
            const Key key{
                attribute<std::int32_t>(node, "comm_src"), attribute<std::int32_t>(node, "comm_dst"),
                attribute<std::int32_t>(node, "comm_tag"), attribute<std::int64_t>(node, "comm_size")};
            EXPECT_EQ(send ? std::get<0>(key) : std::get<1>(key), static_cast<int>(r));
            ++(send ? sent : received)[key];
        }
    }
    EXPECT_EQ(sent.size(), 2U * 6 * 3 * 2);  // replicas, microbatches, boundaries, both ways
    EXPECT_EQ(sent, received);
    for (const auto& [key, count] : sent)
        EXPECT_EQ(count, 1);
}

// Ranks of one group have the same collectives in the same order; groups name their ranks.
TEST(ChakraExport, CollectivesMeet) {
    ParallelPlan plan = pipeline();
    plan.zero_stage = 1;
    const Exported e = exported("llama3-8b", "h100:8", plan);
    const Json groups = Json::parse(e.groups);
    std::map<std::string, std::map<int, std::string>> calls;
    for (std::size_t r = 0; r < e.ranks.size(); ++r) {
        for (const ChakraNode& node : e.ranks[r]) {
            if (node.type != ChakraType::Collective) continue;
            EXPECT_GT(attribute<std::int64_t>(node, "comm_size"), 0) << node.name;
            calls[attribute<std::string>(node, "pg_name")][static_cast<int>(r)] +=
                std::to_string(attribute<std::int64_t>(node, "comm_type")) + ":" +
                std::to_string(attribute<std::int64_t>(node, "comm_size")) + " ";
        }
    }
    ASSERT_FALSE(calls.empty());
    for (const auto& [name, ranks] : calls) {
        ASSERT_TRUE(groups.contains(name)) << name;
        std::vector<int> members;
        for (const auto& [rank, text] : ranks) {
            members.push_back(rank);
            EXPECT_EQ(text, ranks.begin()->second) << "group " << name;
        }
        EXPECT_EQ(groups[name].get<std::vector<int>>(), members);
    }
}

TEST(ChakraExport, ScheduleOfVirtualStages) {
    ParallelPlan plan = pipeline();
    plan.schedule = "interleaved";
    plan.virtual_stages = 2;
    plan.microbatches = 8;
    const Exported e = exported("llama3-8b", "h100:8", plan);
    ASSERT_EQ(e.ranks.size(), 8U);
    for (const auto& nodes : e.ranks)
        EXPECT_GT(nodes.size(), 8U * 2 * 2);
}

TEST(ChakraExport, StagesWithReplicasAreRefused) {
    const auto environment =
        *make_environment(load_model("llama3-8b")->graph, load_cluster("h100:8").value());
    ParallelPlan plan;
    plan.stages = uniform_partition(environment->graph, 1, RecomputeMode::None);
    plan.stages[0].replicas = 8;
    ParallelPlan plain = plan;
    plain.stages[0].replicas = 1;
    plain.mesh.dp = 8;
    const RankPlacement placement = place_plan(environment->cluster, plain);
    EXPECT_FALSE(ChakraExport::make(environment->graph, plan, placement, Schedule{}, Trace{}));
}

}  // namespace
}  // namespace tw
