#include "plan/trace/stragglers.hpp"

#include <gtest/gtest.h>

#include "plan/trace/trace_json.hpp"
#include "tests/real_exec/runtime/train_harness.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tw {
namespace {

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

// The note at a run's end and the trace of the same run name the same rank, by the same excess.
TEST(Stragglers, ARunsNoteAndItsTraceAgree) {
    const TemporaryFolder folder;
    testing::RunSetup setup;
    setup.mesh = {.dp = 3};
    setup.global_batch = 12;
    TrainOptions options = testing::options_of(6);
    options.trace = (folder.path() / "trace.json").string();
    options.faults = {{.kind = Fault::Kind::Slow, .rank = 1, .ms = 300}};
    const TrainResult run = testing::run_threads(testing::document_of(setup), options);
    ASSERT_EQ(run.notes.size(), 1U);
    EXPECT_EQ(run.notes.front().find("rank 1 takes "), 0U) << run.notes.front();
    const auto trace = read_trace(options.trace);
    ASSERT_TRUE(trace) << to_string(trace.errors());
    EXPECT_EQ(analyze_arrivals(*trace, {.least_s = kPreempted_s}).stragglers, (std::vector<int>{1}));
}

}  // namespace
}  // namespace tw
