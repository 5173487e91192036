#include <algorithm>

#include <gtest/gtest.h>

#include "tests/plan/schedule_fixtures.hpp"
#include "tests/plan/schedule_replay.hpp"

namespace tw {
namespace {

using testing::lowered;
using testing::Names;
using testing::shape;
using testing::tokens;
using testing::waits_of;

std::size_t count(const Schedule& schedule, Opcode opcode) {
    std::size_t n = 0;
    for (const RankProgram& program : schedule.programs) {
        n +=
            static_cast<std::size_t>(std::count_if(program.instructions.begin(), program.instructions.end(),
                                                   [&](const Instruction& i) { return i.opcode == opcode; }));
    }
    return n;
}

TEST(Lower, TransfersStandWhereTheyAreMade) {
    const Schedule schedule = lowered("1f1b", shape(2, 2));
    EXPECT_EQ(tokens(schedule, 0),
              "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0REDUCE_GRAD 0GRAD_NORM 0STEP");
    EXPECT_EQ(tokens(schedule, 1),
              "1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1REDUCE_GRAD 1SEND_B1 0GRAD_NORM 1STEP");
    EXPECT_EQ(waits_of(schedule, 1, "1F1"), Names{"1RECV_F1"});
    EXPECT_EQ(waits_of(schedule, 1, "1SEND_B0"), Names{"1B0"});
    EXPECT_EQ(waits_of(schedule, 1, "1RECV_F0"), Names{});
    EXPECT_EQ(waits_of(schedule, 0, "0STEP"), Names{"0GRAD_NORM"});
    EXPECT_EQ(waits_of(schedule, 0, "0GRAD_NORM"), (Names{"0B1", "0REDUCE_GRAD"}));
    EXPECT_EQ(schedule.groups, (std::vector<std::vector<std::uint16_t>>{{}, {0, 1}}));
}

TEST(Lower, LanesFollowTheP2pMode) {
    using P2p = LoweringOptions::P2p;
    const auto lanes = [&](P2p p2p, bool batch) {
        LoweringOptions options;
        options.p2p = p2p;
        options.batch_p2p = batch;
        const Schedule schedule = lowered("1f1b", shape(3, 4), options);
        std::vector<std::uint16_t> used;
        for (const Instruction& i : schedule.programs[1].instructions) {
            if (is_transfer(i.opcode)) used.push_back(i.communicator);
        }
        std::sort(used.begin(), used.end());
        used.erase(std::unique(used.begin(), used.end()), used.end());
        return used;
    };
    EXPECT_EQ(lanes(P2p::PerDirection, false), (std::vector<std::uint16_t>{0, 1, 4, 5}));
    EXPECT_EQ(lanes(P2p::PerPeer, false), (std::vector<std::uint16_t>{0, 2}));
    EXPECT_EQ(lanes(P2p::PerDirection, true), (std::vector<std::uint16_t>{0, 2}));
    EXPECT_EQ(lanes(P2p::Single, false), (std::vector<std::uint16_t>{0}));
}

TEST(Lower, KnowsTheSteadyPhase) {
    const Schedule schedule = lowered("1f1b", shape(4, 64));
    ASSERT_EQ(schedule.steady.programs.size(), 4U);
    // A forward and a backward of each of two ranks, with their transfers; a transfer at each end.
    EXPECT_EQ(schedule.steady.programs[0].period, 4U);
    EXPECT_EQ(schedule.steady.programs[1].period, 6U);
    EXPECT_EQ(schedule.steady.senders, 6U);
    EXPECT_EQ(schedule.senders.size(), 64U * 6U);
    const auto& instructions = schedule.programs[1].instructions;
    const SteadyPhase::Program& steady = schedule.steady.programs[1];
    EXPECT_GT(steady.end - steady.begin, 40U * 6U);
    for (std::uint32_t i = steady.begin; i + steady.period < steady.end; ++i) {
        EXPECT_EQ(instructions[i + steady.period].opcode, instructions[i].opcode);
        EXPECT_EQ(instructions[i + steady.period].microbatch, instructions[i].microbatch + 1);
    }
    // All forwards come first: nothing repeats around the middle.
    EXPECT_TRUE(lowered("gpipe", shape(4, 64)).steady.programs.empty());
    EXPECT_TRUE(lowered("1f1b", shape(4, 8)).steady.programs.empty());
}

TEST(Lower, BatchesAreSymmetricPairs) {
    LoweringOptions options;
    options.batch_p2p = true;
    const Schedule schedule = lowered("1f1b", shape(4, 8), options);
    std::size_t batches = 0;
    for (const RankProgram& program : schedule.programs) {
        for (std::size_t i = 0; i < program.instructions.size(); ++i) {
            const Instruction& first = program.instructions[i];
            if (first.batch_group == 0) continue;
            ASSERT_LT(i + 1, program.instructions.size());
            const Instruction& second = program.instructions[++i];
            EXPECT_EQ(second.batch_group, first.batch_group);
            EXPECT_EQ(second.peer, first.peer);
            EXPECT_NE(is_send(first.opcode), is_send(second.opcode));
            ++batches;
        }
    }
    // In the steady phase every boundary exchanges in pairs: 3 boundaries, both ends.
    EXPECT_GE(batches, 2U * 3U * 4U);
}

TEST(Lower, WithoutOverlapComputeWaitsForItsSends) {
    LoweringOptions options;
    options.overlap_p2p = false;
    const Schedule blocking = lowered("1f1b", shape(2, 3), options);
    EXPECT_EQ(waits_of(blocking, 0, "0F1"), Names{"0SEND_F0"});
    const Schedule overlapping = lowered("1f1b", shape(4, 8));
    const test::UnitInstructionCosts costs{2, 2, 2, 1};
    const Schedule slow = lowered("1f1b", shape(4, 8), options);
    EXPECT_LT(test::replay_schedule(overlapping, costs).makespan,
              test::replay_schedule(slow, costs).makespan);
}

TEST(Lower, StagesOfOneRankExchangeNothing) {
    EXPECT_EQ(count(lowered("interleaved", shape(1, 2, 3)), Opcode::SendActivation), 0U);
    // V placement: stages p - 1 and p share a rank.
    EXPECT_EQ(count(lowered("zb-v", shape(3, 6, 2)), Opcode::SendActivation), 4U * 6U);
}

TEST(Lower, GradientsFollowTheLastBackwardOfTheirStage) {
    const Schedule schedule = lowered("interleaved", shape(2, 4, 2));
    EXPECT_EQ(waits_of(schedule, 0, "2REDUCE_GRAD"), Names{"2B3"});
    EXPECT_EQ(waits_of(schedule, 0, "0REDUCE_GRAD"), Names{"0B3"});
    const std::string program = tokens(schedule, 0);
    EXPECT_LT(program.find("2REDUCE_GRAD"), program.find("0B3"));  // beside the backwards of the other stage
    LoweringOptions options;
    options.overlap_grad_sync = false;
    EXPECT_EQ(waits_of(lowered("interleaved", shape(2, 4, 2), options), 0, "2REDUCE_GRAD"), Names{"0B3"});
    // Zero bubble: the weight gradient completes it.
    EXPECT_EQ(waits_of(lowered("zb-h1", shape(2, 4)), 1, "1REDUCE_GRAD"), Names{"1W3"});
    options.grad_sync = LoweringOptions::GradSync::None;
    EXPECT_EQ(count(lowered("1f1b", shape(2, 2), options), Opcode::AllReduce), 0U);
}

TEST(Lower, BucketsStartInsideTheLastBackward) {
    LoweringOptions options;
    options.buckets = {3, 1};
    const Schedule schedule = lowered("1f1b", shape(2, 2), options);
    EXPECT_EQ(
        tokens(schedule, 0),
        "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0REDUCE_GRAD 0B1 0REDUCE_GRAD 0B1 0REDUCE_GRAD "
        "0GRAD_NORM 0STEP");
    const RankProgram& program = schedule.programs[0];
    EXPECT_EQ(program.instructions[7].part, 1U);
    EXPECT_EQ(program.instructions[11].part, 3U);
    EXPECT_EQ(program.instructions[10].part, 1U);  // bucket 1 after chunk 2
    EXPECT_EQ(program.waits_of(10)[0], 9U);
    EXPECT_NE(program.instructions[5].duration_class, program.instructions[7].duration_class);
    options.overlap_grad_sync = false;
    EXPECT_EQ(count(lowered("1f1b", shape(2, 2), options), Opcode::Backward), 4U);
    EXPECT_EQ(count(lowered("1f1b", shape(2, 2), options), Opcode::AllReduce), 4U);
}

TEST(Lower, ZeroShardsGradientsAndGathersParameters) {
    LoweringOptions options;
    options.grad_sync = LoweringOptions::GradSync::ReduceScatter;
    options.gather_params_after_step = true;
    Schedule schedule = lowered("1f1b", shape(2, 2), options);
    EXPECT_EQ(waits_of(schedule, 1, "1ALL_GATHER"), Names{"1STEP"});
    EXPECT_EQ(count(schedule, Opcode::ReduceScatter), 2U);
    options.overlap_param_gather = true;
    schedule = lowered("1f1b", shape(2, 2), options);
    EXPECT_EQ(tokens(schedule, 1).substr(0, 12), "1ALL_GATHER ");
    EXPECT_EQ(waits_of(schedule, 1, "1F0"), (Names{"1RECV_F0", "1ALL_GATHER"}));
    options.sync_every_microbatch = true;
    EXPECT_EQ(count(lowered("1f1b", shape(2, 3), options), Opcode::ReduceScatter), 6U);
}

TEST(Lower, UnshardPrefetchesOneStage) {
    LoweringOptions options;
    options.unshard = true;
    const Schedule schedule = lowered("gpipe", shape(1, 2), options);
    EXPECT_EQ(tokens(schedule, 0).substr(0, 62),
              "0UNSHARD 0F0 0RESHARD 0UNSHARD 0F1 0RESHARD 0UNSHARD 0B0 0RESH");
    EXPECT_EQ(waits_of(schedule, 0, "0B0"), Names{"0UNSHARD"});
    EXPECT_EQ(schedule.programs[0].waits_of(6).size(), 1U);  // the third gather
    EXPECT_EQ(schedule.programs[0].waits_of(6)[0], 2U);      // waits until the first is freed
}

TEST(Lower, TiedEmbeddingsMeetAtBothEnds) {
    LoweringOptions options;
    options.tied_embeddings = true;
    const Schedule schedule = lowered("1f1b", shape(4, 4), options);
    EXPECT_EQ(schedule.groups[1], (std::vector<std::uint16_t>{0, 3}));
    EXPECT_EQ(count(schedule, Opcode::AllReduce), 4U + 2U);
    // In a V both ends are on rank 0.
    EXPECT_EQ(count(lowered("zb-v", shape(4, 8, 2), options), Opcode::AllReduce), 8U);
}

TEST(Lower, TheNormIsABarrierUnlessRanksGoOnByThemselves) {
    EXPECT_EQ(lowered("1f1b", shape(3, 3)).programs[1].instructions.rbegin()[1].group, 1);
    EXPECT_EQ(lowered("zb-h1", shape(3, 3)).programs[1].instructions.rbegin()[1].group, 0);
}

TEST(Lower, OffloadedActivationsComeBackInTime) {
    LoweringOptions options;
    options.offload_activations = true;
    const Schedule schedule = lowered("1f1b", shape(2, 3), options);
    EXPECT_EQ(waits_of(schedule, 0, "0OFFLOAD1"), Names{"0F1"});
    EXPECT_EQ(waits_of(schedule, 0, "0RELOAD1"), (Names{"0OFFLOAD1", "0B0"}));
    EXPECT_EQ(waits_of(schedule, 0, "0B1"), (Names{"0RECV_B1", "0RELOAD1"}));
}

// Copies of a stage's weights held at most, the current ones included.
int versions_held(const Schedule& schedule, std::size_t rank) {
    int held = 1, peak = 1;
    for (const Instruction& i : schedule.programs[rank].instructions) {
        if (i.opcode == Opcode::StashWeights) peak = std::max(peak, ++held);
        if (i.opcode == Opcode::Free) --held;
    }
    EXPECT_GE(held, 1);
    return peak;
}

TEST(Lower, PipeDreamStashesWhatIsInFlight) {
    LoweringOptions options;
    options.grad_sync = LoweringOptions::GradSync::None;
    const Schedule schedule = lowered("pipedream", shape(4, 4), options);
    for (std::size_t s = 0; s < 4; ++s)
        EXPECT_EQ(versions_held(schedule, s), 4 - static_cast<int>(s));
    EXPECT_EQ(count(schedule, Opcode::OptimizerStep), 4U * 16U);
    EXPECT_EQ(count(schedule, Opcode::GradNorm), 0U);
    const Schedule two = lowered("pipedream-2bw", shape(4, 4), options);
    for (std::size_t s = 0; s < 4; ++s)
        EXPECT_LE(versions_held(two, s), 2);
    EXPECT_EQ(versions_held(two, 0), 2);
    EXPECT_EQ(count(two, Opcode::OptimizerStep), 4U * 4U);
    ScheduleShape vertical = shape(4, 4);
    vertical.vertical_sync = true;
    const Schedule synced = lowered("pipedream", vertical, options);
    for (std::size_t s = 0; s < 4; ++s)
        EXPECT_EQ(versions_held(synced, s), 4);
}

TEST(Lower, ReplicasSynchroniseBeforeTheStep) {
    ScheduleShape s = shape(2, 6);
    s.replicas = {3, 1};
    const Schedule schedule = lowered("pipedream", s);
    EXPECT_EQ(schedule.groups[1], (std::vector<std::uint16_t>{0, 1, 2}));
    EXPECT_EQ(waits_of(schedule, 0, "0STEP"), Names{"0REDUCE_GRAD"});
    EXPECT_EQ(count(schedule, Opcode::OptimizerStep), 24U * 2U);
    EXPECT_TRUE(test::replay_schedule(schedule, test::UnitInstructionCosts{}).complete);
}

TEST(Lower, AServerTakesGradientsAndReturnsParameters) {
    LoweringOptions options;
    options.parameter_server = true;
    const Schedule schedule = lowered("pipedream", shape(2, 3), options);
    EXPECT_EQ(waits_of(schedule, 1, "1STEP"), Names{"1REDUCE_SCATTER"});
    EXPECT_EQ(waits_of(schedule, 1, "1BROADCAST"), Names{"1STEP"});
    EXPECT_EQ(waits_of(schedule, 1, "1F1"), (Names{"1RECV_F1", "1BROADCAST"}));
    const Schedule synchronous = lowered("1f1b", shape(2, 3), options);
    EXPECT_EQ(waits_of(synchronous, 1, "1REDUCE_SCATTER"), Names{"1B2"});
    EXPECT_EQ(waits_of(synchronous, 1, "1BROADCAST"), Names{"1STEP"});
    options.grad_sync = LoweringOptions::GradSync::None;
    EXPECT_EQ(count(lowered("pipedream", shape(2, 3), options), Opcode::Broadcast), 0U);
}

TEST(Lower, ClassesAreSharedByEqualInstructions) {
    const Schedule small = lowered("1f1b", shape(4, 4));
    const Schedule large = lowered("1f1b", shape(4, 64));
    EXPECT_EQ(small.duration_classes.size(), large.duration_classes.size());
    for (const RankProgram& program : large.programs) {
        for (const Instruction& i : program.instructions) {
            EXPECT_EQ(large.duration_classes[i.duration_class].opcode, i.opcode);
            EXPECT_EQ(large.duration_classes[i.duration_class].stage, i.stage);
        }
    }
}

}  // namespace
}  // namespace tw
