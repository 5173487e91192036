#include "real_exec/runtime/stragglers.hpp"

#include <gtest/gtest.h>

namespace tw {
namespace {

RankPace pace(int rank, int pipeline_rank, double busy_s, double first_s = 0) {
    RankPace one{rank, pipeline_rank, std::vector<double>(8, busy_s)};
    if (first_s > 0) one.busy_s[0] = first_s;
    return one;
}

TEST(Stragglers, AReplicaThatIsSlowerThanItsPeersIsNamed) {
    const auto note = name_straggler({pace(0, 0, 0.1), pace(1, 0, 0.3), pace(2, 0, 0.1)});
    ASSERT_TRUE(note);
    EXPECT_EQ(
        *note,
        "rank 1 holds the others up: it is busy for 300.0 ms a step, those with the same work for 100.0 ms "
        "at most");
}

TEST(Stragglers, ALargerStageIsNone) {
    // Stage 1 has the head: 60 % more work, on both of its replicas.
    EXPECT_FALSE(name_straggler({pace(0, 0, 0.1), pace(1, 0, 0.1), pace(2, 1, 0.16), pace(3, 1, 0.16)}));
    EXPECT_FALSE(name_straggler({pace(0, 0, 0.1), pace(1, 1, 0.16)}));
    EXPECT_TRUE(name_straggler({pace(0, 0, 0.1), pace(1, 1, 0.3)}));
}

TEST(Stragglers, OneSlowStepAndShortRunsAreNone) {
    EXPECT_FALSE(name_straggler({pace(0, 0, 0.1), pace(1, 0, 0.1, 5.0)}));
    EXPECT_FALSE(name_straggler({pace(0, 0, 0.1), {1, 0, {0.3, 0.3, 0.3}}}));
    EXPECT_FALSE(name_straggler({pace(0, 0, 0.001), pace(1, 0, 0.003)}));  // a preempted process
    EXPECT_FALSE(name_straggler({pace(0, 0, 0.1)}));
    EXPECT_FALSE(name_straggler({}));
}

}  // namespace
}  // namespace tw
