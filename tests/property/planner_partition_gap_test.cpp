// How far the partitions that a search tries are from the best of all, and how far the uniform one: on models
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
    int ranks = 2;
    std::int64_t microbatch = 1, seq_len = 0;
    int virtual_stages = 1;
};

TEST(PartitionGap, TriedOnesAreCloseToTheBestOfAll) {
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
        {"gpt2-small", "h100:2", 2, 4, 0, 2},
        {"bert-base", "h100:2", 2, 4, 512, 3},
        {"llama3.2-1b", "h100:2", 2, 1, 4096, 2},
        {"llama3.2-1b", "h100:2", 2, 1, 4096, 3},
        {"gpt2-small", "h100:4", 4, 4, 0, 2},
    };
    double worst = 0;
    std::printf(
        "| model | cluster | stages | layers | partitions | best | tried | gap | min-max's gap | uniform's "
        "gap "
        "|\n");
    std::printf("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n");
    for (const Row& row : rows) {
        const auto environment = test::environment_of(row.model, row.cluster);
        const Simulator simulator(environment);
        PlanRequest request;
        request.global_batch = 4 * row.ranks * row.microbatch;
        request.seq_len = row.seq_len;
        request.constraints =
            parse_fix(fmt::format("tp=1,cp=1,pp={},mbs={},recompute=none", row.ranks, row.microbatch))
                .value();
        const SearchSpace space(*environment, request);
        ASSERT_EQ(space.meshes().size(), 1U) << row.model;
        const MeshChoice& mesh = space.meshes().front();
        const ScheduleGenerator& schedule =
            *find_schedule(row.virtual_stages > 1 ? "interleaved" : "1f1b").value();
        ParallelPlan plan = space.make_plan(mesh, ChunkChoice{row.virtual_stages}, schedule, ZeroChoice{});
        const std::vector<std::uint16_t> ranks = test::placement_of(schedule, plan);
        const auto shapes = test::shapes_of(simulator, request, space, mesh, plan.stages);
        const auto step = [&](const std::vector<StageSpec>& stages) {
            plan.stages = stages;
            return simulator.evaluate(plan)->step_time;
        };
        const SimTime uniform = step(plan.stages);
        const auto balanced = min_max_time_partitions(environment->graph, shapes, ranks, RecomputeMode::None);
        ASSERT_EQ(balanced.size(), 1U);
        const SimTime min_max = step(balanced.front());
        SimTime tried = std::min(uniform, min_max);
        for (const auto& stages :
             level_rank_partitions(environment->graph, shapes, ranks, RecomputeMode::None))
            tried = std::min(tried, step(stages));
        SimTime best = kNever;
        int all = 0;
        std::vector<int> cuts;
        for_all_cuts(environment->graph.size(), plan.stage_count(), cuts,
                     [&](const std::vector<StageSpec>& stages) {
                         best = std::min(best, step(stages));
                         ++all;
                     });
        const auto gap = [&](SimTime t) {
            return 100 * (static_cast<double>(t) / static_cast<double>(best) - 1);
        };
        EXPECT_GE(tried, best);
        worst = std::max(worst, gap(tried));
        const auto milliseconds = [](SimTime t) { return to_seconds(t).value * 1e3; };
        std::printf(
            "%s\n",
            fmt::format("| {} | {} | {}{} | {} | {} | {:.3f} ms | {:.3f} ms | {:.2f} % | {:.2f} % | {:.2f} "
                        "% |",
                        row.model, row.cluster, row.ranks,
                        row.virtual_stages > 1 ? fmt::format(" x {}", row.virtual_stages) : "",
                        environment->graph.size(), all, milliseconds(best), milliseconds(tried), gap(tried),
                        gap(min_max), gap(uniform))
                .c_str());
    }
    EXPECT_LT(worst, 3.0);
    RecordProperty("worst_gap_percent", std::to_string(worst));
}

}  // namespace
}  // namespace tw
