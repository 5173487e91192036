#include "plan/stage_partition.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "base/prng.hpp"
#include "tests/plan/plan_fixtures.hpp"
#include "tests/support/test_scale.hpp"

namespace tw {
namespace {

using testing::make_model;
using testing::ModelShape;

std::vector<int> uniform(int blocks, int stages) {
    const LayerGraph graph = make_model({.blocks = blocks});
    return blocks_per_stage(graph, uniform_partition(graph, stages, RecomputeMode::None));
}

TEST(UniformPartition, GivesTheRemainderToTheMiddle) {
    EXPECT_EQ(uniform(30, 4), (std::vector<int>{7, 8, 8, 7}));
    EXPECT_EQ(uniform(46, 4), (std::vector<int>{11, 12, 12, 11}));
    EXPECT_EQ(uniform(32, 4), (std::vector<int>{8, 8, 8, 8}));
    EXPECT_EQ(uniform(61, 8), (std::vector<int>{7, 8, 8, 8, 8, 8, 7, 7}));
    EXPECT_EQ(uniform(3, 4), (std::vector<int>{1, 1, 1, 0}));
}

TEST(UniformPartition, FortyTwoLayersOnSixteenStagesLeaveNoneEmpty) {
    const std::vector<int> counts = uniform(42, 16);
    EXPECT_EQ(std::count(counts.begin(), counts.end(), 3), 10);
    EXPECT_EQ(std::count(counts.begin(), counts.end(), 2), 6);
}

TEST(UniformPartition, EmbeddingJoinsTheFirstStageAndHeadTheLast) {
    const LayerGraph graph = make_model({.blocks = 6});
    const std::vector<StageSpec> stages = uniform_partition(graph, 3, RecomputeMode::Full);
    EXPECT_EQ(stages[0].first_layer, 0);
    EXPECT_EQ(stages[0].last_layer, 3);
    EXPECT_EQ(stages[1].last_layer, 5);
    EXPECT_EQ(stages[2].last_layer, 8);
    EXPECT_EQ(stages[2].recompute, RecomputeMode::Full);
}

TEST(UniformPartition, EveryLayerOnceWhateverTheSizes) {
    for (int blocks = 0; blocks <= 20; ++blocks) {
        const LayerGraph graph = make_model({.blocks = blocks});
        for (int stages = 1; stages <= 8; ++stages) {
            int next = 0, low = blocks, high = 0;
            for (const StageSpec& stage : uniform_partition(graph, stages, RecomputeMode::None)) {
                EXPECT_EQ(stage.first_layer, next);
                EXPECT_GE(stage.last_layer, stage.first_layer);
                next = stage.last_layer;
            }
            EXPECT_EQ(next, graph.size());
            if (blocks == 0) continue;
            for (const int count : uniform(blocks, stages)) {
                low = std::min(low, count);
                high = std::max(high, count);
            }
            EXPECT_LE(high - low, 1);
        }
    }
}

TEST(ExplicitPartition, AcceptsEndsThatHoldEmbeddingOrHeadAlone) {  // E|...|L
    const LayerGraph graph = make_model({.blocks = 4});
    const auto stages = explicit_partition(graph, std::vector<int>{0, 2, 2, 0}, RecomputeMode::None);
    ASSERT_TRUE(stages.has_value());
    EXPECT_EQ((*stages)[0].last_layer, 1);
    EXPECT_EQ((*stages)[3].first_layer, 5);
    EXPECT_EQ((*stages)[3].last_layer, 6);
    EXPECT_EQ(blocks_per_stage(graph, *stages), (std::vector<int>{0, 2, 2, 0}));
}

TEST(ExplicitPartition, RefusesSumsThatLoseLayers) {
    const LayerGraph thirty = make_model({.blocks = 30});  // four stages of 7 train 28 layers
    const auto lost = explicit_partition(thirty, std::vector<int>{7, 7, 7, 7}, RecomputeMode::None);
    ASSERT_FALSE(lost.has_value());
    EXPECT_EQ(lost.error().message, "the stages hold 28 layers (7,7,7,7), the model has 30");
    EXPECT_EQ(lost.error().hint, "a legal split is 7,8,8,7");

    const LayerGraph eighty = make_model({.blocks = 80});  // 32 virtual stages of 2 train 64 layers
    const auto half = explicit_partition(eighty, std::vector<int>(32, 2), RecomputeMode::None);
    ASSERT_FALSE(half.has_value());
    EXPECT_NE(half.error().message.find("hold 64 layers"), std::string::npos);

    EXPECT_EQ(explicit_partition(thirty, std::vector<int>{31, -1}, RecomputeMode::None).errors().size(), 1U);
    EXPECT_FALSE(explicit_partition(thirty, {}, RecomputeMode::None).has_value());
}

TEST(TorchtitanSplit, MatchesItsOwn) {
    EXPECT_EQ(torchtitan_split(27, 4), (std::vector<int>{7, 7, 7, 6}));
    EXPECT_EQ(torchtitan_split(61, 8), (std::vector<int>{7, 8, 8, 8, 8, 8, 8, 6}));
    EXPECT_EQ(torchtitan_split(80, 8), (std::vector<int>{10, 11, 10, 10, 10, 10, 10, 9}));
    EXPECT_EQ(torchtitan_split(32, 4), (std::vector<int>{8, 9, 8, 7}));
    EXPECT_TRUE(torchtitan_split(2, 4).empty());
}

// The bottleneck of a split, or infinity where a part is too large for its stage.
double bottleneck(const std::vector<double>& weights, const std::vector<double>& bytes,
                  const std::vector<double>& capacity, const std::vector<int>& bounds) {
    double worst = 0;
    for (std::size_t s = 0; s + 1 < bounds.size(); ++s) {
        const auto sum = [&](const std::vector<double>& values) {
            return std::accumulate(values.begin() + bounds[s], values.begin() + bounds[s + 1], 0.0);
        };
        worst = std::max(worst, sum(weights));
        if (!capacity.empty() && sum(bytes) > capacity[s]) return std::numeric_limits<double>::infinity();
    }
    return worst;
}

// Every split in lexicographic order.
void each_split(int layers, int stages, std::vector<int>& bounds,
                const std::function<void(const std::vector<int>&)>& visit) {
    const int left = stages - static_cast<int>(bounds.size()) + 1;
    if (left == 1) {
        bounds.push_back(layers);
        visit(bounds);
        bounds.pop_back();
        return;
    }
    for (int end = bounds.back() + 1; end <= layers - left + 1; ++end) {
        bounds.push_back(end);
        each_split(layers, stages, bounds, visit);
        bounds.pop_back();
    }
}

TEST(MinMaxPartition, EqualsTheBestOfAllSplits) {
    Prng random(7);
    int infeasible = 0;
    for (int round = 0; round < scaled(400); ++round) {
        const int layers = static_cast<int>(random.integer(1, 10));
        const int stages = static_cast<int>(random.integer(1, std::min(layers, 5)));
        const bool limited = random.integer(0, 1) == 1;
        std::vector<double> weights, bytes, capacity;
        for (int i = 0; i < layers; ++i) {
            weights.push_back(static_cast<double>(random.integer(0, 9)));
            bytes.push_back(static_cast<double>(random.integer(1, 9)));
        }
        for (int s = 0; limited && s < stages; ++s)
            capacity.push_back(static_cast<double>(random.integer(5, 30)));
        double best = std::numeric_limits<double>::infinity();
        std::vector<int> first;
        std::vector<int> start{0};
        each_split(layers, stages, start, [&](const std::vector<int>& bounds) {
            const double cost = bottleneck(weights, bytes, capacity, bounds);
            if (cost < best) {
                best = cost;
                first = bounds;
            }
        });
        infeasible += first.empty() ? 1 : 0;
        EXPECT_EQ(min_max_partition(weights, stages, bytes, capacity), first) << "round " << round;
    }
    EXPECT_GT(infeasible, 5);
    EXPECT_LT(infeasible, 200);
}

// Without capacities another algorithm answers; capacities that never bind ask the dynamic programme.
TEST(MinMaxPartition, IsTheSameWithCapacitiesThatNeverBind) {
    Prng random(11);
    for (int round = 0; round < scaled(500); ++round) {
        const int layers = static_cast<int>(random.integer(1, 40));
        const int stages = static_cast<int>(random.integer(1, layers));
        const std::int64_t range = random.integer(0, 1) == 1 ? 3 : 1'000'000'000'000;
        std::vector<double> weights;
        for (int i = 0; i < layers; ++i)
            weights.push_back(static_cast<double>(random.integer(0, range)) / 7);
        const std::vector<double> bytes(weights.size(), 0.0);
        const std::vector<double> capacity(static_cast<std::size_t>(stages), 1.0);
        EXPECT_EQ(min_max_partition(weights, stages), min_max_partition(weights, stages, bytes, capacity))
            << "round " << round;
    }
}

TEST(MinMaxPartition, ByStageEqualsTheBestOfAllSplits) {
    Prng random(13);
    for (int round = 0; round < scaled(400); ++round) {
        const int layers = static_cast<int>(random.integer(1, 10));
        const int stages = static_cast<int>(random.integer(1, std::min(layers, 5)));
        std::vector<std::vector<double>> weights(static_cast<std::size_t>(stages));
        for (auto& of_stage : weights) {
            for (int i = 0; i < layers; ++i)
                of_stage.push_back(static_cast<double>(random.integer(0, 9)));
        }
        double best = std::numeric_limits<double>::infinity();
        std::vector<int> first;
        std::vector<int> start{0};
        each_split(layers, stages, start, [&](const std::vector<int>& bounds) {
            double cost = 0;
            for (std::size_t s = 0; s + 1 < bounds.size(); ++s) {
                const auto begin = weights[s].begin();
                cost = std::max(cost, std::accumulate(begin + bounds[s], begin + bounds[s + 1], 0.0));
            }
            if (cost < best) {
                best = cost;
                first = bounds;
            }
        });
        EXPECT_EQ(min_max_partition_by_stage(weights), first) << "round " << round;
    }
    EXPECT_TRUE(min_max_partition_by_stage(std::vector<std::vector<double>>(3, {1.0, 1.0})).empty());
}

// Four stages of the slow device, four of one twice as fast: 40 equal blocks go 3 or 4 and 6 or 7 to a stage.
TEST(MinMaxPartition, GivesFasterDevicesMoreLayers) {
    std::vector<std::vector<double>> weights;
    for (int s = 0; s < 8; ++s)
        weights.emplace_back(40, s < 4 ? 2.0 : 1.0);
    const std::vector<int> bounds = min_max_partition_by_stage(weights);
    ASSERT_EQ(bounds.size(), 9U);
    for (std::size_t s = 0; s < 8; ++s) {
        EXPECT_LE((bounds[s + 1] - bounds[s]) * weights[s].front(), 7.0 + 1.0);
    }
    EXPECT_LE(bounds[4], 16);
}

TEST(MinMaxPartition, WeighsEmbeddingAndHead) {
    // 80 blocks of 1, an embedding of 0.1 and a head of 1.23 (the head of Llama-3 70B against one of
    // its blocks).
    std::vector<double> weights(82, 1.0);
    weights.front() = 0.1;
    weights.back() = 1.23;
    const std::vector<int> bounds = min_max_partition(weights, 8);
    ASSERT_EQ(bounds.size(), 9U);
    EXPECT_DOUBLE_EQ(bottleneck(weights, {}, {}, bounds),
                     11.0);                // ten blocks each would be 11.23 beside the head
    EXPECT_EQ(bounds[8] - bounds[7], 10);  // nine blocks and the head
    EXPECT_TRUE(min_max_partition(weights, 83).empty());
}

}  // namespace
}  // namespace tw
