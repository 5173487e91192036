// Schedules read from PyTorch's CSV: computes alone, and with the file's own transfers.
#include "cli/schedule_run.hpp"

#include <fstream>

#include <gtest/gtest.h>

#include "plan/schedule/pytorch_csv.hpp"
#include "plan/schedule/text.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tw::cli {
namespace {

Result<ScheduleRun> run_text(const std::string& csv) {
    const TemporaryFolder folder;
    ScheduleOptions options;
    options.name = (folder.path() / "order.csv").string();
    std::ofstream(options.name) << csv;
    return run_schedule(options);
}

// pytorch/pytorch#172668, #188833: each rank sends before it receives, on one communicator.
TEST(ScheduleRun, TransfersOfAFileThatDeadlockAreShownInTheGrid) {
    const auto run = run_text(
        "0F0,0SEND_F0,0F1,0SEND_F1,2RECV_F0,2F0,2SEND_F0,2RECV_F1,2F1,2SEND_F1,2RECV_B0,2B0,2SEND_B0,2RECV_"
        "B1,"
        "2B1,2SEND_B1,0RECV_B0,0B0,0RECV_B1,0B1\n"
        "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1,3RECV_F0,3F0,3B0,3SEND_B0,3RECV_F1,3F1,3B1,3SEND_B1,"
        "1RECV_"
        "B0,1B0,1SEND_B0,1RECV_B1,1B1,1SEND_B1\n");
    ASSERT_FALSE(run);
    const std::string text = to_string(run.errors());
    EXPECT_NE(text.find("deadlock: "), std::string::npos) << text;
    EXPECT_NE(text.find("0SEND_F1"), std::string::npos) << text;
    EXPECT_NE(text.find("<-- ERROR HERE"), std::string::npos) << text;
}

TEST(ScheduleRun, TransfersOfAFileStandWhereItPutsThem) {
    const auto run = run_text(
        "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
        "1RECV_F0,1RECV_F1,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n");
    ASSERT_TRUE(run) << to_string(run.errors());
    std::string second;
    for (const Instruction& in : run->summary.schedule.programs[1].instructions)
        second += to_string(in) + " ";
    EXPECT_EQ(second, "1RECV_F0 1RECV_F1 1F0 1B0 1SEND_B0 1F1 1B1 1SEND_B1 ");
    // F 1, B 2: 1F0 to 2, 1B0 to 4, 1F1 to 5, 1B1 to 7, 0B1 to 9.
    EXPECT_EQ(to_seconds(run->summary.times.makespan).value, 9);
}

TEST(ScheduleRun, WrittenFilesRunAsTheyWereMade) {
    for (const char* name : {"1f1b", "gpipe", "zb-h1", "interleaved", "zb-v"}) {
        ScheduleOptions options;
        options.name = name;
        options.shape.ranks = 4;
        options.shape.microbatches = 8;
        options.shape.virtual_stages = 0;
        const auto made = run_schedule(options);
        ASSERT_TRUE(made) << to_string(made.errors());
        const auto read = run_text(write_pytorch_csv(made->summary.schedule));
        ASSERT_TRUE(read) << name << ": " << to_string(read.errors());
        EXPECT_EQ(read->summary.times.makespan, made->summary.times.makespan) << name;
        EXPECT_EQ(read->summary.ranks.size(), made->summary.ranks.size());
        for (std::size_t r = 0; r < 4; ++r)
            EXPECT_EQ(read->summary.ranks[r].peak_in_flight, made->summary.ranks[r].peak_in_flight) << name;
    }
}

}  // namespace
}  // namespace tw::cli
