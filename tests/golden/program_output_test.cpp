// What the program prints, word for word: the files of tests/golden/expected. TRAINWRIGHT_UPDATE_GOLDEN=1
// rewrites them and shows what changed.
#include <gtest/gtest.h>

#include "plan/schedule/generator.hpp"
#include "tests/golden/run_program.hpp"

namespace tw {
namespace {

struct Case {
    std::string name;  // of the file
    std::string arguments;
};

std::vector<Case> all_cases() {
    std::vector<Case> cases{
        {"help", "--help"},
        {"version", "--version"},
        {"version-json", "--version --json"},
        {"no-command", ""},
        {"help-plan", "plan --help"},
        {"help-simulate", "simulate --help"},
        {"help-explain", "explain --help"},
        {"help-diff", "diff --help"},
        {"help-schedule", "schedule --help"},
        {"help-inspect", "inspect --help"},
        {"models-llama", "models llama3"},
        {"models-llama-json", "models llama3-8b --json"},
        {"schedules", "schedules"},
        {"schedules-json", "schedules --json"},
        {"collectives", "collectives"},
        {"schedule-json", "schedule zb-h1 --stages 4 --microbatches 8 --forward 1 --backward 2 --json"},
        {"schedule-pipedream-json",
         "schedule pipedream -p 2 -m 4 --backward-input 1 --backward-weight 0.5 --json"},
        {"schedule-replicas", "schedule pipedream -p 2 -m 6 --replicas 3,1"},
        {"schedule-units", "schedule gpipe -p 2 -m 2 --forward 1.5ms --backward 3ms --transfer 250us"},
        {"schedule-uneven-parts", "schedule zb-h2 -p 4 -m 8 --backward 3 --backward-weight 1"},
        {"schedule-text", "schedule 1f1b -p 2 -m 2 --text"},
        {"schedule-csv", "schedule 1f1b -p 2 -m 2 --csv"},
        {"schedule-file", "schedule order.csv"},
        {"error-schedule-file", "schedule late.csv"},
        {"error-schedule-no-file", "schedule ./nothing.csv"},
        {"schedule-colour", "schedule 1f1b -p 2 -m 2 --color always"},
        {"error-unknown-command", "schedul zb-h1"},
        {"error-unknown-option", "schedule zb-h1 --stagse 4 --microbatches 8"},
        {"error-unknown-root-option", "--jsn models"},
        {"error-unknown-schedule", "schedule zb-h3 -p 4 -m 8"},
        {"error-missing-options", "schedule 1f1b"},
        {"error-missing-value", "schedule 1f1b -m 4 --stages"},
        {"error-given-twice", "schedule 1f1b -m 4 --stages 4 --stages 5"},
        {"error-many-at-once", "schedule 1f1b -p x -m 0 --virtual 1.5"},
        {"error-bad-times", "schedule 1f1b -p 2 -m 2 --forward nan --backward -1 --transfer 5parsecs"},
        {"error-backward-parts",
         "schedule 1f1b -p 2 -m 2 --backward 3 --backward-input 1 --backward-weight 1"},
        {"error-schedule-shape", "schedule interleaved -p 4 -m 9 --virtual 2"},
        {"error-schedule-too-large", "schedule gpipe -p 4096 -m 1048576"},
        {"error-replicas", "schedule pipedream -p 2 -m 4 --replicas 2,x"},
        {"error-color", "models --color sometimes"},
        {"error-no-such-model", "models nosuchmodel"},
        {"error-extra-argument", "clusters all"},
        {"error-plan-names",
         "plan --model gpt2-tiny --cluster cpu:2 --global-batch 8 --fix tpp=8 --precision bf61"},
        {"error-plan-fix",
         "plan --model gpt2-tiny --cluster cpu:2 --global-batch 8 --fix tpp=8,sp=maybe,mbs=4..2,pp=x"},
        {"error-plan-missing", "plan --model gpt2-tiny"},
        {"error-no-file", "simulate missing.json"},
        {"error-truncated", "simulate truncated.json"},
        {"error-not-a-plan", "simulate not-a-plan.json"},
        {"error-many-in-plan", "simulate many-errors.json"},
        {"error-illegal-plan", "simulate illegal.json"},
        {"error-completion", "completion tcsh"},
        {"inspect-plan", "inspect tiny.json"},
        {"inspect-many", "inspect tiny.json truncated.json missing.json"},
        {"inspect-ours", "inspect ./tiny.json ./illegal.json ./scenario.json ./order.csv ./late.csv"},
        {"inspect-json", "inspect truncated.json --json"},
        {"check", "check tiny.json"},
        {"check-illegal-megatron", "check illegal.json --for megatron"},
        {"check-illegal-json", "check illegal.json --json"},
        {"help-compare", "compare --help"},
        {"compare", "compare tiny.json tiny.trace.json"},
        {"compare-json", "compare tiny.trace.json tiny.trace.json --json"},
        {"compare-outside", "compare tiny.json tiny.trace.json --tolerance 0.01 --skip-steps 2"},
        {"error-compare-zoom", "compare tiny.json tiny.trace.json --svg - --zoom 5ms..2ms"},
        {"error-compare-skip", "compare tiny.json tiny.trace.json --skip-steps 9"},
        {"error-check-framework", "check tiny.json --for megatrn"},
        {"help-export", "export --help"},
        {"export-megatron", "export tiny.json --to megatron"},
        {"export-torchtitan", "export uneven.json --to torchtitan --json"},
        {"export-torchtitan-flags", "export tiny-llama.json --to torchtitan --flags"},
        {"export-deepspeed", "export tiny.json --to deepspeed"},
        {"export-accelerate", "export tiny.json --to accelerate"},
        {"export-nanotron", "export tiny-llama.json --to nanotron"},
        {"error-export-none", "export tiny.json"},
        {"error-export-flags", "export tiny.json --to deepspeed --flags"},
        {"error-export-csv", "export uneven.json --to torchtitan"},
        {"error-export-megatron", "export uneven.json --to megatron"},
        {"error-plan-for", "plan --model gpt2-tiny --cluster cpu:2 --global-batch 8 --for torchtitn"},
        {"error-plan-for-optimizer",
         "plan --model llama3.2-1b --cluster cpu:2 --global-batch 8 --for nanotron --optimizer lamb"},
        {"error-plan-for-model", "plan --model gpt2-tiny --cluster cpu:2 --global-batch 8 --for torchtitan"},
        {"error-plan-for-recompute",
         "plan --model llama3-8b --cluster h100:16 --global-batch 32 --for torchtitan --fix "
         "recompute=selective"},
        {"error-plan-tp", "plan --model llama3-8b --cluster h100:16 --global-batch 32 --fix tp=5"},
        {"error-plan-cp", "plan --model llama3-8b --cluster h100:16 --global-batch 32 --fix cp=3"},
        {"error-plan-money", "plan --model gpt2-tiny --cluster cpu:2 --global-batch 8 --objective money"},
        {"inspect-misspelt", "inspect misspelt-config.json"},
        {"error-misspelt-cluster", "plan --model gpt2-tiny --cluster misspelt-cluster.json --global-batch 8"},
        {"error-trace-ending", "simulate tiny.json --trace step.json.gz --svg step.png"},
        {"error-misspelt-scenario", "simulate tiny.json --scenario misspelt-scenario.json"},
        {"help-layers", "layers --help"},
        {"layers", "layers gpt2-tiny --fix tp=2,sp=on,mbs=2 --attention unfused --dropout"},
        {"layers-blocks", "layers gpt2-tiny --fix tp=2,sp=on,mbs=2 --blocks blocks.txt"},
        {"error-layers-fix", "layers llama3-8b --fix dp=2,tp=2..4"},
        {"error-layers-tp", "layers llama3-8b --fix tp=3"},
        {"error-flops", "simulate tiny.json --flops pal"},
        {"error-run-sync", "run tiny.json --density 0.1 --staleness 3 --local-steps 4 --block 64"},
    };
    for (const std::string& schedule : schedule_names()) {
        cases.push_back({"schedule-" + schedule, "schedule " + schedule + " --stages 4 --microbatches 8"});
    }
    return cases;
}

class ProgramOutputTest : public testing::TestWithParam<Case> {};

TEST_P(ProgramOutputTest, IsAsKept) {
    const test::ProgramOutput output = test::run_program(GetParam().arguments);
    std::string text = "$ trainwright " + GetParam().arguments + "\n" + output.out;
    if (!output.err.empty()) text += "--- stderr\n" + output.err;
    text += "--- exit " + std::to_string(output.code) + "\n";

    const std::filesystem::path kept = TW_SOURCE_DIR "/tests/golden/expected/" + GetParam().name + ".txt";
    if (text == test::read_file(kept)) return;
    const std::filesystem::path now = test::scratch_folder() / "now.txt";
    test::write_file(now, text);
    const int differs = std::system(("diff -uN '" + kept.string() + "' '" + now.string() + "'").c_str());
    if (const char* update = std::getenv("TRAINWRIGHT_UPDATE_GOLDEN"); update != nullptr && *update == '1') {
        test::write_file(kept, text);
        return;
    }
    ADD_FAILURE() << kept.filename() << " differs (" << differs
                  << "); TRAINWRIGHT_UPDATE_GOLDEN=1 rewrites it";
}

INSTANTIATE_TEST_SUITE_P(All, ProgramOutputTest, testing::ValuesIn(all_cases()), [](const auto& test) {
    std::string name = test.param.name;
    for (char& c : name)
        c = c == '-' ? '_' : c;
    return name;
});

TEST(ProgramOutput, EveryKeptFileHasItsCase) {
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(TW_SOURCE_DIR "/tests/golden/expected")) {
        files += entry.is_regular_file() ? 1U : 0U;
    }
    EXPECT_EQ(files, all_cases().size());
}

}  // namespace
}  // namespace tw
