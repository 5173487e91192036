#include "cli/compare_plans.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <numeric>

#include <fmt/format.h>
#include <unistd.h>

#include "base/si_format.hpp"
#include "cli/common/interrupt.hpp"
#include "cli/common/load_plan.hpp"
#include "cli/common/scratch_folder.hpp"
#include "cli/core_watch.hpp"
#include "cli/sampled_plans.hpp"
#include "cli/start_ranks.hpp"
#include "models/hardware/profile_document_json.hpp"
#include "models/hardware/sample_statistics.hpp"
#include "plan/trace/analyze.hpp"
#include "plan/trace/trace_json.hpp"
#include "real_exec/runtime/rank_layout.hpp"
#include "sim/scenario/shared_cores.hpp"
#include "sim/simulator.hpp"

namespace tw::cli {
namespace {

namespace fs = std::filesystem;

// Steps that do not count: memory is mapped, products are compiled, pipelines fill.
constexpr int kWarmUp = 2;
// The targets: half of the plans within this share or within twice what two equal runs differ by, all within
// the second; bubbles in points; memory; more ranks than cores.
constexpr double kMedianTarget = 0.05, kWorstTarget = 0.15, kBubbleTarget = 0.03, kMemoryTarget = 0.02,
                 kCrowdedTarget = 0.20;

struct Row {
    std::string model, plan;
    int ranks = 1;
    bool crowded = false;                                // more ranks than cores
    double predicted_s = 0, measured_s = 0, spread = 0;  // spread: of two equal runs
    double predicted_bubble = 0, measured_bubble = 0;
    double predicted_bytes = 0, measured_bytes = 0;  // of the rank with the largest error
    double slower = 1;  // how much longer the pace's reference took during the runs than undisturbed
    double others = 0;  // cores that other programs took meanwhile
    std::array<double, 2> step_s{};  // of the two runs, and what was seen beside them
    std::array<CoreWatch::Seen, 2> seen;
    // The reference's own time is known the better the more was seen.
    void note_pace(const CoreWatch& watch) {
        std::array<double, 2> by{}, own{};
        for (std::size_t i = 0; i < by.size(); ++i) {
            by[i] = watch.slower(seen[i], ranks == 1);
            own[i] = step_s[i] / by[i];
        }
        slower = (by[0] + by[1]) / 2;
        spread = 2 * std::abs(own[0] - own[1]) / (own[0] + own[1]);
    }
    // At the machine's pace during the runs, and as it was predicted.
    [[nodiscard]] double step_error() const { return predicted_s * slower / measured_s - 1; }
    [[nodiscard]] double bare_error() const { return predicted_s / measured_s - 1; }
    [[nodiscard]] double memory_error() const { return predicted_bytes / measured_bytes - 1; }
};

// Mean over the steps that count without the tenth that took most and the tenth that took least: states that
// come and go weigh as long as they last, as in the mean of the pace.
double mean_step(const Json& result) {
    std::vector<double> times;
    for (const Json& step : result.at("steps"))
        times.push_back(step.at("step_time_s").get<double>());
    if (static_cast<int>(times.size()) > kWarmUp) times.erase(times.begin(), times.begin() + kWarmUp);
    std::sort(times.begin(), times.end());
    const auto cut = static_cast<std::ptrdiff_t>(times.size() / 10);
    const double sum = std::accumulate(times.begin() + cut, times.end() - cut, 0.0);
    return sum / static_cast<double>(std::ssize(times) - 2 * cut);
}

// Median of the idle share: a step that something else disturbed on one rank leaves the others idle.
double median_bubble(const Trace& trace) {
    std::vector<double> shares;
    for (const StepAnalysis& step : analyze_steps(trace)) {
        if (step.step >= kWarmUp) shares.push_back(step.bubble_fraction);
    }
    return median_of(shares);
}

// "PP1 DP0 TP0"
int pipeline_rank_of(const std::string& name) {
    return name.rfind("PP", 0) == 0 ? std::atoi(name.c_str() + 2) : 0;
}

class PlanRun {
  public:
    PlanRun(const PlanDocument& document, const ScratchFolder& scratch, int cores, CoreWatch& watch,
            const std::atomic<bool>& stop)
        : document_(document), scratch_(scratch), cores_(cores), watch_(watch), stop_(stop) {}

    Result<Row> compare(double seconds) {
        Row row;
        row.model = fmt::format("{} s{} v{}{}", document_.model_name, document_.plan.seq_len,
                                document_.graph.vocab, document_.graph.tied_embeddings ? " tied" : "");
        row.ranks = world_size(document_.plan);
        row.plan = fmt::format("{} m{}{}", summary(document_.plan), document_.plan.microbatches,
                               document_.plan.sequence_parallel ? " sp" : "");
        row.crowded = row.ranks > cores_;
        auto environment = make_environment(document_.graph, document_.cluster);
        if (!environment) return environment.errors();
        const Simulator simulator(*environment);
        SimulateOptions options;
        options.trace = true;
        auto report = simulator.simulate(document_.plan, options);
        if (!report) return report.errors();
        row.predicted_s = report->step_time_s;
        if (row.crowded) {
            const auto shared = shared_core_step(simulator, document_.plan, cores_);
            if (!shared) return shared.errors();
            row.predicted_s = *shared;
        }
        const int steps = kWarmUp + static_cast<int>(std::clamp(seconds / 2 / row.predicted_s, 4.0, 200.0));
        row.predicted_bubble = analyze_steps(report->trace).back().bubble_fraction;
        // Two runs beside which other programs rested; of so many those beside which they rested most.
        constexpr std::size_t kMostRuns = 4;
        constexpr double kRest = 0.1;
        std::vector<Run> runs;
        const auto rested = [](const Run& r) { return r.seen.others <= kRest; };
        while (runs.size() < kMostRuns && std::count_if(runs.begin(), runs.end(), rested) < 2) {
            Run one;
            watch_.begin();
            if (const Status ran = run(steps); !ran) return ran.errors();
            one.seen = watch_.seen();
            one.step_s = mean_step(result_);
            const auto trace = read_trace(scratch_.file("trace.json"));
            if (!trace) return trace.errors();
            one.bubble = median_bubble(align_clocks(*trace));
            if (runs.empty()) compare_memory(*report, row);
            runs.push_back(one);
        }
        std::stable_sort(runs.begin(), runs.end(),
                         [](const Run& a, const Run& b) { return a.seen.others < b.seen.others; });
        const Run &a = runs[0], &b = runs[1];
        row.others = std::max(a.seen.others, b.seen.others);
        row.measured_s = (a.step_s + b.step_s) / 2;
        row.measured_bubble = (a.bubble + b.bubble) / 2;
        row.step_s = {a.step_s, b.step_s};
        row.seen = {a.seen, b.seen};
        row.note_pace(watch_);
        return row;
    }

  private:
    struct Run {
        double step_s = 0, bubble = 0;
        CoreWatch::Seen seen;
    };

    static Error interrupted() { return {ErrorCode::Interrupted, "interrupted", "compare", ""}; }

    Status run(int steps) {
        if (stop_) return interrupted();
        const std::string plan = scratch_.file("plan.json"), result = scratch_.file("result.json");
        if (const Status written = write_text_file(plan, plan_document_to_json(document_).dump(1)); !written)
            return written;
        const auto ended = start_ranks(world_size(document_.plan),
                                       {plan, "--steps", std::to_string(steps), "--trace",
                                        scratch_.file("trace.json"), "--result", result, "--quiet"});
        if (!ended) return ended.errors();
        if (stop_ || ended->exit_code == exit_code(ErrorCode::Interrupted)) return interrupted();
        if (ended->exit_code != 0)
            return Error{ErrorCode::Failure, fmt::format("a rank ended with exit code {}", ended->exit_code),
                         summary(document_.plan), ""};
        auto json = read_json_file(result);
        if (!json) return json.errors();
        result_ = std::move(*json);
        return ok();
    }

    void compare_memory(const SimulationReport& report, Row& row) const {
        double worst = -1;
        for (const Json& rank : result_.at("ranks")) {
            const int pipeline = pipeline_rank_of(rank.at("name").get<std::string>());
            const auto measured = rank.at("peak_allocated_bytes").get<double>();
            for (const StageMemory& m : report.memory) {
                if (m.rank != pipeline) continue;
                const double error = std::abs(m.peak_allocated_bytes / measured - 1);
                if (error <= worst) continue;
                worst = error;
                row.predicted_bytes = m.peak_allocated_bytes;
                row.measured_bytes = measured;
            }
        }
    }

    const PlanDocument& document_;
    const ScratchFolder& scratch_;
    int cores_;
    CoreWatch& watch_;
    const std::atomic<bool>& stop_;
    Json result_;
};

struct Verdict {
    double median = 0, worst = 0, spread = 0, bubble = 0, memory = 0, crowded = 0;
    double bare_median = 0, bare_worst = 0;  // of step times as they were predicted, whatever the pace
    [[nodiscard]] double allowed() const { return std::max(kMedianTarget, 2 * spread); }
    [[nodiscard]] bool met() const {
        return median <= allowed() && worst <= kWorstTarget && bubble <= kBubbleTarget &&
               memory <= kMemoryTarget && crowded <= kCrowdedTarget;
    }
};

Verdict judge(const std::vector<Row>& rows) {
    Verdict v;
    std::vector<double> errors, bare, spreads;
    for (const Row& row : rows) {
        const double error = std::abs(row.step_error());
        v.memory = std::max(v.memory, std::abs(row.memory_error()));
        if (row.crowded) {
            v.crowded = std::max(v.crowded, error);
            continue;
        }
        errors.push_back(error);
        bare.push_back(std::abs(row.bare_error()));
        v.bare_worst = std::max(v.bare_worst, bare.back());
        spreads.push_back(row.spread);
        v.worst = std::max(v.worst, error);
        v.bubble = std::max(v.bubble, std::abs(row.predicted_bubble - row.measured_bubble));
    }
    v.median = median_of(errors);
    v.bare_median = median_of(bare);
    v.spread = median_of(spreads);
    return v;
}

std::string signed_percent(double share) {
    return fmt::format("{:+.1f} %", 100 * share);
}

std::vector<std::string> cells(const Row& r) {
    return {
        r.model,
        r.plan,
        std::to_string(r.ranks),
        format_duration(r.predicted_s),
        format_duration(r.measured_s),
        fmt::format("{:.2f}", r.slower),
        signed_percent(r.step_error()),
        fmt::format("{:.1f} %", 100 * r.spread),
        r.crowded ? "-" : fmt::format("{:.1f} / {:.1f} %", 100 * r.predicted_bubble, 100 * r.measured_bubble),
        format_bytes(r.measured_bytes),
        signed_percent(r.memory_error())};
}

const std::vector<std::string> kHead = {"model",     "plan",     "ranks",
                                        "predicted", "measured", "slower",
                                        "error",     "spread",   "bubble (predicted / measured)",
                                        "memory",    "error"};

// Each line is of the plans that it is about; where none was drawn, there is no line.
std::vector<std::string> verdict_lines(const Verdict& v, const std::vector<Row>& rows) {
    const auto crowded = std::count_if(rows.begin(), rows.end(), [](const Row& r) { return r.crowded; });
    const bool any_alone = crowded < std::ssize(rows);
    const auto line = [](const char* what, double value, double target) {
        return fmt::format("{}: {:.1f} % ({} {:.1f} %)", what, 100 * value,
                           value <= target ? "within" : "outside", 100 * target);
    };
    std::vector<std::string> lines;
    if (any_alone) {
        lines = {line("step time, median error", v.median, v.allowed()),
                 line("step time, largest error", v.worst, kWorstTarget),
                 fmt::format("two equal runs differ by {:.1f} % (median)", 100 * v.spread),
                 fmt::format("without regard to the pace: median {:.1f} %, largest {:.1f} %",
                             100 * v.bare_median, 100 * v.bare_worst),
                 line("bubble, largest difference in points", v.bubble, kBubbleTarget)};
    }
    lines.push_back(line("peak allocated memory, largest error", v.memory, kMemoryTarget));
    if (crowded > 0) lines.push_back(line("more ranks than cores, largest error", v.crowded, kCrowdedTarget));
    return lines;
}

std::string markdown(const std::vector<Row>& rows, const Verdict& v, const MeasuredEnvironment& e,
                     const std::string& drawn_by) {
    std::string text = "# Predicted and run, on processors\n\n";
    text += fmt::format(
        "{} plans drawn {}, predicted from it and run twice by the "
        "executor on the "
        "same machine: {}, {} cores. Profile of {}: {}.\n\nWritten by `trainwright compare --plans {}`.\n\n",
        rows.size(), drawn_by, e.processor, e.cores, e.date, e.noise_verdict, rows.size());
    const auto taken = std::count_if(rows.begin(), rows.end(), [](const Row& r) { return r.others > 0.1; });
    text +=
        "*slower*: how much longer a small product of the profiler, timed on each core 40 times a second, "
        "took "
        "during the runs than it does when nobody disturbs the core (other programs; other machines on the "
        "core's sibling thread). Errors are of the prediction times that.";
    if (taken > 0)
        text += fmt::format(
            " Beside the runs of {} of the {} plans other programs took more than a tenth of a core.", taken,
            rows.size());
    text += "\n\n";
    for (const std::string& line : verdict_lines(v, rows))
        text += "- " + line + "\n";
    text += "\n|";
    for (const std::string& head : kHead)
        text += " " + head + " |";
    text += "\n|";
    for (std::size_t i = 0; i < kHead.size(); ++i)
        text += i < 2 ? "---|" : "---:|";
    text += "\n";
    for (const Row& row : rows) {
        text += "|";
        for (const std::string& cell : cells(row))
            text += " " + cell + " |";
        text += "\n";
    }
    return text;
}

Json to_json(const std::vector<Row>& rows, const Verdict& v, std::uint64_t seed) {
    Json json = document("plan-comparison");
    json["seed"] = fmt::format("{:016x}", seed);
    json["median_step_time_error"] = v.median;
    json["worst_step_time_error"] = v.worst;
    json["run_to_run_spread"] = v.spread;
    json["worst_bubble_difference"] = v.bubble;
    json["worst_memory_error"] = v.memory;
    json["worst_crowded_error"] = v.crowded;
    json["within_targets"] = v.met();
    json["plans"] = Json::array();
    for (const Row& r : rows)
        json["plans"].push_back({{"model", r.model},
                                 {"plan", r.plan},
                                 {"ranks", r.ranks},
                                 {"predicted_step_time_s", r.predicted_s},
                                 {"measured_step_time_s", r.measured_s},
                                 {"run_to_run_spread", r.spread},
                                 {"slower", r.slower},
                                 {"others_cores", r.others},
                                 {"predicted_bubble_fraction", r.predicted_bubble},
                                 {"measured_bubble_fraction", r.measured_bubble},
                                 {"predicted_peak_allocated_bytes", r.predicted_bytes},
                                 {"measured_peak_allocated_bytes", r.measured_bytes}});
    return json;
}

Result<std::vector<int>> parse_ranks(const std::string& text) {
    std::vector<int> ranks;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        int value = 0;
        const char* const last = text.data() + end;
        if (std::from_chars(text.data() + begin, last, value).ptr != last) value = 0;
        if (value != 1 && value != 2 && value != 4 && value != 8)
            return Error{ErrorCode::Usage, "'" + text + "' is no list of 1, 2, 4 and 8", "--ranks",
                         "--ranks 1,2"};
        ranks.push_back(value);
        begin = end + 1;
    }
    return ranks;
}

}  // namespace

int compare_plans(const ComparePlansOptions& options, Console& console) {
    const auto profile = load_profile_document(options.profile);
    if (!profile) return console.fail(profile.errors());
    if (!profile->environment)
        return console.fail(
            {{ErrorCode::Usage, "the profile was measured on no machine: there is nothing to run on",
              "--profile " + options.profile, "trainwright profile -o my.profile.json"}});
    const auto ranks = parse_ranks(options.ranks);
    if (!ranks) return console.fail(ranks.errors());
    PlanDraw draw;
    draw.plans = options.plans;
    draw.ranks = *ranks;
    ProfileDocument frozen = *profile;
    frozen.samples.clear();
    draw.seed = options.seed >= 0 ? static_cast<std::uint64_t>(options.seed)
                                  : hash_text(profile_document_text(frozen));
    const std::string drawn_by = options.seed >= 0
                                     ? fmt::format("with seed {}", options.seed)
                                     : fmt::format("by the hash of the profile ({:016x})", draw.seed);
    const auto plans = draw_plans(draw, fs::absolute(options.profile).string());
    if (!plans) return console.fail(plans.errors());
    const InterruptGuard interrupt;
    const auto scratch = ScratchFolder::create("compare");
    if (!scratch) return console.fail(scratch.errors());
    CoreWatch watch;
    std::vector<Row> rows;
    Errors stopped;  // what has been measured until then is shown all the same
    for (const PlanDocument& plan : *plans) {
        auto row = PlanRun(plan, **scratch, profile->environment->cores, watch, interrupt.flag())
                       .compare(options.seconds_each);
        if (!row) {
            stopped = row.errors();
            break;
        }
        rows.push_back(std::move(*row));
        const Row& r = rows.back();
        console.note(fmt::format(
            "{:>2}/{} {:<34} {:<36} {:>9} {:>9} {:>8} ±{:.1f} %  bubble {:.1f}/{:.1f}  memory {}{}",
            rows.size(), plans->size(), r.model, r.plan, format_duration(r.predicted_s),
            format_duration(r.measured_s), signed_percent(r.step_error()), 100 * r.spread,
            100 * r.predicted_bubble, 100 * r.measured_bubble, signed_percent(r.memory_error()),
            fmt::format("  slower {:.2f}, others {:.2f}", r.slower, r.others)));
    }
    if (rows.empty() && !stopped.empty()) return console.fail(stopped);
    for (Row& row : rows)
        row.note_pace(watch);
    const Verdict verdict = judge(rows);
    if (!options.output.empty()) {
        const Status written =
            console.write(options.output, markdown(rows, verdict, *profile->environment, drawn_by));
        if (!written) stopped.insert(stopped.end(), written.errors().begin(), written.errors().end());
    }
    if (console.json) {
        console.out_json(to_json(rows, verdict, draw.seed));
    } else if (options.output != "-") {
        TextTable table(kHead);
        for (std::size_t column = 2; column < kHead.size(); ++column)
            table.align(column, Align::Right);
        for (const Row& row : rows) {
            std::vector<TableCell> line;
            for (std::string& cell : cells(row))
                line.emplace_back(std::move(cell));
            table.add_row(std::move(line));
        }
        console.out_table(table);
        console.out("\n");
        for (const std::string& line : verdict_lines(verdict, rows))
            console.out(line + "\n");
    }
    if (!stopped.empty()) return console.fail(stopped);
    return verdict.met() ? 0 : exit_code(ErrorCode::Tolerance);
}

}  // namespace tw::cli
