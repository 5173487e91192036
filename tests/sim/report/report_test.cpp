// Reports as text and JSON, and the cost of a run, on one small report with round numbers.
#include <gtest/gtest.h>

#include "sim/report/report_json.hpp"
#include "sim/report/report_text.hpp"
#include "sim/report/training_cost.hpp"

namespace tw {
namespace {

SimulationReport sample() {
    SimulationReport r;
    r.plan.mesh.pp = 2;
    r.plan.virtual_stages = 1;
    r.plan.stages.resize(2);
    r.step_time_s = 2;
    r.step_time_sigma_s = 0.1;
    r.makespan_s = 2.5;
    r.tokens_per_s = 50'000;
    r.samples_per_s = 25;
    r.mfu = 0.40;
    r.hfu = 0.53;
    r.flop_convention = "Megatron: causal half, head included";
    r.model_flops = 1e15;
    r.hardware_flops = 1.3e15;
    r.bubble_fraction = 0.25;
    for (int rank = 0; rank < 2; ++rank) {
        RankReport k;
        k.rank = rank;
        k.busy_s = 1.5;
        k.idle_s = 0.5;
        k.bubble_fraction = 0.25;
        k.breakdown.forward = 0.5;
        k.breakdown.backward = 0.9;
        k.breakdown.optimizer = 0.1;
        k.breakdown.exposed_pp = 0.1;
        k.breakdown.bubble = 0.4;
        k.peak_in_flight = 2 - rank;
        r.ranks.push_back(k);
        StageMemory m;
        m.rank = rank;
        m.addends = {{"parameters", 2.0 * 0x1p30, "2 bytes x 1.07e9"},
                     {"activations", (2 - rank) * 4.0 * 0x1p30, "2 in flight"}};
        if (rank == 1) m.addends.push_back({"logits", 0x1p29, "fp32"});
        m.peak_allocated_bytes = (rank == 0 ? 10.0 : 6.5) * 0x1p30;
        m.peak_reserved_bytes = m.peak_allocated_bytes + 0x1p30;
        m.device_bytes = m.peak_reserved_bytes + 0x1p29;
        m.capacity_bytes = 16.0 * 0x1p30;
        m.initialisation_peak_bytes = 4.0 * 0x1p30;
        m.peak_instant = "0B0";
        r.memory.push_back(m);
    }
    r.communication = {{"pp", 0.2, 0.1, 1e9, "point to point"}};
    r.critical_path = {"rank 0: 0F0 100 ms", "rank 1: 1F0 100 ms", "rank 1: 1B0..1B1 (2) 1.80 s"};
    r.energy_j = 1800;
    r.usd_per_step = 0.004;
    r.warnings = {"GEMM 17 x 64 lies outside the measured range"};
    r.peak_allocated_bytes = 10.0 * 0x1p30;
    r.peak_reserved_bytes = 11.0 * 0x1p30;
    r.peak_device_bytes = 11.5 * 0x1p30;
    return r;
}

TEST(ReportText, Golden) {
    ReportTextOptions options;
    options.width = 92;
    options.critical_path_lines = 2;
    const SimulationReport report = sample();
    EXPECT_EQ(report_text(report, options), summary(report.plan) + R"(

step time     2.00 s (80 %: 1.88 s to 2.13 s), from barrier to barrier
one step      2.50 s alone
throughput    50.0k tokens/s, 25 samples/s
utilisation   MFU 40.0 %, HFU 53.0 % (Megatron: causal half, head included)
bubble        25.0 % of the devices' time idle between instructions
peak memory   10.0 GiB allocated, 11.0 GiB reserved, 11.5 GiB on the device of 16.0 GiB: fits
energy        1.80 kJ a step
price         $0.0040 a step
executable    yes

Where the time goes (mean of the ranks)
  forward                      500 ms  25.0 %  ██████████
  backward                     900 ms  45.0 %  ██████████████████
  optimizer                    100 ms   5.0 %  ▓▓
  exposed pipeline             100 ms   5.0 %  ▒▒
  waiting for other ranks      400 ms  20.0 %  ░░░░░░░░

Ranks
  rank    busy    idle  bubble  in flight  weight versions
  ────  ──────  ──────  ──────  ─────────  ───────────────
     0  1.50 s  500 ms  25.0 %          2                1
     1  1.50 s  500 ms  25.0 %          1                1

Memory at each rank's peak (GiB)
  rank  parameters  activations  logits  allocated  reserved  device  capacity
  ────  ──────────  ───────────  ──────  ─────────  ────────  ──────  ────────
     0        2.00         8.00       -      10.00     11.00   11.50     16.00
     1        2.00         4.00    0.50       6.50      7.50    8.00     16.00

The peak of rank 0, at 0B0
  part            bytes  formula
  ───────────  ────────  ────────────────
  parameters   2.00 GiB  2 bytes x 1.07e9
  activations  8.00 GiB  2 in flight
  before the first step 4.00 GiB: the model states; building the model is not modelled

Communication (of each kind, the rank that has most)
  kind  time a step  exposed  hidden  bytes sent  algorithm
  ────  ───────────  ───────  ──────  ──────────  ──────────────
  pp         200 ms   100 ms  50.0 %     1.00 GB  point to point

Critical path
  rank 0: 0F0 100 ms
  rank 1: 1F0 100 ms
  and 1 more

Warnings
  GEMM 17 x 64 lies outside the measured range
)");
}

TEST(ReportText, SaysThatCachedBlocksAreGivenBack) {
    SimulationReport report = sample();
    EXPECT_EQ(report_headline(report, {}).find("given back"), std::string::npos);
    report.memory[0].device_bytes = report.memory[0].peak_reserved_bytes - 1;
    EXPECT_NE(report_headline(report, {}).find("of 16.0 GiB, cached blocks given back: fits"),
              std::string::npos);
}

// Shares are of the step, not of the parts that are named.
TEST(ReportText, SharesAreOfTheStep) {
    SimulationReport report = sample();
    report.step_time_s = 4;
    report.ranks[0].breakdown.slowed = report.ranks[1].breakdown.slowed = 0.2;
    const std::string text = time_breakdown_text(report, {});
    EXPECT_NE(text.find("  forward                      500 ms  12.5 %"), std::string::npos) << text;
    EXPECT_NE(text.find("  slowed by collectives        200 ms   5.0 %"), std::string::npos) << text;
}

TEST(ReportText, NamesWhatLiesBesideTheAllocatorAndThePaddedVocabulary) {
    SimulationReport report = sample();
    report.memory[0].beside = {{"cached blocks", 1.0 * 0x1p30, "freed and still reserved"},
                               {"context", 0x1p29, "CUDA's"}};
    report.plan.mesh.tp = 2;
    report.vocabulary = 32002;
    report.padded_vocabulary = 32256;
    const std::string text = memory_text(report, {});
    EXPECT_NE(text.find("  allocated      10.0 GiB  all of the above\n"
                        "  cached blocks  1.00 GiB  freed and still reserved\n"
                        "  context         512 MiB  CUDA's\n"
                        "  on the device  11.5 GiB  allocated and what is beside it\n"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("vocabulary 32,002 padded to 32,256 (254 dummy rows), 16,128 a rank\n"),
              std::string::npos)
        << text;
    const Json json = report_to_json(report);
    EXPECT_EQ(json["padded_vocabulary"], 32256);
    EXPECT_EQ(json["memory"][0]["beside"][1]["name"], "context");
    EXPECT_FALSE(report_to_json(SimulationReport{}).contains("critical_path"));
}

TEST(ReportText, LongFormulasGoOnBelow) {
    SimulationReport report = sample();
    report.memory[0].addends[1].formula =
        "4 microbatches x (8 blocks x 1.14 GiB) + 3 x 1.02 GiB for weight gradients to come";
    ReportTextOptions narrow;
    narrow.width = 80;
    EXPECT_NE(memory_text(report, narrow)
                  .find("  activations  8.00 GiB  4 microbatches x (8 blocks x 1.14 GiB) + 3 x\n"
                        "                         1.02 GiB for weight gradients to come\n"),
              std::string::npos)
        << memory_text(report, narrow);
}

TEST(ReportText, SaysWhatDoesNotFitOrRun) {
    SimulationReport report = sample();
    report.fits = false;
    report.memory[0].capacity_bytes = 8.0 * 0x1p30;
    report.not_executable = {"context parallelism", "fp8"};
    const std::string text = report_headline(report, {});
    EXPECT_NE(text.find("of 8.00 GiB: does not fit"), std::string::npos);
    EXPECT_NE(text.find("executable    no: context parallelism\n                  fp8\n"), std::string::npos);
    ReportTextOptions ascii;
    ascii.unicode = false;
    for (const char c : time_breakdown_text(report, ascii))
        EXPECT_LT(static_cast<unsigned char>(c), 128);
    EXPECT_FALSE(report_text(SimulationReport{}).empty());
}

TEST(ReportText, JoinsEqualRanks) {
    SimulationReport report = sample();
    report.ranks.assign(4, report.ranks[0]);
    report.memory.assign(4, report.memory[0]);
    for (int k = 0; k < 4; ++k) {
        report.ranks[static_cast<std::size_t>(k)].rank = k;
        report.memory[static_cast<std::size_t>(k)].rank = k;
    }
    report.ranks[3].peak_in_flight = 1;
    const std::string text = report_text(report);
    EXPECT_NE(text.find("\n   0-2  1.50 s"), std::string::npos) << text;
    EXPECT_NE(text.find("\n   0-3        2.00"), std::string::npos) << text;
}

TEST(ReportText, TurnsTheMemoryTableWhereItIsTooWide) {
    ReportTextOptions narrow;
    narrow.width = 60;
    const std::string text = memory_text(sample(), narrow);
    EXPECT_NE(text.find("  rank             0      1\n"
                        "  ───────────  ─────  ─────\n"
                        "  parameters    2.00   2.00\n"
                        "  activations   8.00   4.00\n"
                        "  logits           -   0.50\n"
                        "  allocated    10.00   6.50\n"),
              std::string::npos)
        << text;
}

TEST(ReportJson, StableKeysInOrder) {
    const Json json = report_to_json(sample());
    std::vector<std::string> keys;
    for (const auto& [key, value] : json.items())
        keys.push_back(key);
    EXPECT_EQ(keys, (std::vector<std::string>{"plan",
                                              "summary",
                                              "step_time_s",
                                              "step_time_sigma_s",
                                              "makespan_s",
                                              "boundary",
                                              "tokens_per_s",
                                              "samples_per_s",
                                              "mfu",
                                              "hfu",
                                              "flop_convention",
                                              "model_flops",
                                              "hardware_flops",
                                              "bubble_fraction",
                                              "peak_allocated_bytes",
                                              "peak_reserved_bytes",
                                              "peak_device_bytes",
                                              "fits",
                                              "executable",
                                              "not_executable",
                                              "energy_j",
                                              "usd_per_step",
                                              "per_rank",
                                              "memory",
                                              "communication",
                                              "critical_path",
                                              "warnings"}));
    EXPECT_EQ(json["step_time_s"], 2.0);
    EXPECT_EQ(json["executable"], true);
    EXPECT_EQ(json["per_rank"][1]["peak_in_flight"], 1);
    EXPECT_EQ(json["per_rank"][0]["breakdown"]["exposed_pp_s"], 0.1);
    EXPECT_EQ(json["memory"][1]["addends"][2]["name"], "logits");
    EXPECT_EQ(json["memory"][1]["addends"][2]["formula"], "fp32");
    EXPECT_EQ(json["communication"][0]["hidden_s"], 0.1);
    EXPECT_EQ(report_to_json(SimulationReport{})["energy_j"], nullptr);
    const Json document = report_document_to_json(sample());
    EXPECT_EQ(document["schema"], "trainwright/report");
    EXPECT_EQ(document["version"], 1);
    EXPECT_EQ(document.dump(), report_document_to_json(sample()).dump());
}

TEST(TrainingCost, FromTokensToDaysEnergyAndMoney) {
    // 100,000 tokens a step of 2 s: 1e9 tokens are 10,000 steps, 20,000 s; at 80 % goodput 25,000 s.
    const TrainingCost cost = *training_cost(sample(), {1e9, 16, 0.8});
    EXPECT_DOUBLE_EQ(cost.steps, 10'000);
    EXPECT_DOUBLE_EQ(cost.seconds, 25'000);
    EXPECT_DOUBLE_EQ(cost.seconds_sigma, 1'250);
    EXPECT_DOUBLE_EQ(cost.device_hours, 25'000.0 / 3600 * 16);
    EXPECT_DOUBLE_EQ(cost.energy_kwh, 10'000 * 1800 / 3.6e6 / 0.8);
    EXPECT_DOUBLE_EQ(cost.usd, 50);
    EXPECT_EQ(training_cost_text({1e9, 16, 0.8}, cost),
              "1.00B tokens: 10.0k steps, 6.94 h ± 21 min, 111 device hours, 6.25 kWh, $50");
    EXPECT_EQ(training_cost_to_json(cost)["wall_s"], 25'000.0);
    EXPECT_DOUBLE_EQ(training_cost(sample(), {1e9 + 1, 16, 1})->steps, 10'001);
}

TEST(TrainingCost, NamesEveryBadValue) {
    const auto result = training_cost(SimulationReport{}, {0, -1, 2});
    ASSERT_FALSE(result.has_value());
    std::vector<std::string> contexts;
    for (const Error& error : result.errors())
        contexts.push_back(error.context);
    EXPECT_EQ(contexts,
              (std::vector<std::string>{"tokens", "devices", "step_time_s", "tokens_per_s", "goodput"}));
}

}  // namespace
}  // namespace tw
