#include "real_exec/runtime/stragglers.hpp"

#include <gtest/gtest.h>

#include "plan/trace/stragglers.hpp"
#include "plan/trace/trace_json.hpp"
#include "tests/real_exec/runtime/train_harness.hpp"
#include "tests/support/temporary_folder.hpp"

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

// A rank that sleeps is found in the trace, wherever the others wait for it: at their all-reduce, for its
// activations and gradients, inside of tensor-parallel layers, for its shard of the parameters.
TEST(Stragglers, TracesOfRunsNameTheSlowRankAlone) {
    struct Layout {
        DeviceMesh mesh;
        int zero = 0;
        int slow = 0;
    };
    for (const Layout& layout :
         {Layout{.mesh = {.dp = 2, .pp = 2}, .slow = 1}, Layout{{.dp = 2, .pp = 2}, 0, 2},
          Layout{{.dp = 2, .tp = 2}, 0, 3}, Layout{{.dp = 3}, 3, 1}}) {
        const TemporaryFolder folder;
        testing::RunSetup setup;
        setup.mesh = layout.mesh;
        setup.zero = layout.zero;
        setup.global_batch = 12;
        TrainOptions options = testing::options_of(4);
        options.trace = (folder.path() / "trace.json").string();
        options.faults = {{.kind = Fault::Kind::Slow, .rank = layout.slow, .ms = 400}};
        (void)testing::run_threads(testing::document_of(setup), options);
        const auto trace = read_trace(options.trace);
        ASSERT_TRUE(trace) << to_string(trace.errors());
        const Arrivals arrivals = analyze_arrivals(*trace, {.first_step = 1, .threshold = 0, .least_s = 0.2});
        EXPECT_EQ(arrivals.stragglers, (std::vector<int>{layout.slow}))
            << "pp " << layout.mesh.pp << " tp " << layout.mesh.tp << " zero " << layout.zero;
        for (const RankArrivals& rank : arrivals.ranks) {
            if (rank.rank == layout.slow) {
                EXPECT_NEAR(rank.own_s, 0.4, 0.1) << rank.rank;
            } else {
                EXPECT_LT(rank.own_s, 0.1) << rank.rank;
            }
        }
    }
}

}  // namespace
}  // namespace tw
