#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "plan/schedule/check.hpp"
#include "plan/schedule/generator.hpp"
#include "plan/schedule/lower.hpp"
#include "plan/schedule/pytorch_csv.hpp"
#include "tests/plan/schedule_fixtures.hpp"
#include "tests/plan/schedule_replay.hpp"

namespace tw {
namespace {

ComputeOrder make(std::string_view name, int p, int m, int v = 1) {
    return *generate_order(name, testing::shape(p, m, v));
}

Schedule lowered(std::string_view name, int p, int m, int v = 1, const LoweringOptions& options = {}) {
    return lower(make(name, p, m, v), std::string(name), options);
}

TEST(CheckOrder, NamesEveryViolation) {
    ComputeOrder order = make("1f1b", 2, 2);
    order.ranks[0].push_back(order.ranks[0][0]);       // 0F0 again
    order.ranks[1].erase(order.ranks[1].begin() + 1);  // without 1B0
    order.ranks[0][1].stage = 1;                       // 1F1 on rank 0
    const Errors errors = check_order(order);
    const auto has = [&](std::string_view message, std::string_view context) {
        return std::any_of(errors.begin(), errors.end(), [&](const Error& e) {
            return e.message.find(message) != std::string::npos && e.context == context;
        });
    };
    EXPECT_TRUE(has("computed twice", "rank 0, 0F0")) << to_string(errors);
    EXPECT_TRUE(has("never computed", "rank 1, 1B0")) << to_string(errors);
    EXPECT_TRUE(has("stage 1 computes microbatch 1 on rank 1", "rank 0, 1F1")) << to_string(errors);
    EXPECT_TRUE(has("a backward before its forward", "rank 0, 0B1")) << to_string(errors);
    EXPECT_NE(format_grid(order, &errors[0]).find("<-- ERROR HERE"), std::string::npos);
}

TEST(CheckOrder, NamesTheCycleOfADeadlock) {
    // Rank 0 wants the gradient of microbatch 0 before it sends microbatch 1; rank 1 wants both forwards
    // first.
    ComputeOrder order = make("gpipe", 2, 2);
    std::swap(order.ranks[0][1], order.ranks[0][2]);  // 0F0 0B0 0F1 0B1
    const Errors errors = check_order(order);
    ASSERT_EQ(errors.size(), 1U);
    EXPECT_EQ(errors[0].context, "rank 0, 0B0");
    EXPECT_EQ(errors[0].message, "deadlock: rank 0, 0B0 waits for 1B0 -> rank 1, 1F1 waits for 0F1");
    EXPECT_NE(format_grid(order, &errors[0]).find("0F1 0B1  <-- ERROR HERE"), std::string::npos);
}

// Replicas meet at each update, where their backwards are split too.
TEST(CheckOrder, NamesTheReplicaThatAnotherWaitsFor) {
    const auto action = [](Opcode opcode, int stage, int microbatch) {
        Action a;
        a.opcode = opcode;
        a.stage = static_cast<std::uint16_t>(stage);
        a.microbatch = microbatch;
        return a;
    };
    ComputeOrder order;
    order.stages = 2;
    order.microbatches = 4;
    order.splits_backward = true;
    order.rank_of_stage = {0, 2};
    order.replicas_of_stage = {2, 1};
    order.ranks.resize(3);
    const auto fill = [&](std::size_t rank, int stage, const std::vector<int>& microbatches) {
        for (const int b : microbatches) {
            for (const Opcode opcode : {Opcode::Forward, Opcode::BackwardInput, Opcode::BackwardWeight})
                order.ranks[rank].push_back(action(opcode, stage, b));
        }
    };
    fill(0, 0, {0, 2});
    fill(1, 0, {1, 3});
    fill(2, 1, {0, 2, 1, 3});  // rank 0's second before rank 1's first
    const Errors errors = check_order(order);
    ASSERT_EQ(errors.size(), 1U) << to_string(errors);
    EXPECT_EQ(
        errors[0].message,
        "deadlock: rank 0, 0F2 waits for 0I1 -> rank 1, 0I1 waits for 1B1 -> rank 2, 1F2 waits for 0F2");
    order.ranks[2].clear();
    fill(2, 1, {0, 1, 2, 3});
    EXPECT_TRUE(check_order(order).empty()) << to_string(check_order(order));
}

// A replica that has no backwards left will never catch up.
TEST(CheckOrder, NamesAReplicaThatHasFewerBackwards) {
    ComputeOrder order = make("1f1b", 1, 3);
    order.stages = 2;
    order.rank_of_stage = {0, 0};
    order.replicas_of_stage = {2, 2};
    order.ranks.assign(2, {});
    for (int b = 0; b < 3; ++b) {
        for (const auto& [opcode, stage] : {std::pair{Opcode::Forward, 0}, std::pair{Opcode::Forward, 1},
                                            std::pair{Opcode::Backward, 1}, std::pair{Opcode::Backward, 0}}) {
            Action a;
            a.opcode = opcode;
            a.stage = static_cast<std::uint16_t>(stage);
            a.microbatch = b;
            order.ranks[static_cast<std::size_t>(b % 2)].push_back(a);
        }
    }
    const Errors errors = check_order(order);
    ASSERT_EQ(errors.size(), 1U) << to_string(errors);
    EXPECT_NE(errors[0].message.find("which has done all of its own"), std::string::npos)
        << errors[0].message;
}

TEST(CheckOrder, BackwardUsesItsForwardsWeights) {
    ComputeOrder order = make("pipedream", 2, 2);
    order.ranks[0][2].weight_version ^= 1U;  // 0B0
    const Errors errors = check_order(order);
    ASSERT_FALSE(errors.empty());
    EXPECT_EQ(errors[0].message, "the backward uses weight version 1, its forward used 0");
    EXPECT_EQ(errors[0].context, "rank 0, 0B0");
}

TEST(CheckOrder, VersionsAreMadeBeforeUse) {
    ComputeOrder order = make("pipedream", 3, 2);
    for (auto& action : order.ranks[0]) {
        if (action.microbatch == 1) action.weight_version = 2;  // two updates too early
    }
    const Errors errors = check_order(order);
    ASSERT_FALSE(errors.empty());
    EXPECT_EQ(errors[0].message, "weight version 2 is used before it is made");
}

TEST(CheckSchedule, FindsWhatIsWrongWithTransfers) {
    const Schedule good = lowered("1f1b", 3, 3);
    EXPECT_TRUE(check_schedule(good).empty());

    Schedule wrong_peer = good;
    auto& program = wrong_peer.programs[0].instructions;
    const auto send =
        std::find_if(program.begin(), program.end(), [](const Instruction& i) { return is_send(i.opcode); });
    send->peer = 2;
    EXPECT_EQ(check_schedule(wrong_peer)[0].context, "rank 0, 0SEND_F0");

    Schedule two_ways = good;  // the receiver expects microbatch 1 first
    std::vector<Instruction*> receives;
    for (Instruction& i : two_ways.programs[1].instructions) {
        if (i.opcode == Opcode::RecvActivation) receives.push_back(&i);
    }
    std::swap(receives[0]->microbatch, receives[1]->microbatch);
    const Errors errors = check_schedule(two_ways);
    ASSERT_FALSE(errors.empty());
    EXPECT_EQ(errors[0].context, "rank 1, 1RECV_F1");
    EXPECT_EQ(errors[0].message,
              "message 0 from rank 0 to rank 1 is sent as 0SEND_F0 and received as 1RECV_F1");

    Schedule no_wait = good;
    for (std::size_t i = 0; i < no_wait.programs[1].instructions.size(); ++i) {
        if (no_wait.programs[1].instructions[i].opcode != Opcode::Forward) continue;
        for (std::uint32_t w = no_wait.programs[1].wait_begin[i]; w < no_wait.programs[1].wait_begin[i + 1];
             ++w) {
            no_wait.programs[1].waits[w] = 0;  // every forward waits for the first receive alone
        }
    }
    const Errors unwaited = check_schedule(no_wait);
    ASSERT_EQ(unwaited.size(), 2U);
    EXPECT_EQ(unwaited[0].context, "rank 1, 1F1");
    EXPECT_EQ(unwaited[0].message, "does not wait for its activation");
}

TEST(CheckSchedule, CollectivesAreEnteredByAllInOneOrder) {
    LoweringOptions options;
    options.tied_embeddings = true;
    Schedule schedule = lowered("1f1b", 3, 3, 1, options);
    ASSERT_TRUE(check_schedule(schedule).empty());
    auto& last = schedule.programs[2].instructions;
    const auto norm = std::find_if(last.begin(), last.end(),
                                   [](const Instruction& i) { return i.opcode == Opcode::GradNorm; });
    norm->group = 0;
    const Errors errors = check_schedule(schedule);
    ASSERT_EQ(errors.size(), 1U);
    EXPECT_EQ(errors[0].message, "rank 2 of its group never enters");
    EXPECT_EQ(errors[0].context, "rank 0, 0GRAD_NORM");
}

TEST(CheckSchedule, StashedVersionsLiveAsLongAsTheyAreUsed) {
    Schedule schedule = lowered("pipedream", 3, 2);
    ASSERT_TRUE(check_schedule(schedule).empty());
    for (Instruction& i : schedule.programs[0].instructions) {
        if (i.opcode == Opcode::StashWeights) i.opcode = Opcode::Offload;  // forgets to keep them
    }
    const Errors errors = check_schedule(schedule);
    ASSERT_FALSE(errors.empty());
    EXPECT_EQ(errors[0].message, "weight version 0 is neither current nor stashed");
}

// pytorch/pytorch#172668: two ranks of two stages, one communicator; each sends before it receives.
constexpr const char* kBothSendFirst =
    "0F0,0SEND_F0,0F1,0SEND_F1,2RECV_F0,2F0,2SEND_F0,2RECV_F1,2F1,2SEND_F1,2RECV_B0,2B0,2SEND_B0,2RECV_B1,"
    "2B1,2SEND_B1,"
    "0RECV_B0,0B0,0RECV_B1,0B1\n"
    "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1,3RECV_F0,3F0,3B0,3SEND_B0,3RECV_F1,3F1,3B1,3SEND_B1,1RECV_"
    "B0,1B0,"
    "1SEND_B0,1RECV_B1,1B1,1SEND_B1\n";

TEST(CheckSchedule, BothSendFirstOnOneCommunicatorIsADeadlock) {
    using P2p = LoweringOptions::P2p;
    for (const P2p p2p : {P2p::Single, P2p::PerPeer}) {
        const Schedule schedule = *read_pytorch_csv_schedule(kBothSendFirst, p2p);
        const Errors errors = check_schedule(schedule);
        ASSERT_EQ(errors.size(), 1U);
        EXPECT_EQ(errors[0].message.substr(0, 10), "deadlock: ");
        for (const char* name :
             {"rank 0, 0SEND_F1", "rank 0, 2RECV_F0", "rank 1, 1SEND_F0", "rank 1, 1RECV_F1"}) {
            EXPECT_NE(errors[0].message.find(name), std::string::npos) << errors[0].message;
        }
        EXPECT_FALSE(test::replay_schedule(schedule, test::UnitInstructionCosts{}).complete);
    }
    const Schedule separate = *read_pytorch_csv_schedule(kBothSendFirst, P2p::PerDirection);
    EXPECT_TRUE(check_schedule(separate).empty()) << to_string(check_schedule(separate));
    EXPECT_TRUE(test::replay_schedule(separate, test::UnitInstructionCosts{}).complete);
    // lower() places the same computes so that one communicator is enough.
    const ComputeOrder order = *read_pytorch_csv(kBothSendFirst);
    LoweringOptions single;
    single.p2p = P2p::Single;
    EXPECT_TRUE(check_schedule(lower(order, "pytorch-csv", single)).empty());
}

// pytorch/pytorch#188833 (and #165664): interleaved, p = 8, v = 2. Placing each receive where its sender is
// scheduled puts 8RECV_F0, whose data is seven stages away, right behind 0SEND_F0; on one communicator
// 0SEND_F1 then waits for it.
// Ranks in turn schedule what has arrived; a compute is followed at once by its send here and its receive
// there.
std::string front_loaded_receives(const ComputeOrder& order) {
    std::vector<std::string> rows(order.ranks.size());
    std::vector<std::size_t> next(order.ranks.size(), 0);
    std::set<std::string> arrived;
    const auto name = [](Opcode opcode, int stage, int microbatch) {
        return std::to_string(stage) + std::string(token_of(opcode)) + std::to_string(microbatch);
    };
    const auto put = [&](std::size_t rank, const std::string& token) {
        rows[rank] += (rows[rank].empty() ? "" : ",") + token;
    };
    for (bool progress = true; progress;) {
        progress = false;
        for (std::size_t r = 0; r < rows.size(); ++r) {
            if (next[r] == order.ranks[r].size()) continue;
            const Action& a = order.ranks[r][next[r]];
            const bool forward = a.opcode == Opcode::Forward;
            const bool source = a.stage == (forward ? 0 : order.stages - 1);
            const auto receive = forward ? Opcode::RecvActivation : Opcode::RecvGrad;
            if (!source && !arrived.contains(name(receive, a.stage, a.microbatch))) continue;
            ++next[r];
            progress = true;
            put(r, name(a.opcode, a.stage, a.microbatch));
            if (a.stage == (forward ? order.stages - 1 : 0)) continue;
            const int to = a.stage + (forward ? 1 : -1);
            put(r, name(forward ? Opcode::SendActivation : Opcode::SendGrad, a.stage, a.microbatch));
            put(static_cast<std::size_t>(order.rank_of(to, a.microbatch)), name(receive, to, a.microbatch));
            arrived.insert(name(receive, to, a.microbatch));
        }
    }
    std::string csv;
    for (const std::string& row : rows)
        csv += row + '\n';
    return csv;
}

TEST(CheckSchedule, APostedReceiveBlocksALaterSendOnOneCommunicator) {
    using P2p = LoweringOptions::P2p;
    const ComputeOrder order = make("interleaved", 8, 16, 2);
    const std::string csv = front_loaded_receives(order);
    EXPECT_EQ(csv.substr(0, 48), "0F0,0SEND_F0,8RECV_F0,0F1,0SEND_F1,8RECV_F1,0F2,");
    const Schedule single = *read_pytorch_csv_schedule(csv, P2p::Single);
    const Schedule separate = *read_pytorch_csv_schedule(csv, P2p::PerDirection);
    // It runs, but the first stage sends one microbatch a trip round the pipeline.
    EXPECT_TRUE(check_schedule(single).empty()) << to_string(check_schedule(single));
    EXPECT_TRUE(check_schedule(separate).empty());
    const auto blocked = test::replay_schedule(single, test::UnitInstructionCosts{});
    const auto free = test::replay_schedule(separate, test::UnitInstructionCosts{});
    ASSERT_TRUE(blocked.complete && free.complete);
    const auto end_of = [&](const Schedule& schedule, const test::Replayed& replayed, const char* token) {
        for (std::size_t i = 0; i < schedule.programs[0].instructions.size(); ++i) {
            if (to_string(schedule.programs[0].instructions[i]) == token) return replayed.end[0][i];
        }
        return std::int64_t{-1};
    };
    EXPECT_EQ(end_of(separate, free, "0SEND_F1"), 2);
    EXPECT_EQ(end_of(single, blocked, "0SEND_F1"), 8);  // after microbatch 0 came through stages 0 to 7
    EXPECT_EQ(end_of(single, blocked, "0SEND_F2"), 15);
    EXPECT_EQ(free.makespan, 3 * 32 + 3 * 7);
    EXPECT_GE(blocked.makespan, free.makespan + 40);
    // lower() receives when the data is due: nothing is lost on one communicator while transfers are free.
    LoweringOptions options;
    options.p2p = P2p::Single;
    EXPECT_EQ(
        test::replay_schedule(lower(order, "interleaved", options), test::UnitInstructionCosts{}).makespan,
        free.makespan);
}

}  // namespace
}  // namespace tw
