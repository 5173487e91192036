// How far the min-max partition is from the best of all partitions, and how far the uniform one: on models
// small enough to try every one. Prints the table of docs/results/partition_gap.md.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/planner/planner_fixtures.hpp"

namespace tw {
namespace {

// Calls visit(stages) for every way to cut `layers` into `parts`.
template <class Visit>
void for_all_cuts(int layers, int parts, std::vector<int>& cuts, const Visit& visit) {
    const int from = cuts.empty() ? 0 : cuts.back();
    if (parts == 1) {
        std::vector<StageSpec> stages;
        int first = 0;
        for (const int cut : cuts) {
            stages.push_back({first, cut});
            first = cut;
        }
        stages.push_back({first, layers});
        visit(stages);
        return;
    }
    for (int cut = from + 1; cut <= layers - parts + 1; ++cut) {
        cuts.push_back(cut);
        for_all_cuts(layers, parts - 1, cuts, visit);
        cuts.pop_back();
    }
}

struct Row {
    std::string model, cluster;
    int stages = 2;
    std::int64_t microbatch = 1, seq_len = 0;
};

TEST(PartitionGap, MinMaxIsCloseToTheBestOfAll) {
    const std::vector<Row> rows = {
        {"gpt2-tiny", "h100:2", 2, 8},
        {"gpt2-tiny", "h100:4", 4, 8},
        {"gpt2-small", "h100:2", 2, 4},
        {"gpt2-small", "h100:4", 4, 4},
        {"gpt2-small", "rtx4090-pcie:4", 4, 4},
        {"bert-base", "h100:4", 4, 4, 512},
        {"llama3.2-1b", "h100:2", 2, 1, 4096},
        {"llama3.2-1b", "h100:4", 4, 1, 4096},
        {"llama3.2-1b", "a100:4", 4, 1, 4096},
        {"llama3.2-1b", "rtx4090-pcie:4", 4, 1, 2048},
        {"vgg16", "a100:2", 2, 32},
        {"vgg16", "a100:4", 4, 32},
        {"resnet50", "a100:2", 2, 32},
        {"resnet50", "a100:4", 4, 32},
    };
    double worst = 0;
    std::printf(
        "| model | cluster | stages | layers | partitions | best | min-max | gap | uniform's gap |\n");
    std::printf("|---|---|---:|---:|---:|---:|---:|---:|---:|\n");
    for (const Row& row : rows) {
        const auto environment = test::environment_of(row.model, row.cluster);
        const Simulator simulator(environment);
        PlanRequest request;
        request.global_batch = 4 * row.stages * row.microbatch;
        request.seq_len = row.seq_len;
        request.constraints =
            parse_fix(fmt::format("tp=1,cp=1,pp={},vpp=1,mbs={},schedule=1f1b,recompute=none", row.stages,
                                  row.microbatch))
                .value();
        const SearchSpace space(*environment, request);
        ASSERT_EQ(space.meshes().size(), 1U) << row.model;
        const MeshChoice& mesh = space.meshes().front();
        ParallelPlan plan =
            space.make_plan(mesh, ChunkChoice{}, *find_schedule("1f1b").value(), ZeroChoice{});
        const auto step = [&](const std::vector<StageSpec>& stages) {
            plan.stages = stages;
            return simulator.evaluate(plan)->step_time;
        };
        const SimTime uniform = step(plan.stages);
        const auto balanced = min_max_time_partitions(
            environment->graph, test::shapes_of(simulator, request, space, mesh, plan.stages),
            RecomputeMode::None);
        ASSERT_EQ(balanced.size(), 1U);
        const SimTime min_max = step(balanced.front());
        SimTime best = kNever;
        int tried = 0;
        std::vector<int> cuts;
        for_all_cuts(environment->graph.size(), row.stages, cuts, [&](const std::vector<StageSpec>& stages) {
            best = std::min(best, step(stages));
            ++tried;
        });
        const auto gap = [&](SimTime t) {
            return 100 * (static_cast<double>(t) / static_cast<double>(best) - 1);
        };
        EXPECT_GE(min_max, best);
        worst = std::max(worst, gap(min_max));
        const auto milliseconds = [](SimTime t) { return to_seconds(t).value * 1e3; };
        std::printf("%s\n",
                    fmt::format("| {} | {} | {} | {} | {} | {:.3f} ms | {:.3f} ms | {:.2f} % | {:.2f} % |",
                                row.model, row.cluster, row.stages, environment->graph.size(), tried,
                                milliseconds(best), milliseconds(min_max), gap(min_max), gap(uniform))
                        .c_str());
    }
    EXPECT_LT(worst, 5.0);
    RecordProperty("worst_gap_percent", std::to_string(worst));
}

}  // namespace
}  // namespace tw
