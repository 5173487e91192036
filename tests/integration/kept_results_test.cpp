// Runs and searches take long: what they need is refused before they begin, and what they found is not lost.
#include <filesystem>

#include <gtest/gtest.h>

#include "base/json.hpp"
#include "tests/golden/run_program.hpp"

namespace tw {
namespace {

using nlohmann::json;
using test::ProgramOutput;
using test::run_program;
using test::scratch;

// A plan of one rank: no mpirun.
const std::string& one_rank() {
    static const std::string path = [] {
        const std::string plan = scratch("one-rank.json");
        EXPECT_EQ(run_program("plan --model gpt2-tiny --cluster cpu:1 --global-batch 4 --seq-len 32 --fix "
                              "recompute=none -o " +
                              plan)
                      .code,
                  0);
        return plan;
    }();
    return path;
}

// The sample of docs/cli.md, whose keys are not the ranks' own.
TEST(KeptResults, AConfigurationIsNotTheRanksOwn) {
    const std::string configuration = scratch("configuration.toml");
    test::write_file(configuration, "jobs = 2\nsteps = 2\n[plan]\ncluster = \"h100:64\"\nheadroom = 5\n");
    const std::string environment = "TRAINWRIGHT_CONFIG=" + configuration;
    const ProgramOutput run = run_program("run " + one_rank() + " --json", environment);
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_EQ(json::parse(run.out)["steps"].size(), 2U);
    const ProgramOutput rank = run_program(one_rank() + " --steps 3 --result " + scratch("rank.json"),
                                           environment + " TRAINWRIGHT_SEED=no", "trainwright-exec");
    EXPECT_EQ(rank.code, 0) << rank.err;
}

TEST(KeptResults, ARunDoesNotGoOnFromAnEarlierRunsCheckpoint) {
    const std::string folder = scratch("ckpt"), run = "run " + one_rank() + " --checkpoint " + folder;
    ASSERT_EQ(run_program(run + " --steps 4 --every 2").code, 0);
    const ProgramOutput again = run_program(run + " --steps 3 --restarts 1 --inject kill:rank=0,step=1");
    EXPECT_EQ(again.code, 2);
    EXPECT_NE(again.err.find("holds step 4 of an earlier run"), std::string::npos) << again.err;
    // What goes on with that run may keep its checkpoints there, and dies before the first of its own.
    const ProgramOutput on = run_program(run + " --steps 6 --resume " + folder +
                                         " --restarts 1 --json --inject kill:rank=0,step=5");
    ASSERT_EQ(on.code, 0) << on.err;
    EXPECT_NE(on.err.find("restart 1 of 1 from the beginning\n"), std::string::npos) << on.err;
    EXPECT_EQ(on.err.find("\n\n"), std::string::npos) << on.err;
    EXPECT_EQ(json::parse(on.out)["steps"].size(), 2U);
    EXPECT_TRUE(std::filesystem::exists(folder + "/step-00000006"));
}

TEST(KeptResults, OutputsThatCannotBeWrittenAreNamedBeforeTheWork) {
    for (const std::string command :
         {"plan --model gpt3-175b --cluster a100:1024 --global-batch 1536 -o /nowhere/plan.json",
          "profile -o /nowhere/my.profile.json", "simulate tiny.json --svg /nowhere/step.svg",
          "compare tiny.json tiny.trace.json --svg /nowhere/step.svg",
          "weights nothing -o /nowhere/model.safetensors"}) {
        const ProgramOutput output = run_program(command);
        EXPECT_EQ(output.code, 1) << command << output.err;
        EXPECT_EQ(output.out, "") << command;
        EXPECT_NE(output.err.find("cannot be written: there is no folder /nowhere"), std::string::npos)
            << command << ": " << output.err;
    }
    const ProgramOutput folder = run_program("simulate tiny.json --svg /tmp");
    EXPECT_NE(folder.err.find("--svg /tmp: is a folder"), std::string::npos) << folder.err;
    // A device is written in place, whatever its folder allows.
    EXPECT_EQ(run_program("simulate tiny.json --svg /dev/null").code, 0);
}

TEST(KeptResults, ASearchAnswersWhereItsBestPlanCannotBeKept) {
    const std::string search = "plan --model gpt2-tiny --cluster cpu:2 --global-batch 16 -o /dev/full";
    const ProgramOutput text = run_program(search);
    EXPECT_EQ(text.code, 1);
    EXPECT_NE(text.out.find("Proven best"), std::string::npos) << text.out;
    EXPECT_NE(text.err.find("/dev/full"), std::string::npos) << text.err;
    const ProgramOutput answer = run_program(search + " --json");
    EXPECT_EQ(answer.code, 1);
    EXPECT_EQ(json::parse(answer.out)["plans"].size(), 5U);
}

TEST(KeptResults, WhatCannotGoThroughAPipeIsRefused) {
    const std::pair<std::string, std::string> cases[] = {
        {"run -", "PLAN: the ranks cannot read this command's input"},
        {"run tiny.json --trace -", "--trace: cannot go to stdout"},
        {"weights nothing -o -", "--output: cannot go to stdout"},
        {"profile -o -", "--output: cannot go to stdout"}};
    for (const auto& [command, message] : cases) {
        const ProgramOutput output = run_program(command);
        EXPECT_EQ(output.code, 2) << command;
        EXPECT_NE(output.err.find(message), std::string::npos) << command << ": " << output.err;
    }
    EXPECT_EQ(run_program("-o -", "", "trainwright-profile").code, 2);
}

TEST(KeptResults, ATemporaryFolderThatIsNotThereIsNamed) {
    const ProgramOutput output = run_program("run " + one_rank() + " --steps 1 --json", "TMPDIR=/nowhere");
    EXPECT_EQ(output.code, 1);
    EXPECT_NE(output.err.find("TMPDIR: there is no folder for temporary files"), std::string::npos)
        << output.err;
}

}  // namespace
}  // namespace tw
