// The program from end to end: documents that one command writes are what the next one reads, and both say
// the same.
#include <filesystem>
#include <map>

#include <gtest/gtest.h>

#include "base/json.hpp"
#include "tests/golden/run_program.hpp"

namespace tw {
namespace {

using nlohmann::json;
using test::ProgramOutput;
using test::run_program;
using test::scratch;

const char* const kTinyPlan = "plan --model gpt2-tiny --cluster cpu:2 --global-batch 16";

TEST(Program, PlanAnswersWithItsSearchAndItsPlans) {
    const ProgramOutput output = run_program(std::string(kTinyPlan) + " --top 3 --json");
    ASSERT_EQ(output.code, 0) << output.err;
    EXPECT_EQ(output.err, "");
    const json answer = json::parse(output.out);
    EXPECT_EQ(answer["schema"], "trainwright/plans");
    const json& search = answer["search"];
    EXPECT_GT(search["configurations"].get<int>(), 10);
    EXPECT_GT(search["simulated"].get<int>(), 0);
    EXPECT_TRUE(search["proven_optimal"].get<bool>());
    EXPECT_GE(search["wall_s"].get<double>(), 0);
    EXPECT_TRUE(search["pruned"].is_object());
    ASSERT_EQ(answer["plans"].size(), 3U);
    double before = 0;
    for (const json& plan : answer["plans"]) {
        EXPECT_GE(plan["step_time_s"].get<double>(), before);
        before = plan["step_time_s"].get<double>();
        EXPECT_NEAR(plan["tokens_per_s"].get<double>(), 16 * 128 / before, 1e-6 * 16 * 128 / before);
        EXPECT_GT(plan["mfu"].get<double>(), 0);
        EXPECT_LT(plan["mfu"].get<double>(), 1);
        EXPECT_GE(plan["bubble_fraction"].get<double>(), 0);
        EXPECT_GT(plan["peak_allocated_bytes"].get<double>(), 0);
        EXPECT_GE(plan["peak_reserved_bytes"].get<double>(), plan["peak_allocated_bytes"].get<double>());
        EXPECT_TRUE(plan["executable"].is_boolean());
        EXPECT_TRUE(plan["tied"].is_boolean());
        EXPECT_TRUE(plan["plan"].is_object());
    }
}

TEST(Program, TheSameQuestionHasTheSameAnswerForAnyNumberOfThreads) {
    const auto answer = [](const std::string& jobs) {
        json parsed = json::parse(run_program(std::string(kTinyPlan) + " --json --jobs " + jobs).out);
        parsed["search"].erase("wall_s");
        return parsed.dump();
    };
    const std::string one = answer("1");
    EXPECT_EQ(one, answer("2"));
    EXPECT_EQ(one, answer("5"));
}

TEST(Program, SimulateSaysWhatPlanSaid) {
    const std::string plan = scratch("plan.json");
    const ProgramOutput found = run_program(std::string(kTinyPlan) + " --fix pp=2 --json -o " + plan);
    ASSERT_EQ(found.code, 0) << found.err;
    const json best = json::parse(found.out)["plans"][0];
    const ProgramOutput simulated = run_program("simulate " + plan + " --json");
    ASSERT_EQ(simulated.code, 0) << simulated.err;
    const json report = json::parse(simulated.out);
    for (const char* key :
         {"step_time_s", "step_time_sigma_s", "mfu", "bubble_fraction", "peak_allocated_bytes", "plan"}) {
        EXPECT_EQ(report[key], best[key]) << key;
    }
    for (const json& rank : report["per_rank"]) {
        double sum = 0;
        for (const auto& [part, seconds] : rank["breakdown"].items())
            sum += seconds.get<double>();
        EXPECT_NEAR(sum, report["step_time_s"].get<double>(), 1e-3 * sum);
    }
}

TEST(Program, TheBreakdownAddsUpWhereBackwardsAreSplit) {
    const std::string plan = scratch("split.json");
    for (const std::string schedule : {"zb-h1", "zb-v", "dualpipev"}) {
        ASSERT_EQ(
            run_program(std::string(kTinyPlan) + " --fix pp=2,schedule=" + schedule + " -o " + plan).code, 0)
            << schedule;
        const json report = json::parse(run_program("simulate " + plan + " --json").out);
        for (const json& rank : report["per_rank"]) {
            double sum = 0;
            for (const auto& [part, seconds] : rank["breakdown"].items())
                sum += seconds.get<double>();
            EXPECT_NEAR(sum, report["step_time_s"].get<double>(), 0.02 * sum) << schedule;
        }
    }
}

TEST(Program, PlansGoThroughPipes) {
    const ProgramOutput piped =
        run_program(std::string(kTinyPlan) + " -o - | '" TW_BINARY_DIR "/bin/trainwright' simulate - --json");
    ASSERT_EQ(piped.code, 0) << piped.err;
    EXPECT_EQ(piped.out.find("\"schema\": \"trainwright/plan\""), std::string::npos);  // stdin was the plan
}

TEST(Program, PicturesAndTracesAreWritten) {
    const std::string svg = scratch("step.svg"), trace = scratch("step.json");
    const ProgramOutput output = run_program("simulate tiny.json --svg " + svg + " --trace " + trace);
    ASSERT_EQ(output.code, 0) << output.err;
    EXPECT_EQ(test::read_file(svg).rfind("<svg", 0), 0U);
    const json events = json::parse(test::read_file(trace));
    EXPECT_GT(events["traceEvents"].size(), 20U);
    const ProgramOutput drawn = run_program("schedule dualpipev -p 4 -m 8 --svg -");
    EXPECT_EQ(drawn.code, 0);
    EXPECT_EQ(drawn.out.rfind("<svg", 0), 0U);
}

// The largest group of a profile may span nodes: what is drawn says so, the title does not claim otherwise.
TEST(Program, CollectivesOfAProfileAreDrawnWithTheirNodes) {
    const ProgramOutput drawn = run_program("profile show h100 --svg -");
    ASSERT_EQ(drawn.code, 0) << drawn.err;
    EXPECT_NE(drawn.out.find(">Collectives of the largest group<"), std::string::npos);
}

TEST(Program, ASlowRankSlowsTheStep) {
    const ProgramOutput output = run_program("simulate tiny.json --scenario scenario.json --json");
    ASSERT_EQ(output.code, 0) << output.err;
    const json scenario = json::parse(output.out)["scenario"];
    EXPECT_GT(scenario["slowdown"].get<double>(), 1.1) << scenario;
    EXPECT_LT(scenario["slowdown"].get<double>(), 1.6) << scenario;
    EXPECT_NE(run_program("simulate tiny.json --scenario scenario.json").out.find("slowdown"),
              std::string::npos);
}

TEST(Program, WrittenSchedulesAreReadBack) {
    const std::string text = scratch("schedule.txt");
    test::write_file(text, run_program("schedule zb-h1 -p 4 -m 8 --text").out);
    const ProgramOutput schedule = run_program("inspect " + text);
    EXPECT_EQ(schedule.code, 0) << schedule.err;
    EXPECT_NE(schedule.out.find("zb-h1: 4 ranks"), std::string::npos) << schedule.out;
    const std::string csv = scratch("schedule.csv");
    test::write_file(csv, run_program("schedule zb-h1 -p 4 -m 8 --csv").out);
    const ProgramOutput again = run_program("schedule " + csv + " --json");
    ASSERT_EQ(again.code, 0) << again.err;
    EXPECT_EQ(json::parse(again.out)["makespan"], 27.0);
}

TEST(Program, ExplainRanksTheNeighbours) {
    const ProgramOutput output = run_program("explain tiny.json --json --top 50");
    ASSERT_EQ(output.code, 0) << output.err;
    const json answer = json::parse(output.out);
    ASSERT_GE(answer["changes"].size(), 5U);
    bool fits = true;
    double before = 0;
    for (const json& change : answer["changes"]) {
        if (fits && !change["fits"].get<bool>()) before = 0;
        fits = change["fits"].get<bool>();
        EXPECT_GE(change["step_time_s"].get<double>(), before);
        before = change["step_time_s"].get<double>();
    }
    ASSERT_GE(answer["hardware"].size(), 3U);
    for (const json& change : answer["hardware"])
        EXPECT_LE(change["step_time_change"].get<double>(), 0.01) << change;
}

// What a rule refuses of a document names the file and the member.
TEST(Program, RefusedPlansNameTheirPlace) {
    for (const std::string command : {"check", "simulate", "run", "explain", "launch --to mpirun"}) {
        const ProgramOutput output = run_program(command + " illegal.json");
        EXPECT_EQ(output.code, 5) << command;
        for (const char* place :
             {"error: illegal.json: /plan/mesh/tp: num_attention_heads 4 is not a multiple",
              "error: illegal.json: /plan/virtual_stages: interleaved needs"})
            EXPECT_NE(output.err.find(place), std::string::npos) << command << ": " << output.err;
    }
    const ProgramOutput piped = run_program("check - < illegal.json");
    EXPECT_NE(piped.err.find("error: <stdin>: /plan/mesh/tp: "), std::string::npos) << piped.err;
    const ProgramOutput megatron = run_program("check illegal.json --for megatron");
    EXPECT_NE(megatron.err.find("error: illegal.json: --tensor-model-parallel-size: "), std::string::npos)
        << megatron.err;
}

// A folder that cannot be looked into does not hide the rest, nor itself.
TEST(Program, InspectSaysWhichFolderItCannotSee) {
    namespace fs = std::filesystem;
    const fs::path folder = scratch("folders");
    fs::create_directories(folder / "a");
    fs::copy_file(TW_SOURCE_DIR "/tests/golden/inputs/tiny.json", folder / "z.json");
    // Deeper than any path may be long: nobody's rights look into it.
    const std::string script = scratch("deep.sh");
    test::write_file(script, "cd '" + (folder / "a").string() +
                                 "'\nn=$(printf '%0200d' 0)\nfor i in {1..25}; do mkdir $n && cd $n; done\n");
    ASSERT_EQ(std::system(("bash " + script).c_str()), 0);
    const ProgramOutput output = run_program("inspect " + folder.string());
    EXPECT_EQ(output.code, 5);
    EXPECT_NE(output.err.find("cannot be looked into: "), std::string::npos) << output.err.substr(0, 300);
    EXPECT_NE(output.out.find("gpt2-tiny on cpu:2"), std::string::npos) << output.out;
}

TEST(Program, DiffOfAPlanWithItselfIsEmpty) {
    const ProgramOutput same = run_program("diff tiny.json tiny.json");
    EXPECT_EQ(same.code, 0) << same.err;
    EXPECT_EQ(same.out, "the plans are equal\n");
    const std::string other = scratch("other.json");
    ASSERT_EQ(run_program(std::string(kTinyPlan) + " --fix pp=2,schedule=gpipe,mbs=2 -o " + other).code, 0);
    const json difference = json::parse(run_program("diff tiny.json " + other + " --json").out);
    bool schedule = false;
    for (const json& field : difference["fields"])
        schedule |= field["field"] == "schedule" && field["second"] == "gpipe";
    EXPECT_TRUE(schedule) << difference["fields"];
}

// An order that costs decide stands in the plan: one document has a key more than the other.
TEST(Program, DiffComparesByKeysAndByModel) {
    const std::string with_order = scratch("zb-auto.json"), plain = scratch("1f1b.json");
    const std::string fixed = std::string(kTinyPlan) + " --fix pp=2,mbs=2,recompute=none,schedule=";
    ASSERT_EQ(run_program(fixed + "zb-auto -o " + with_order).code, 0);
    ASSERT_EQ(run_program(fixed + "1f1b -o " + plain).code, 0);
    const auto fields = [](const std::string& first, const std::string& second) {
        std::map<std::string, std::pair<std::string, std::string>> rows;
        const json answer = json::parse(run_program("diff " + first + " " + second + " --json").out);
        for (const json& field : answer["fields"])
            rows[field["field"]] = {field["first"], field["second"]};
        return rows;
    };
    const auto rows = fields(plain, with_order), back = fields(with_order, plain);
    ASSERT_TRUE(rows.contains("schedule") && rows.contains("order")) << rows.size();
    EXPECT_EQ(rows.at("schedule").second, "zb-auto");
    EXPECT_EQ(rows.at("order"), (std::pair<std::string, std::string>{"-", "2 entries"}));
    EXPECT_EQ(back.at("order"), (std::pair<std::string, std::string>{"2 entries", "-"}));
    EXPECT_FALSE(rows.contains(""));
    json wider = json::parse(test::read_file(TW_SOURCE_DIR "/tests/golden/inputs/tiny.json"));
    wider["model"]["document"]["vocab"] = 1024;
    const std::string other = scratch("wider.json");
    test::write_file(other, wider.dump());
    const auto models = fields("tiny.json", other);
    EXPECT_EQ(models.size(), 2U);
    EXPECT_EQ(models.count("model/vocab"), 1U);
    EXPECT_EQ(models.at("padded vocabulary"), (std::pair<std::string, std::string>{"512", "1024"}));
}

TEST(Program, NothingFeasibleIsExit3AndSaysWhatIsMissing) {
    const ProgramOutput memory = run_program("plan --model llama3-70b --cluster h100:2 --global-batch 8");
    EXPECT_EQ(memory.code, 3);
    EXPECT_EQ(memory.out, "");
    EXPECT_NE(memory.err.find("memory"), std::string::npos) << memory.err;
    const ProgramOutput batch =
        run_program("plan --model gpt2-tiny --cluster cpu:2 --global-batch 3 --fix dp=2 --json");
    EXPECT_EQ(batch.code, 3);
    const json answer = json::parse(batch.out);
    EXPECT_TRUE(answer["plans"].empty());
    EXPECT_FALSE(answer["missing"].empty());
}

TEST(Program, MistypedNamesAreAnsweredTogetherWithTheNearest) {
    const ProgramOutput output =
        run_program("plan --model lama3-70b --cluster h10:64 --global-batch 8 --fix tpp=8");
    EXPECT_EQ(output.code, 2);
    EXPECT_EQ(output.out, "");
    for (const char* hint : {"did you mean 'llama3-70b'?", "did you mean 'h100'?", "did you mean 'tp'?"})
        EXPECT_NE(output.err.find(hint), std::string::npos) << output.err;
}

TEST(Program, ATimeLimitIsNoFailureWhereSomePlanWasFound) {
    const ProgramOutput output =
        run_program("plan --model gpt3-175b --cluster a100:1024 --global-batch 1536 --json --time-limit 1ms");
    const json answer = json::parse(output.out);
    EXPECT_FALSE(answer["search"]["proven_optimal"].get<bool>());
    EXPECT_EQ(output.code, answer["plans"].empty() ? 1 : 0) << output.err;
}

TEST(Program, AnInterruptEndsWith130) {
    const ProgramOutput output =
        run_program("plan --model llama3-405b --cluster h100:16384 --global-batch 2048 --seq-len 8192",
                    "timeout -s INT --preserve-status 0.3");
    if (output.code == 0) GTEST_SKIP() << "the search was over before the signal came";
    EXPECT_EQ(output.code, 130) << output.err;
}

// timeout sends its signal to the command and then to its process group: twice, as one request to end.
TEST(Program, WhatTimeoutEndsAnswersWithTheBestPlansSoFar) {
    for (const std::string signal : {"TERM", "INT"}) {
        const ProgramOutput output = run_program(
            "plan --model deepseek-v3 --cluster h100:4096 --global-batch 8192 --objective pareto --json",
            "timeout -s " + signal + " --preserve-status 3");
        ASSERT_EQ(output.code, 130) << signal << ": " << output.err;
        const json answer = json::parse(output.out, nullptr, false);
        ASSERT_FALSE(answer.is_discarded()) << signal << ": " << output.out;
        EXPECT_TRUE(answer["search"]["interrupted"]) << signal;
        EXPECT_FALSE(answer["search"]["proven_optimal"]) << signal;
        EXPECT_FALSE(answer["plans"].empty()) << signal;
    }
}

// The two do not always come as one: where the first is already handled, the second is another signal.
TEST(Program, ASignalThatRepeatsTheFirstDoesNotTakeTheAnswer) {
    const ProgramOutput output = run_program(
        "plan --model deepseek-v3 --cluster h100:4096 --global-batch 8192 --objective pareto --json & "
        "p=$!; sleep 2; kill -TERM $p; sleep 0.02; kill -TERM $p; wait $p");
    EXPECT_EQ(output.code, 130) << output.err;
    const json answer = json::parse(output.out, nullptr, false);
    ASSERT_FALSE(answer.is_discarded()) << output.out;
    EXPECT_FALSE(answer["plans"].empty());
}

TEST(Program, ColourIsForTerminalsOrOnDemand) {
    const auto escapes = [](const std::string& text) { return text.find('\x1b') != std::string::npos; };
    EXPECT_FALSE(escapes(run_program("models").out));
    EXPECT_TRUE(escapes(run_program("models --color always").out));
    EXPECT_TRUE(escapes(run_program("--color always models").out));
    EXPECT_FALSE(escapes(run_program("models --color never").out));
    EXPECT_TRUE(escapes(run_program("--color=always schedul").err));
    EXPECT_FALSE(escapes(run_program("models", "NO_COLOR=1").out));
}

TEST(Program, CompletionScriptsAreLegal) {
    for (const std::string shell : {"bash", "zsh", "fish"}) {
        const ProgramOutput written = run_program("completion " + shell);
        ASSERT_EQ(written.code, 0);
        if (std::system(("command -v " + shell + " > /dev/null").c_str()) != 0) continue;
        const std::string script = scratch("completion." + shell);
        test::write_file(script, written.out);
        EXPECT_EQ(std::system((shell + " -n " + script).c_str()), 0) << shell;
    }
}

TEST(Program, AByteOrderMarkIsSkippedEverywhere) {
    const std::string marked = scratch("marked.json");
    test::write_file(marked,
                     "\xEF\xBB\xBF" + test::read_file(TW_SOURCE_DIR "/tests/golden/inputs/tiny.json"));
    for (const std::string& command : {"check " + marked, "inspect " + marked}) {
        const ProgramOutput output = run_program(command);
        EXPECT_EQ(output.code, 0) << command << ": " << output.err;
    }
    EXPECT_EQ(run_program("check " + marked).out, run_program("check tiny.json").out);
}

TEST(Program, NothingThatATerminalObeysIsEchoed) {
    const std::string document = scratch("bad.json");
    test::write_file(document, "{\"schema\": \"\\u001b[2J\", \"\xff\": 1}");
    for (const std::string& command :
         {"check " + document, "inspect " + document,
          std::string("plan --model '\x1b[2J\xff' --cluster '\xff\x07' --global-batch 1"),
          std::string("models '\xff\x1b'"), std::string("inspect '\xff\x1b'")}) {
        const ProgramOutput output = run_program(command);
        EXPECT_NE(output.code, 0) << command;
        for (const char c : output.out + output.err)
            EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << command << ": " << output.err;
    }
}

TEST(Program, EveryCommandAnswersWithOneDocument) {
    for (const std::string command :
         {"models", "clusters", "schedules", "collectives", "schedule 1f1b -p 2 -m 2", "simulate tiny.json",
          "explain tiny.json", "diff tiny.json tiny.json", "inspect tiny.json", "check tiny.json"}) {
        const ProgramOutput output = run_program(command + " --json");
        EXPECT_EQ(output.code, 0) << command << ": " << output.err;
        const json document = json::parse(output.out, nullptr, false);
        ASSERT_TRUE(document.is_object()) << command;
        EXPECT_EQ(document["schema"].get<std::string>().rfind("trainwright/", 0), 0U) << command;
        EXPECT_EQ(document["version"], 1) << command;
    }
}

// GPUs in the plan's cluster: the launch file asks for them, and this machine's processors are not asked to
// hold what only they can.
TEST(Program, APlanForGpusIsLaunchedOnGpus) {
    const std::string plan = scratch("gpus.plan.json");
    ASSERT_EQ(run_program(
                  "plan --model llama3-70b --cluster h100:64 --global-batch 64 --fix tp=8,zero=1 -o " + plan)
                  .code,
              0);
    const ProgramOutput file = run_program("launch " + plan + " --to mpirun");
    EXPECT_NE(file.out.find("--backend cuda --transport nccl"), std::string::npos) << file.out << file.err;
    const ProgramOutput said = run_program("launch " + plan + " --to mpirun --transport nccl");
    EXPECT_EQ(said.out, file.out) << said.err;
    EXPECT_EQ(run_program("launch " + plan + " --to mpirun --transport nccl --backend cpu").code, 2);
    const ProgramOutput asked = run_program("launch " + plan + " --to mpirun --backend cpu");
    EXPECT_EQ(asked.out.find("--backend"), std::string::npos) << asked.out << asked.err;
    const ProgramOutput here = run_program("run " + plan + " --steps 1");
    EXPECT_EQ(here.code, 3);
    EXPECT_NE(here.err.find("weights, gradients and optimizer states of llama3-70b take 1"),
              std::string::npos)
        << here.err;
}

}  // namespace
}  // namespace tw
