// Transfers as blocking calls of the host (plan/schedule/passes/blocking_transfers.cpp).
#include <algorithm>
#include <tuple>

#include <gtest/gtest.h>

#include "plan/frameworks/framework.hpp"
#include "plan/lower_plan.hpp"
#include "tests/plan/plan_fixtures.hpp"
#include "tests/plan/schedule_fixtures.hpp"
#include "tests/plan/schedule_replay.hpp"

namespace tw {
namespace {

using testing::lowered;
using testing::Names;
using testing::shape;
using testing::tokens;
using testing::waits_of;
using Calls = LoweringOptions::P2pCalls;

Schedule blocking(std::string_view name, const ScheduleShape& s, Calls calls) {
    LoweringOptions options;
    options.overlap_p2p = false;
    options.p2p_calls = calls;
    options.grad_sync = LoweringOptions::GradSync::None;
    options.grad_norm = false;
    return lowered(name, s, options);
}

TEST(BlockingTransfers, OneForwardOneBackwardExchangesBetweenPasses) {
    const Schedule schedule = blocking("1f1b", shape(2, 2), Calls::Blocking);
    EXPECT_EQ(tokens(schedule, 0), "0F0 0SEND_F0 0F1 0RECV_B0 0SEND_F1 0B0 0RECV_B1 0B1 0STEP");
    EXPECT_EQ(tokens(schedule, 1), "1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1 1STEP");
    // A receive is posted when what came before is computed, and the next pass waits for the whole call.
    EXPECT_EQ(waits_of(schedule, 1, "1RECV_F1"), Names{"1B0"});
    EXPECT_EQ(waits_of(schedule, 0, "0RECV_B0"), Names{"0F1"});
    EXPECT_EQ(waits_of(schedule, 1, "1F1"), (Names{"1SEND_B0", "1RECV_F1"}));
    EXPECT_EQ(waits_of(schedule, 0, "0B0"), (Names{"0RECV_B0", "0SEND_F1"}));
}

TEST(BlockingTransfers, InterleavedSendsAForwardAfterTheBackwardBesideIt) {
    const Schedule schedule = blocking("interleaved", shape(2, 4, 2), Calls::Blocking);
    const RankProgram& program = schedule.programs[1];
    // In the steady phase of the last rank a forward and a backward stand side by side, and all four
    // transfers wait for the later of them.
    std::size_t pairs = 0;
    for (std::size_t i = 0; i + 1 < program.instructions.size(); ++i) {
        if (program.instructions[i].opcode != Opcode::Forward ||
            program.instructions[i + 1].opcode != Opcode::Backward)
            continue;
        ++pairs;
        for (std::size_t k = i + 2;
             k < program.instructions.size() && is_transfer(program.instructions[k].opcode); ++k) {
            const auto waits = program.waits_of(k);
            EXPECT_NE(std::find(waits.begin(), waits.end(), i + 1), waits.end());
        }
    }
    EXPECT_EQ(pairs, 6U);  // 8 forwards, 2 of them ahead
}

TEST(BlockingTransfers, TheHostWaitsAfterEachCall) {
    const Schedule schedule = blocking("1f1b", shape(2, 2), Calls::Synchronised);
    EXPECT_EQ(tokens(schedule, 1),
              "1RECV_F0 1WAIT 1F0 1B0 1SEND_B0 1RECV_F1 1WAIT 1F1 1B1 1SEND_B1 1WAIT 1STEP");
    EXPECT_EQ(waits_of(schedule, 1, "1F0"), Names{"1WAIT"});
}

// Equal stages, transfers of one unit: every exchange of the steady phase costs it once (interleaved) or
// twice (1F1B), for all ranks at once.
TEST(BlockingTransfers, ExchangesAddToThePeriod) {
    for (const auto& [name, p, m, v] : {std::tuple{"1f1b", 4, 12, 1}, std::tuple{"interleaved", 4, 12, 3},
                                        std::tuple{"1f1b", 8, 8, 1}, std::tuple{"interleaved", 8, 8, 2}}) {
        const Schedule schedule = blocking(name, shape(p, m, v), Calls::Blocking);
        const test::Replayed replayed = test::replay_schedule(schedule, [](const Instruction& in) {
            return in.opcode == Opcode::Forward    ? 100
                   : in.opcode == Opcode::Backward ? 200
                   : is_transfer(in.opcode)        ? 1
                                                   : 0;
        });
        ASSERT_TRUE(replayed.complete) << name;
        const std::int64_t ideal = 300 * (m * v + p - 1);
        EXPECT_GE(replayed.makespan, ideal + m * v) << name;
        EXPECT_LE(replayed.makespan, ideal + 4 * (m * v + v * p + 2 * p)) << name;
    }
}

TEST(BlockingTransfers, FrameworksSayWhichSchedulesBlock) {
    const LayerGraph graph = testing::make_model({});
    const auto calls = [&](std::string_view framework, const char* schedule, int virtual_stages, int tp = 1) {
        ParallelPlan plan;
        plan.mesh.pp = 2;
        plan.mesh.tp = tp;
        plan.schedule = schedule;
        plan.virtual_stages = virtual_stages;
        apply_framework(framework_defaults(framework), false, plan);
        const LoweringOptions options = lowering_options(graph, plan, {});
        EXPECT_TRUE(options.overlap_p2p || options.p2p_calls != Calls::Posted) << framework;
        return options.p2p_calls;
    };
    EXPECT_EQ(calls("trainwright", "1f1b", 1), Calls::Posted);
    EXPECT_EQ(calls("megatron-2022", "1f1b", 1), Calls::Synchronised);
    EXPECT_EQ(calls("megatron-2023", "interleaved", 2), Calls::Synchronised);
    EXPECT_EQ(calls("megatron-2023", "zb-h1", 1), Calls::Posted);  // the fork's own runtime
    EXPECT_EQ(calls("megatron", "1f1b", 1), Calls::Synchronised);
    EXPECT_EQ(calls("megatron", "interleaved", 2), Calls::Posted);
    EXPECT_EQ(calls("megatron-deepspeed", "1f1b", 1), Calls::Blocking);
    EXPECT_EQ(calls("megatron-deepspeed", "1f1b", 1, 2), Calls::Synchronised);
}

TEST(BlockingTransfers, OtherOrdersArePosted) {
    const Schedule calls = blocking("zb-h1", shape(4, 8), Calls::Synchronised);
    const Schedule posted = blocking("zb-h1", shape(4, 8), Calls::Posted);
    for (std::size_t r = 0; r < 4; ++r)
        EXPECT_EQ(tokens(calls, r), tokens(posted, r));
}

}  // namespace
}  // namespace tw
