#include <gtest/gtest.h>

#include "plan/schedule/check.hpp"
#include "plan/schedule/generator.hpp"
#include "plan/schedule/lower.hpp"
#include "plan/schedule/pytorch_csv.hpp"
#include "plan/schedule/text.hpp"

namespace tw {
namespace {

TEST(Token, PyTorchsNotation) {
    const Instruction forward = *parse_token("2F0");
    EXPECT_EQ(forward.opcode, Opcode::Forward);
    EXPECT_EQ(forward.stage, 2);
    EXPECT_EQ(forward.microbatch, 0);
    EXPECT_EQ(forward.stream, Stream::Compute);
    EXPECT_EQ(parse_token("2I0")->opcode, Opcode::BackwardInput);
    EXPECT_EQ(parse_token("2W10")->opcode, Opcode::BackwardWeight);
    EXPECT_EQ(parse_token("2B0")->opcode, Opcode::Backward);
    const Instruction receive = *parse_token("13RECV_B21");
    EXPECT_EQ(receive.opcode, Opcode::RecvGrad);
    EXPECT_EQ(receive.stage, 13);
    EXPECT_EQ(receive.microbatch, 21);
    EXPECT_EQ(receive.stream, Stream::P2p);
    EXPECT_EQ(parse_token("0UNSHARD")->opcode, Opcode::Unshard);
    EXPECT_EQ(parse_token("0UNSHARD")->microbatch, kNoMicrobatch);
    EXPECT_EQ(parse_token("0REDUCE_GRAD")->opcode, Opcode::AllReduce);
    const Instruction overlap = *parse_token("(2F0;3B1)OVERLAP_F_B");
    EXPECT_EQ(overlap.opcode, Opcode::OverlapForwardBackward);
    EXPECT_EQ(overlap.stage2, 3);
    EXPECT_EQ(overlap.microbatch2, 1);
    for (const char* token :
         {"2F0", "3SEND_F1", "3RECV_F1", "3SEND_B1", "3RECV_B1", "0RESHARD", "(2F0;3B1)OVERLAP_F_B"}) {
        EXPECT_EQ(to_string(*parse_token(token)), token);
    }
}

TEST(Token, WholeTokensOnly) {
    for (const char* token : {"2BW0",
                              "2B",
                              "F0",
                              "2",
                              "",
                              "2F0x",
                              "2F-1",
                              " 2F0",
                              "2F0 ",
                              "2f0",
                              "99999F0",
                              "2F99999999999",
                              "(2F0;3B1)",
                              "(2F0,3B1)OVERLAP_F_B",
                              "(2B0;3F1)OVERLAP_F_B",
                              "(2F0;3I1)OVERLAP_F_B",
                              "2SEND_F",
                              "-1F0",
                              "+1F0",
                              "2OVERLAP_F_B0",
                              "()OVERLAP_F_B",
                              "("}) {
        const auto parsed = parse_token(token);
        ASSERT_FALSE(parsed) << token;
        EXPECT_EQ(parsed.error().code, ErrorCode::Unreadable);
        EXPECT_EQ(parsed.error().context, "'" + std::string(token) + "'");
    }
    EXPECT_EQ(parse_token("2BW0").error().message, "unknown instruction kind 'BW'");
    EXPECT_EQ(parse_token("2B").error().hint, "2B0");
}

TEST(ScheduleText, ErrorsNameTheirLine) {
    EXPECT_FALSE(parse_schedule(""));
    EXPECT_EQ(parse_schedule("generator x\n").error().context, "line 1");
    EXPECT_EQ(parse_schedule("trainwright-schedule 2\n").error().message, "'2' is not a number from 1 to 1");
    const auto bad = parse_schedule(
        "trainwright-schedule 1\nstages 1\nmicrobatchs 2\nboundary barier\nrank 0\n0F0 lane=x\n0BW0\n0B0 "
        "after=5\nrank 2\n");
    ASSERT_FALSE(bad);
    const Errors& errors = bad.errors();
    ASSERT_EQ(errors.size(), 6U) << to_string(errors);
    EXPECT_EQ(errors[0].context, "line 3");
    EXPECT_NE(errors[0].hint.find("'microbatches'"), std::string::npos);
    EXPECT_EQ(errors[1].context, "line 4");
    EXPECT_EQ(errors[2].context, "line 6");
    EXPECT_EQ(errors[3].context, "line 7");
    EXPECT_EQ(errors[4].message, "waits for instruction 5, which is not earlier");
    EXPECT_EQ(errors[5].message, "rank 2 follows rank 0");
}

TEST(PytorchCsv, OneRowARankOneCellAStep) {
    ScheduleShape shape;
    shape.ranks = 2;
    shape.microbatches = 2;
    const ComputeOrder order = *generate_order("1f1b", shape);
    EXPECT_EQ(write_pytorch_csv(order), "0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1,\n");
    const ComputeOrder back = *read_pytorch_csv(write_pytorch_csv(order));
    EXPECT_EQ(back.ranks, order.ranks);
    EXPECT_EQ(back.rank_of_stage, order.rank_of_stage);
    EXPECT_EQ(back.microbatches, 2);
    const std::string comms = write_pytorch_csv(lower(order, "1f1b", {}));
    EXPECT_EQ(comms.substr(0, comms.find('\n')),
              "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD");
    EXPECT_EQ(read_pytorch_csv(comms)->ranks, order.ranks);
    const auto schedule = read_pytorch_csv_schedule(comms, LoweringOptions::P2p::PerDirection);
    ASSERT_TRUE(schedule);
    EXPECT_TRUE(check_schedule(*schedule).empty()) << to_string(check_schedule(*schedule));
}

TEST(PytorchCsv, OverlapsAndVPlacementComeBack) {
    ScheduleShape shape;
    shape.ranks = 3;
    shape.microbatches = 7;
    shape.virtual_stages = 2;
    const ComputeOrder order = *generate_order("dualpipev", shape);
    const ComputeOrder back = *read_pytorch_csv(write_pytorch_csv(order));
    EXPECT_EQ(back.ranks, order.ranks);
    EXPECT_EQ(back.rank_of_stage, (std::vector<std::uint16_t>{0, 1, 2, 2, 1, 0}));
    EXPECT_TRUE(back.splits_backward);
}

TEST(PytorchCsv, ErrorsNameRowAndCell) {
    const auto bad = read_pytorch_csv("0F0,,2BW0\n1F0,0B0,0STEP\n");
    ASSERT_FALSE(bad);
    ASSERT_EQ(bad.errors().size(), 3U) << to_string(bad.errors());
    EXPECT_EQ(bad.errors()[0].context, "row 1, cell 3");
    EXPECT_EQ(bad.errors()[1].message, "stage 0 is computed by rows 1 and 2");
    EXPECT_EQ(bad.errors()[1].context, "row 2, cell 2");
    EXPECT_EQ(bad.errors()[2].message, "'0STEP' is not an instruction of PyTorch's");
    EXPECT_FALSE(read_pytorch_csv("\n\n"));
    EXPECT_EQ(read_pytorch_csv("0F0,0B2000000000\n").error().message,
              "microbatch 2000000000, but only 2 computes");
    EXPECT_FALSE(read_pytorch_csv("0F2147483647\n"));
    const auto vast = parse_schedule(
        "trainwright-schedule 1\nstages 60000\nmicrobatches 2000000000\nsteps 2000000000\nrank 0\n0F0\n");
    ASSERT_TRUE(vast);
    EXPECT_FALSE(check_schedule(*vast).empty());
    EXPECT_EQ(read_pytorch_csv("0F0,3F0\n").error().message, "no rank computes stage 1");
    EXPECT_EQ(read_pytorch_csv_schedule("0F0,0SEND_F0,0B0\n", LoweringOptions::P2p::Single).error().message,
              "a transfer beyond the first or last stage");
}

}  // namespace
}  // namespace tw
