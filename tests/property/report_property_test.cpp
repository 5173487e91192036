// What a report says of drawn plans adds up: times to the step, memory to what the device holds, curves to
// what has to fit.
#include <algorithm>
#include <map>
#include <numeric>

#include <gtest/gtest.h>

#include "tests/planner/planner_fixtures.hpp"

namespace tw {
namespace {

constexpr std::uint64_t kSeed = 20250301;

struct Drawn {
    std::string what;
    std::shared_ptr<const Environment> environment;
    ParallelPlan plan;
};

PlanRequest random_request(Prng& random, const Environment& environment) {
    const auto coin = [&] { return random.integer(0, 1) == 1; };
    PlanRequest request;
    request.constraints = test::every_schedule();
    request.global_batch = environment.cluster.devices() * test::pick<std::int64_t>(random, {1, 2, 3, 8});
    request.seq_len = test::pick<std::int64_t>(random, {128, 512});
    ParallelPlan& base = request.base;
    base.overlap.grad_reduce = coin();
    base.overlap.param_gather = coin();
    base.overlap.p2p = coin();
    base.overlap.tp = coin();
    base.offload_activations = random.integer(0, 7) == 0;
    base.precision.gradient_fp32 = coin();
    base.framework = test::pick<std::string>(random, {"trainwright", "megatron", "torchtitan", "deepspeed"});
    return request;
}

// Plans of every schedule, with and without the host.
template <class Visit>
void for_drawn_plans(int wanted, const Visit& visit) {
    Prng random(kSeed);
    int done = 0;
    std::map<std::string, int> schedules;
    for (int draws = 0; done < wanted && draws < 20 * wanted; ++draws) {
        const std::string cluster =
            test::pick<std::string>(random, {"h100:8", "h100:4", "dgx-h100:16", "p4d:16", "rtx4090-pcie:8"});
        Drawn drawn;
        drawn.environment = test::environment_of(test::random_model(random, 8), cluster,
                                                 random.integer(0, 1) == 0 ? 5e-6 : 0.0);
        const PlanRequest request = random_request(random, *drawn.environment);
        const SearchSpace space(*drawn.environment, request);
        if (space.meshes().empty()) continue;
        for (int i = 0; i < 8 && done < wanted; ++i) {
            test::Leaf leaf;
            if (!test::draw_leaf(random, space, leaf) || leaf.mesh.microbatches > 32) continue;
            // Each schedule as often as another.
            if (schedules[leaf.plan.schedule] > 2 + wanted / 14) continue;
            drawn.plan = leaf.plan;
            drawn.what = cluster + ": " + summary(leaf.plan) + " " + leaf.plan.framework + " ep" +
                         std::to_string(leaf.plan.mesh.ep) + " m" + std::to_string(leaf.plan.microbatches);
            SimulateOptions options;
            options.trace = true;
            const auto report = Simulator(drawn.environment).simulate(drawn.plan, options);
            if (!report) continue;  // a cost-driven order that fits no memory
            ++schedules[leaf.plan.schedule];
            ++done;
            visit(drawn, *report);
        }
    }
    EXPECT_EQ(done, wanted);
    EXPECT_GT(schedules["pipedream"], 0);
    EXPECT_GT(schedules["zb-h2"], 0);
    EXPECT_GT(schedules["dualpipev"], 0);
}

TEST(ReportProperty, PartsAddUp) {
    for_drawn_plans(test::cases(120, 3000), [](const Drawn& drawn, const SimulationReport& report) {
        SCOPED_TRACE(drawn.what);
        for (const RankReport& rank : report.ranks) {
            EXPECT_NEAR(rank.breakdown.total(), report.step_time_s, 1e-6 * report.step_time_s) << rank.rank;
            EXPECT_NEAR(rank.busy_s + rank.idle_s, report.step_time_s, 1e-9 * report.step_time_s);
        }
        for (const CommunicationReport& c : report.communication)
            EXPECT_LE(c.exposed_s, c.total_s * (1 + 1e-9)) << c.kind;
        EXPECT_FALSE(report.critical_path.empty());
        for (const StageMemory& m : report.memory) {
            double allocated = 0, device = 0;
            for (const MemoryAddend& a : m.addends) {
                allocated += a.bytes;
                EXPECT_FALSE(a.formula.empty()) << a.name;
            }
            for (const MemoryAddend& a : m.beside)
                device += a.bytes;
            device += allocated;
            EXPECT_NEAR(allocated, m.peak_allocated_bytes, 1e-9 * allocated) << m.rank;
            EXPECT_NEAR(device, m.device_bytes, 1e-9 * device) << m.rank;
            // The curve's top is what has to fit; ZeRO's whole gradients are counted at every peak, on the
            // curve while a backward runs.
            const RankTrace& curve = report.trace.ranks[static_cast<std::size_t>(m.rank)];
            ASSERT_FALSE(curve.memory.empty());
            EXPECT_EQ(curve.memory.front().time, 0);
            double top = 0;
            for (const MemorySample& sample : curve.memory) {
                top = std::max(top, static_cast<double>(std::accumulate(
                                        sample.bytes.begin(), sample.bytes.end(), std::int64_t{0})));
            }
            double unsharded = 0;
            for (const MemoryAddend& a : m.addends)
                unsharded += a.name == "unsharded gradients" || a.name == "gathered parameters" ? a.bytes : 0;
            // DeepSpeed's step allocates: in schedules that never flush, beside activations in flight.
            const bool step_beside =
                drawn.plan.semantics != Semantics::Synchronous && drawn.plan.framework == "deepspeed";
            if (!step_beside) {
                EXPECT_LE(top, m.required_bytes + 16) << m.rank;
            }
            EXPECT_GE(top, m.required_bytes - unsharded - 16) << m.rank;
        }
    });
}

}  // namespace
}  // namespace tw
