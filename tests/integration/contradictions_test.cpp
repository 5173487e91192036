// What a tired user types: options that do nothing together, numbers that nothing can hold, documents of the
// wrong kind. Each is refused at once, with the option's own name, or answered in full.
#include <cmath>

#include <gtest/gtest.h>

#include "base/json.hpp"
#include "tests/golden/run_program.hpp"

namespace tw {
namespace {

using nlohmann::json;
using test::ProgramOutput;
using test::run_program;
using test::scratch;

TEST(Contradictions, OptionsThatDoNothingAreRefused) {
    const std::pair<std::string, std::string> cases[] = {
        {"simulate tiny.json --goodput 0.5", "--goodput: does nothing without --tokens"},
        {"compare tiny.json tiny.trace.json --zoom 1ms..2ms", "--zoom: does nothing without --svg"},
        {"run tiny.json --final-lr-share 0.5", "--final-lr-share: does nothing without --decay cosine"},
        {"run tiny.json --transport nccl", "--transport: nccl carries what GPUs hold"},
        {"run tiny.json --dropout 0.1", "--dropout: does nothing: the plan has none"},
        {"run tiny.json --momentum 0.5", "--momentum: does nothing: the plan's optimizer is adam"},
        {"run tiny.json --inject kill:rank=7,step=1", "--inject: rank 7 is not there"},
        {"run tiny.json --loss-scale 2", "--loss-scale: does nothing: the plan computes in bf16"},
        {"run tiny.json --loss-scale-window 2",
         "--loss-scale-window: does nothing: the plan computes in bf16"},
        {"run tiny.json --watchdog 0", "--watchdog: 0 s without anything happening would end every run"},
        {"schedule 1f1b -p 2 -m 4 --forward ''", "--forward: is empty"},
        {"schedule 1f1b -p 2 -m 4 --backward ''", "--backward: is empty"},
        {"schedule 1f1b -p 2 -m 4 --transfer ''", "--transfer: is empty"},
        {"schedule pipedream -p 2 -m 4 --replicas ''", "--replicas: is empty"},
        {"simulate ''", "PLAN: is empty"},
        {"plan --model gpt2-tiny --cluster cpu:2 --global-batch 8 --fix ''", "--fix: is empty"},
        {"plan --model gpt2-tiny --cluster cpu:2 --global-batch 8 --fix ' '", "--fix: '' is not of the form"},
        {"compare tiny.json tiny.trace.json --svg - --zoom 1h..2h", "--zoom: '1h..2h' begins after the step"},
        {"compare tiny.json tiny.trace.json --svg - --zoom -1ms..5ms",
         "--zoom: '-1ms..5ms' begins before the step"},
        {"compare tiny.json tiny.trace.json --svg - --zoom 5ms..5ms", "--zoom: '5ms..5ms' shows nothing"},
        {"launch tiny.json --to mpirun --momentum 0.5", "--momentum: does nothing"},
        {"launch tiny.json --to mpirun --partition gpu", "--partition: does nothing without --to slurm"},
        {"launch tiny.json --to slurm --hostfile hosts", "--hostfile: does nothing without --to mpirun"},
        {"launch tiny.json --to slurm --namespace n", "--namespace: does nothing without --to mpijob"},
        {"launch tiny.json --to slurm --time soon", "--time: 'soon' is no time limit of Slurm"},
        {"launch tiny.json --to slurm --time 1-", "--time: '1-' is no time limit of Slurm"},
        {"schedule 1f1b -p 2 -m 4 --group 2", "--group: groups of microbatches belong to interleaved"},
        {"schedule order.csv -p 4", "--stages: the file says how many"},
        {"schedule ./order.csv -m 4", "--microbatches: the file says how many"},
        {"schedule ./order --virtual 2", "--virtual: the file says how many"},
        {"schedule 1f1b -p 2 -m 2 --text --csv", "--text, --csv all write to stdout"},
        {"schedule 1f1b -p 2 -m 2 --text --json", "--text, --json all write to stdout"},
        {"simulate tiny.json --timeline --json", "--timeline, --json all write to stdout"},
        {"compare tiny.json tiny.trace.json --svg - --json", "--svg -, --json all write to stdout"},
        {"compare tiny.json tiny.trace.json -o table.md", "--output: does nothing without --plans"},
        {"compare tiny.json tiny.trace.json --ranks 1", "--ranks: does nothing without --plans"},
        {"compare tiny.json tiny.trace.json --each 1s", "--each: does nothing without --plans"},
        {"compare tiny.json tiny.trace.json --seed 1", "--seed: does nothing without --plans"},
        {"compare tiny.json tiny.trace.json --plans 2", "PREDICTED: does nothing beside --plans"},
        {"compare --plans 2 --profile x --tolerance 0.2", "--tolerance: does nothing beside --plans"},
        {"compare --profile x --svg x.svg", "--svg: does nothing beside --plans"},
        {"compare --plans 2 --skip-steps 1", "--skip-steps: does nothing beside --plans"},
        {"profile show h100 --budget 5s", "--budget: does nothing where one profile is shown"},
        {"profile show h100 -o x.json", "--output: does nothing where one profile is shown"},
        {"profile show h100 --tolerance 0.1", "--tolerance: does nothing where one profile is shown"},
        {"profile show h100 a100 --svg x.svg", "--svg: does nothing where two profiles are compared"},
        {"profile import x.log --fresh", "--fresh: does nothing with import"},
        {"profile import x.log --name DGX-1",
         "--name: a name consists of a-z, 0-9, '-', '_' and '.'; found 'DGX-1'"},
        {"profile -o x.json --device h100", "--device: does nothing where a profile is measured"},
        {"profile show h100 --svg - --json", "--svg -, --json all write to stdout"},
        {"plan --model gpt2-tiny --cluster cpu:2 --global-batch 8 --precision fp8",
         "--precision: cpu has no fp8 arithmetic"},
        {"layers mixtral-8x7b --fix tp=1048576,cp=1048576", "--fix: tp 1048576 * cp 1048576"},
        {"plan --model gpt2-tiny --cluster h100:2 --global-batch 8 --precision nvfp4",
         "--precision: h100 has no nvfp4 arithmetic"},
    };
    for (const auto& [command, message] : cases) {
        const ProgramOutput output = run_program(command);
        EXPECT_EQ(output.code, 2) << command << ": " << output.err;
        EXPECT_EQ(output.out, "") << command;
        EXPECT_NE(output.err.find(message), std::string::npos) << command << ": " << output.err;
    }
}

TEST(Contradictions, AnEmptySchemaIsNone) {
    const json plan = json::parse(test::read_file(TW_SOURCE_DIR "/tests/golden/inputs/tiny.json"));
    const std::string path = scratch("schema.json");
    for (const std::string pointer : {"/schema", "/model/document/schema", "/cluster/schema"}) {
        json changed = plan;
        changed[json::json_pointer(pointer)] = "";
        test::write_file(path, changed.dump());
        const ProgramOutput output = run_program("check " + path);
        EXPECT_EQ(output.code, 5) << pointer;
        EXPECT_NE(output.err.find(pointer + ": is '', expected 'trainwright/"), std::string::npos)
            << output.err;
    }
    test::write_file(path, R"({"schema": "trainwright/cluster", "version": 1,
                               "groups": [{"node": {"schema": "", "version": 1, "name": "n"}, "count": 1}]})");
    const ProgramOutput node = run_program("plan --model gpt2-tiny --global-batch 8 --cluster " + path);
    EXPECT_EQ(node.code, 5);
    EXPECT_NE(node.err.find("/groups/0/node/schema: is '', expected 'trainwright/node'"), std::string::npos)
        << node.err;
}

TEST(Contradictions, RanksOfRunsAndProfilesHelpToo) {
    for (const auto& [program, said] : {std::pair{"trainwright-exec", "trainwright-exec PLAN [options]"},
                                        std::pair{"trainwright-profile", "trainwright-profile [options]"}}) {
        const ProgramOutput help = run_program("--help", "", program);
        EXPECT_EQ(help.code, 0) << program;
        EXPECT_EQ(help.err, "") << program;
        EXPECT_NE(help.out.find(said), std::string::npos) << help.out;
    }
    const ProgramOutput none = run_program("none.json", "", "trainwright-exec");
    EXPECT_EQ(none.code, 5);
    EXPECT_EQ(none.err, "error: none.json: cannot be opened\n");
    EXPECT_EQ(run_program("''", "", "trainwright-exec").code, 2);
}

// The reader is gone long before the last step: the run comes to its end, and its exit code says what is
// missing.
TEST(Contradictions, ARunWhoseOutputIsLostSaysSo) {
    const std::string one = scratch("one.json"), trace = scratch("lost.trace.json"),
                      err = scratch("lost.err"), code = scratch("lost.code");
    ASSERT_EQ(
        run_program("plan --model gpt2-tiny --cluster cpu:1 --global-batch 4 --seq-len 32 -o " + one).code,
        0);
    for (const std::string& plan : {one, std::string(TW_SOURCE_DIR "/tests/golden/inputs/tiny.json")}) {
        const std::string command = "(" TW_BINARY_DIR "/bin/trainwright run " + plan +
                                    " --steps 20 --trace " + trace + " 2>" + err + "; echo $? >" + code +
                                    ") | true";
        std::filesystem::remove(trace);
        EXPECT_EQ(std::system(command.c_str()), 0);
        EXPECT_EQ(test::read_file(code), "1\n") << plan;
        EXPECT_NE(test::read_file(err).find("what was written to stdout got lost"), std::string::npos)
            << test::read_file(err);
        EXPECT_TRUE(std::filesystem::exists(trace)) << plan;
    }
}

TEST(Contradictions, DefaultsOfTheEnvironmentMayStandUnused) {
    // A default profile does not turn a comparison of traces into one of drawn plans.
    EXPECT_EQ(run_program("compare tiny.json tiny.trace.json", "TRAINWRIGHT_PROFILE=my.profile.json").code,
              0);
    EXPECT_EQ(run_program("profile show h100", "TRAINWRIGHT_BUDGET=5s").code, 0);
    EXPECT_EQ(run_program("simulate tiny.json", "TRAINWRIGHT_GOODPUT=0.5").code, 0);
    EXPECT_EQ(run_program("launch tiny.json --to mpirun", "TRAINWRIGHT_PARTITION=gpu").code, 0);
    for (const char* time : {"90", "01:30:00", "2-12", "1-12:00:00"})
        EXPECT_EQ(run_program("launch tiny.json --to slurm --time " + std::string(time)).code, 0) << time;
}

TEST(Contradictions, SchedulesSpeakInTheirOptions) {
    const std::string said = run_program("schedule 1f1b -p 2 -m 2 --virtual 2").err;
    EXPECT_NE(said.find("--virtual: 1f1b places one stage"), std::string::npos) << said;
    EXPECT_NE(said.find("hint: --virtual 1, or"), std::string::npos) << said;
}

TEST(Contradictions, TimesThatNothingHoldsAreRefused) {
    const ProgramOutput months = run_program("schedule 1f1b -p 2 -m 2000 --forward 10000 --backward 10000");
    EXPECT_EQ(months.code, 2);
    EXPECT_NE(months.err.find("days"), std::string::npos) << months.err;
    // Thousands of ranks that idle for hours: their sum is more than 64 bits of picoseconds.
    const ProgramOutput ranks = run_program("schedule 1f1b -p 4096 -m 2");
    EXPECT_EQ(ranks.code, 0);
    EXPECT_NE(ranks.out.find("bubble 100.0 % · simulated"), std::string::npos) << ranks.out.substr(0, 400);
}

TEST(Contradictions, CompletionAnswersWithADocumentToo) {
    const json answer = json::parse(run_program("completion bash --json").out);
    EXPECT_EQ(answer["schema"], "trainwright/completion");
    EXPECT_EQ(answer["script"], run_program("completion bash").out);
}

TEST(Contradictions, ADocumentOfAnotherKindIsOneError) {
    const std::string config = TW_SOURCE_DIR "/docs/examples/llama3-70b.json";
    for (const std::string& command :
         {"simulate " + config, std::string("simulate scenario.json"), "check " + config,
          std::string("simulate tiny.json --scenario tiny.json"), std::string("compare tiny.json tiny.json"),
          std::string("profile show ./tiny.json"),
          std::string("plan --model gpt2-tiny --global-batch 8 --cluster tiny.json")}) {
        const ProgramOutput output = run_program(command);
        EXPECT_EQ(output.code, 5) << command;
        std::size_t errors = 0;
        for (std::size_t at = output.err.find("error:"); at != std::string::npos;
             at = output.err.find("error:", at + 1))
            ++errors;
        EXPECT_EQ(errors, 1U) << command << ": " << output.err;
        EXPECT_NE(output.err.find("/schema"), std::string::npos) << command << ": " << output.err;
    }
}

TEST(Contradictions, AnEditedPlansViolationsComeBeforeItsDigest) {
    json plan = json::parse(test::read_file(TW_SOURCE_DIR "/tests/golden/inputs/tiny.json"));
    const std::string path = scratch("edited.json");
    plan["plan"]["microbatches"] = plan["plan"]["microbatches"].get<int>() + 1;
    test::write_file(path, plan.dump());
    const ProgramOutput output = run_program("check " + path);
    EXPECT_EQ(output.code, 5);
    EXPECT_NE(output.err.find("global batch"), std::string::npos) << output.err;
    EXPECT_EQ(output.err.find("order_digest"), std::string::npos) << output.err;
}

TEST(Contradictions, FixedSchedulesNameTheirOwnStages) {
    const std::string plan = "plan --model gpt2-tiny --cluster cpu:2 --global-batch 8 --fix ";
    const ProgramOutput lonely = run_program(plan + "pp=1,schedule=zb-v");
    EXPECT_EQ(lonely.code, 3);
    EXPECT_NE(lonely.err.find("pp 1 has no pipeline"), std::string::npos) << lonely.err;
    EXPECT_NE(lonely.err.find("pp=2"), std::string::npos) << lonely.err;
    const ProgramOutput deep = run_program(plan + "pp=2,vpp=3,schedule=zb-v");
    EXPECT_NE(deep.err.find("hint: vpp 2"), std::string::npos) << deep.err;
}

TEST(Contradictions, HintsNameWhatIsLegal) {
    const std::string plan = "plan --model gpt2-tiny --global-batch 8 --cluster ";
    const ProgramOutput tp = run_program(plan + "h100:8 --fix tp=3");
    EXPECT_EQ(tp.code, 3);
    EXPECT_NE(tp.err.find("use 6 or 24 devices"), std::string::npos) << tp.err;  // 9 are no whole nodes
    const std::string whole = scratch("whole.json");
    test::write_file(whole, R"({"schema": "trainwright/cluster", "version": 1,
                                "groups": [{"node": "dgx-h100", "count": 1}]})");
    const ProgramOutput sized = run_program(plan + whole + ":8");
    EXPECT_EQ(sized.code, 2);
    EXPECT_NE(sized.err.find("a cluster's document, which says its own"), std::string::npos) << sized.err;
    const std::string device = scratch("device.json");
    test::write_file(device, R"({"schema": "trainwright/cluster", "version": 1,
                                 "groups": [{"node": "h100", "count": 1}]})");
    const ProgramOutput node = run_program(plan + device);
    EXPECT_NE(node.err.find("a node of it is 'dgx-h100'"), std::string::npos) << node.err;
}

TEST(Contradictions, TheMemoryOfAMixedClusterIsOneRanks) {
    const std::string cluster = scratch("mixed.json"), plan = scratch("mixed-plan.json");
    test::write_file(cluster,
                     R"({"schema": "trainwright/cluster", "version": 1, "name": "mixed",
                         "groups": [{"node": "dgx-a100", "count": 1}, {"node": "dgx-1v", "count": 1}]})");
    const ProgramOutput found = run_program("plan --model gpt2-xl --cluster " + cluster +
                                            " --global-batch 64 --fix pp=2,dp=8,mbs=2,schedule=1f1b,zero=1 "
                                            "--top 1 -o " +
                                            plan);
    ASSERT_EQ(found.code, 0) << found.err;
    const ProgramOutput simulated = run_program("simulate " + plan);
    // The line's device and its capacity are one column of the table below it.
    const std::size_t at = simulated.out.find("reserved, ") + 10;
    const std::size_t of = simulated.out.find(" GiB on the device of ", at);
    ASSERT_NE(of, std::string::npos) << simulated.out;
    const double used = std::stod(simulated.out.substr(at)),
                 capacity = std::stod(simulated.out.substr(of + 22));
    const json report = json::parse(run_program("simulate " + plan + " --json").out);
    double fullest = 0;
    bool one_rank = false;
    for (const json& rank : report["memory"]) {
        const double device = rank["device_bytes"].get<double>(),
                     holds = rank["capacity_bytes"].get<double>();
        fullest = std::max(fullest, device / holds);
        one_rank |=
            std::abs(device / 1073741824 - used) < 0.06 && std::abs(holds / 1073741824 - capacity) < 0.06;
    }
    EXPECT_TRUE(one_rank) << simulated.out;
    EXPECT_NEAR(used / capacity, fullest, 0.01);
    EXPECT_NE(found.out.find("(" + std::to_string(static_cast<int>(100 * fullest)) + " %)"),
              std::string::npos)
        << found.out;
}

TEST(Contradictions, WhatEndsARunEndsItsRanks) {
    // Signals that reach this program alone: its ranks end too, and the exit code says why.
    for (const std::string signal : {"INT", "TERM", "HUP"}) {
        const std::string mark = "--seed 7" + std::to_string(getpid());
        const ProgramOutput output =
            run_program("run tiny.json --steps 1000000 " + mark,
                        "timeout --foreground -s " + signal + " --preserve-status 2");
        EXPECT_EQ(output.code, 130) << signal << ": " << output.err;
        EXPECT_NE(output.err.find("interrupted"), std::string::npos) << output.err;
        EXPECT_NE(std::system(("pgrep -f -- 'exe[c].*" + mark + "' > /dev/null").c_str()), 0) << signal;
    }
}

TEST(Contradictions, TheMemoryOfASmallModelIsTabledInItsOwnUnit) {
    const std::string out = run_program("simulate tiny.json").out;
    EXPECT_NE(out.find("Memory at each rank's peak (MiB)"), std::string::npos) << out;
    EXPECT_EQ(out.find("parameters         0.00"), std::string::npos) << out;
}

TEST(Contradictions, ATraceThatCannotBeWrittenEndsTheRunBeforeItBegins) {
    const ProgramOutput output = run_program("run tiny.json --steps 1 --trace /nowhere/at/all/run.json");
    EXPECT_EQ(output.code, 1);
    EXPECT_EQ(output.out, "");
    EXPECT_NE(output.err.find("--trace /nowhere/at/all/run.json: cannot be written"), std::string::npos)
        << output.err;
}

}  // namespace
}  // namespace tw
