// parity [--cases N] [--output FILE] [--show]: trains the cases of the covering array beside one process,
// ranks being threads, and compares losses: step 0 within 1e-6, step 20 within 1e-4, relative. --cases takes
// the first N alone. Prints the table, or writes it to FILE; --show prints every step's difference. Exits 1
// where a case differs by more.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "tests/parity/parity_cases.hpp"

namespace tw {
namespace {

constexpr std::int64_t kSteps = 21;
constexpr double kFirst = 1e-6, kLast = 1e-4;
constexpr std::size_t kAtLeast = 40;

struct Row {
    parity::Case one;
    double first = 0, last = 0, largest = 0, seconds = 0;
    [[nodiscard]] bool good() const { return first <= kFirst && last <= kLast; }
};

using Losses = std::vector<double>;

Losses losses_of(const testing::RunSetup& setup) {
    TrainOptions options = testing::options_of(kSteps);
    options.watchdog_s = 300;
    const TrainResult result = testing::run_threads(testing::document_of(setup), options);
    Losses losses;
    for (const StepResult& step : result.steps)
        losses.push_back(step.loss);
    return losses;
}

std::string table(const std::vector<Row>& rows, const parity::Cover& cover, double seconds) {
    std::size_t good = 0;
    for (const Row& row : rows)
        good += row.good() ? 1 : 0;
    std::string text = fmt::format(
        "# Parity\n\nWritten by `scripts/parity`: losses of {} plans beside those of one process, fp32, "
        "ranks as "
        "threads of one process over the transport `local`; tiny models (4 blocks, hidden 32, sequences of "
        "16, "
        "batch 8, AdamW at 3e-3, clipping at 1). The plans are a pairwise covering array over layout, "
        "schedule, "
        "ZeRO, recomputation, sequence parallelism, tying and model (experts with and without dropping): "
        "each of "
        "the "
        "{} "
        "pairs of values that occur together in any of the {} legal combinations is in at least one of "
        "them.\n\n"
        "Asked: step 0 within {:.0e}, step 20 within {:.0e}, relative. **{} of {} hold.** {:.0f} s on two "
        "shared "
        "processors.\n\n"
        "| layout | schedule | ZeRO | recompute | sequence parallel | tied | model | step 0 | step 20 | "
        "largest of "
        "all steps |\n|---|---|---|---|---|---|---|---:|---:|---:|\n",
        rows.size(), cover.pairs, cover.legal, kFirst, kLast, good, rows.size(), seconds);
    for (const Row& row : rows) {
        const testing::RunSetup& s = row.one.setup;
        text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {:.1e} | {:.1e}{} | {:.1e} |\n",
                            row.one.layout, s.schedule, parity::zero_of(row.one), to_string(s.recompute),
                            s.sequence_parallel ? "yes" : "", s.tied ? "yes" : "", parity::model_of(row.one),
                            row.first, row.last, row.good() ? "" : " **beyond**", row.largest);
    }
    return text;
}

int run(int argc, char** argv) {
    std::size_t count = 0;
    std::string output;
    bool show = false;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        if (word == "--cases" && i + 1 < argc) {
            count = static_cast<std::size_t>(std::stoul(argv[++i]));
        } else if (word == "--output" && i + 1 < argc) {
            output = argv[++i];
        } else if (word == "--show") {
            show = true;
        } else {
            std::fputs("usage: parity [--cases N] [--output FILE] [--show]\n", stderr);
            return 2;
        }
    }
    const auto begin = std::chrono::steady_clock::now();
    const auto seconds = [begin] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    parity::Cover cover = parity::covering_cases(kAtLeast);
    if (count > 0) cover.cases.resize(std::min(count, cover.cases.size()));
    std::map<std::pair<int, bool>, Losses> references;
    std::vector<Row> rows;
    bool good = true;
    for (const parity::Case& one : cover.cases) {
        Losses& reference = references[{static_cast<int>(one.setup.family), one.setup.tied}];
        if (reference.empty()) reference = losses_of(parity::alone(one.setup));
        Row row{.one = one};
        const double started = seconds();
        const Losses losses = losses_of(one.setup);
        row.seconds = seconds() - started;
        if (losses.size() != reference.size()) {
            std::fprintf(stderr, "%s: %zu steps\n", parity::describe(one).c_str(), losses.size());
            return 1;
        }
        std::string every;
        for (std::size_t i = 0; i < losses.size(); ++i) {
            const double difference = std::abs(losses[i] / reference[i] - 1);
            row.largest = std::max(row.largest, difference);
            if (i == 0) row.first = difference;
            row.last = difference;
            every += fmt::format(" {:.0e}", difference);
        }
        good &= row.good();
        std::fprintf(stderr, "%zu of %zu: %s: %.1e, %.1e, %.1f s%s%s\n", rows.size() + 1, cover.cases.size(),
                     parity::describe(one).c_str(), row.first, row.last, row.seconds,
                     row.good() ? "" : " BEYOND", show ? every.c_str() : "");
        rows.push_back(std::move(row));
    }
    const std::string text = table(rows, cover, seconds());
    if (output.empty()) {
        std::fputs(text.c_str(), stdout);
    } else {
        std::ofstream(output) << text;
    }
    return good ? 0 : 1;
}

}  // namespace
}  // namespace tw

int main(int argc, char** argv) {
    return tw::run(argc, argv);
}
