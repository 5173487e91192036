#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "cli/commands.hpp"
#include "cli/common/load_plan.hpp"
#include "cli/compare_plans.hpp"
#include "models/formats/document_kinds.hpp"
#include "plan/trace/compare_memory.hpp"
#include "plan/trace/stragglers.hpp"
#include "plan/trace/svg_overlay.hpp"
#include "plan/trace/trace_json.hpp"

namespace tw::cli {
namespace {

struct CompareCommandOptions {
    std::string predicted, measured, svg, zoom;
    double tolerance = 0.1;
    int skip = -1;
    ComparePlansOptions plans;
};

struct Prediction {
    Trace trace;
    std::vector<HeldMemory> memory;  // the ledger of a plan, or the curves of a trace
};

// A trace as it is, a plan simulated.
Result<Prediction> load_prediction(const std::string& path) {
    Prediction out;
    if (path != "-") {
        const auto text = read_text_file(path);
        if (!text) return text.errors();
        if (documents::schema_of(*text) == "trainwright/trace") {
            auto trace = read_trace(path);
            if (!trace) return trace.errors();
            out.trace = align_clocks(std::move(*trace));
            out.memory = peak_memory(out.trace);
            return out;
        }
    }
    const Result<LoadedPlan> plan = load_plan(path);
    if (!plan) return plan.errors();
    SimulateOptions wanted;
    wanted.trace = true;
    auto report = Simulator(plan->environment).simulate(plan->document.plan, wanted);
    if (!report) return in_document(report.errors(), path);
    for (const StageMemory& memory : report->memory) {
        HeldMemory held{memory.rank, memory.rank, {}};
        double named = 0;
        for (const MemoryAddend& addend : memory.addends) {
            held.parts.emplace_back(addend.name, addend.bytes);
            named += addend.bytes;
        }
        // What the allocator's peak holds beyond its named parts.
        if (memory.peak_allocated_bytes > named)
            held.parts.emplace_back("other", memory.peak_allocated_bytes - named);
        out.memory.push_back(std::move(held));
    }
    out.trace = std::move(report->trace);
    return out;
}

// "2ms..5ms", or empty.
Status parse_zoom(const std::string& text, OverlayOptions& options) {
    if (text.empty()) return ok();
    const auto wrong = [&](std::string message) {
        return Error{ErrorCode::Usage, std::move(message), "--zoom",
                     "two times after the step's begin, such as 2ms..5ms"};
    };
    const std::size_t dots = text.find("..");
    if (dots == std::string::npos) return wrong(fmt::format("'{}' is not BEGIN..END", text));
    const auto begin = parse_duration(text.substr(0, dots)), end = parse_duration(text.substr(dots + 2));
    if (!begin || !end || !std::isfinite(*begin) || !std::isfinite(*end))
        return wrong(fmt::format("'{}' is not BEGIN..END", text));
    if (*begin < 0) return wrong(fmt::format("'{}' begins before the step", text));
    if (*end < *begin) return wrong(fmt::format("'{}' ends before it begins", text));
    if (*end == *begin) return wrong(fmt::format("'{}' shows nothing: it ends where it begins", text));
    options.zoom_begin_s = *begin;
    options.zoom_end_s = *end;
    return ok();
}

struct Compared {
    TraceComparison traces;
    std::vector<MemoryRow> memory;
    Arrivals arrivals;
    bool within = false;
    int skipped = 0;
};

// "+6.2 %"
std::string signed_percent(double share) {
    return (share > 0 ? "+" : "") + format_percent(share);
}

void print(const Compared& c, const Trace& measured, double tolerance, Console& console) {
    const TraceComparison& t = c.traces;
    const std::string steps = t.measured_steps == 1 ? "one step" : fmt::format("{} steps", t.measured_steps);
    console.out(
        fmt::format("{}\n\n", measured.title.empty() ? "Prediction and measurement" : measured.title));
    TextTable overall({"", "predicted", "measured", "error"});
    overall.add_row(
        {"step time", format_duration(t.predicted_step_s),
         fmt::format("{} ± {}", format_duration(t.measured_step_s), format_duration(t.measured_step_sigma_s)),
         TableCell(signed_percent(t.step_error()), c.within ? TextStyle::Green : TextStyle::Red)});
    overall.add_row({"bubble", format_percent(t.predicted_bubble), format_percent(t.measured_bubble),
                     fmt::format("{:+.1f} points", 100 * (t.predicted_bubble - t.measured_bubble))});
    for (std::size_t r = 0; r < t.ranks.size(); ++r) {
        overall.add_row(
            {fmt::format("bubble of rank {}", t.ranks[r]), format_percent(t.predicted_rank_bubble[r]),
             format_percent(t.measured_rank_bubble[r]),
             fmt::format("{:+.1f} points", 100 * (t.predicted_rank_bubble[r] - t.measured_rank_bubble[r]))});
    }
    console.out_table(overall);
    console.out("\n");
    console.out_table(error_table(t));
    if (!c.memory.empty()) {
        console.out("\n");
        console.out_table(memory_table(c.memory));
    }
    console.out("\n");
    const std::string left_out = c.skipped == 0   ? ""
                                 : c.skipped == 1 ? ", the first left out"
                                                  : fmt::format(", the first {} left out", c.skipped);
    console.out(fmt::format("{} instructions joined over {}{}", format_count(t.joined), steps, left_out));
    if (t.only_predicted + t.only_measured > 0)
        console.out(fmt::format("; {} only predicted, {} only measured", format_count(t.only_predicted),
                                format_count(t.only_measured)));
    console.out("\n");
    if (t.order_divergence) console.out(fmt::format("order parts at {}\n", t.order_divergence->text));
    if (t.duration_divergence)
        console.out(fmt::format("first duration beyond {}: {}\n", format_percent(tolerance, 0),
                                t.duration_divergence->text));
    for (const std::string& line : describe(c.arrivals))
        console.out(line + "\n");
    console.out(fmt::format("step time is {} the tolerance of {}\n", c.within ? "within" : "outside",
                            format_percent(tolerance, 0)));
}

Json divergence_json(const std::optional<Divergence>& divergence) {
    if (!divergence) return nullptr;
    return {{"rank", divergence->rank},
            {"step", divergence->step},
            {"index", divergence->index},
            {"text", divergence->text}};
}

Json to_json(const Compared& c, double tolerance) {
    const TraceComparison& t = c.traces;
    Json json = document("comparison");
    json["predicted_step_time_s"] = t.predicted_step_s;
    json["measured_step_time_s"] = t.measured_step_s;
    json["measured_step_time_sigma_s"] = t.measured_step_sigma_s;
    json["measured_steps"] = t.measured_steps;
    json["step_time_error"] = t.step_error();
    json["tolerance"] = tolerance;
    json["within_tolerance"] = c.within;
    json["predicted_bubble_fraction"] = t.predicted_bubble;
    json["measured_bubble_fraction"] = t.measured_bubble;
    json["ranks"] = Json::array();
    for (std::size_t r = 0; r < t.ranks.size(); ++r)
        json["ranks"].push_back(Json{{"rank", t.ranks[r]},
                                     {"predicted_bubble_fraction", t.predicted_rank_bubble[r]},
                                     {"measured_bubble_fraction", t.measured_rank_bubble[r]}});
    json["instructions"] = Json::array();
    for (const ErrorRow& row : t.rows)
        json["instructions"].push_back(Json{{"opcode", std::string(to_string(row.opcode))},
                                            {"stage", row.stage},
                                            {"count", row.count},
                                            {"predicted_s", row.predicted_s},
                                            {"measured_s", row.measured_s},
                                            {"measured_sigma_s", row.measured_sigma_s},
                                            {"error", row.relative_error()}});
    json["memory"] = Json::array();
    for (const MemoryRow& row : c.memory)
        json["memory"].push_back(Json{{"rank", row.rank},
                                      {"group", row.group},
                                      {"predicted_bytes", row.predicted_bytes},
                                      {"measured_bytes", row.measured_bytes},
                                      {"error", row.relative_error()}});
    json["joined"] = t.joined;
    json["only_predicted"] = t.only_predicted;
    json["only_measured"] = t.only_measured;
    json["order_divergence"] = divergence_json(t.order_divergence);
    json["duration_divergence"] = divergence_json(t.duration_divergence);
    json["stragglers"] = Json::array();
    for (const RankArrivals& rank : c.arrivals.ranks) {
        if (std::find(c.arrivals.stragglers.begin(), c.arrivals.stragglers.end(), rank.rank) !=
            c.arrivals.stragglers.end())
            json["stragglers"].push_back(
                Json{{"rank", rank.rank}, {"late_s", rank.late_s}, {"own_s", rank.own_s}});
    }
    return json;
}

// What a run and its prediction have in common: pipeline ranks, and how often the first of them goes forward
// in a step (on average: where nothing flushes, steps overlap).
struct Extent {
    std::size_t ranks = 0;
    double forwards = 0;
};

Extent extent(const Trace& trace) {
    Extent e;
    std::set<int> ranks;
    for (const RankTrace& rank : trace.ranks)
        ranks.insert(rank.schedule_rank());
    e.ranks = ranks.size();
    const auto steps = static_cast<double>(step_ends(trace).size());
    if (trace.ranks.empty() || steps == 0) return e;
    for (const TraceEvent& event : trace.ranks.front().events) {
        const Opcode opcode = event.instruction.opcode;
        if (opcode == Opcode::Forward || opcode == Opcode::OverlapForwardBackward) e.forwards += 1 / steps;
    }
    return e;
}

// An interrupted run's last step may be short.
bool of_one_plan(const Extent& predicted, const Extent& measured) {
    return predicted.ranks == measured.ranks && measured.forwards <= 1.5 * predicted.forwards &&
           predicted.forwards <= 1.5 * measured.forwards;
}

int compare(const CompareCommandOptions& options, Console& console) {
    OverlayOptions overlay;
    if (const Status zoom = parse_zoom(options.zoom, overlay); !zoom) return console.fail(zoom.errors());
    const Result<Prediction> predicted = load_prediction(options.predicted);
    if (!predicted) return console.fail(predicted.errors());
    auto read = read_trace(options.measured);
    if (!read) return console.fail(read.errors());
    const Trace measured = align_clocks(std::move(*read));
    const int steps = static_cast<int>(step_ends(measured).size());

    Compared c;
    c.skipped = options.skip >= 0 ? options.skip : (steps > 1 ? 1 : 0);
    if (c.skipped >= steps)
        return console.fail(
            {{ErrorCode::Usage,
              fmt::format("{} steps are left out of the {} that were measured", c.skipped, steps),
              "--skip-steps", fmt::format("at most {}", steps - 1)}});
    if (const Extent expected = extent(predicted->trace), found = extent(measured);
        !of_one_plan(expected, found)) {
        return console.fail(
            {{ErrorCode::Unreadable,
              fmt::format(
                  "{} pipeline ranks, the first of them with {:.3g} forwards in a step; the prediction "
                  "has {} and {:.3g}",
                  found.ranks, found.forwards, expected.ranks, expected.forwards),
              options.measured, "compare a run with the plan that it ran"}});
    }
    CompareOptions how;
    how.steady = true;
    how.first_measured_step = c.skipped;
    how.tolerance = options.tolerance;
    c.traces = compare_traces(predicted->trace, measured, how);
    if (c.traces.ranks.empty())
        return console.fail({{ErrorCode::Unreadable, "no rank is in both traces", options.measured,
                              "compare a run with the plan that it ran"}});
    c.memory = compare_memory(predicted->memory, peak_memory(measured));
    StragglerOptions arrivals;
    arrivals.first_step = c.skipped;
    arrivals.least_s = kPreempted_s;
    c.arrivals = analyze_arrivals(measured, arrivals, &predicted->trace);
    c.within = std::abs(c.traces.step_error()) <= options.tolerance;
    if (!options.svg.empty()) {
        overlay.first_measured_step = c.skipped;
        const double step_s = overlaid_seconds(predicted->trace, measured, overlay);
        if (overlay.zoom_begin_s >= step_s)
            return console.fail({{ErrorCode::Usage,
                                  fmt::format("'{}' begins after the step, which takes {}", options.zoom,
                                              format_duration(step_s)),
                                  "--zoom", "two times after the step's begin, such as 2ms..5ms"}});
        if (const Status written =
                console.write(options.svg, render_overlay(predicted->trace, measured, overlay));
            !written)
            return console.fail(written.errors());
    }
    if (options.svg != "-") {
        if (console.json) {
            console.out_json(to_json(c, options.tolerance));
        } else {
            print(c, measured, options.tolerance, console);
        }
    }
    return c.within ? 0 : exit_code(ErrorCode::Tolerance);
}

// What one of the two comparisons takes and the other does not.
constexpr std::array<std::string_view, 6> kOfTraces = {"PREDICTED", "MEASURED",    "--svg",
                                                       "--zoom",    "--tolerance", "--skip-steps"};
constexpr std::array<std::string_view, 4> kOfPlans = {"--ranks", "--each", "--seed", "--output"};

}  // namespace

void define_compare(Command& command) {
    auto& options = command.keep<CompareCommandOptions>();
    command.positional("PREDICTED", options.predicted,
                       "a trainwright/plan document, which is simulated (- is stdin), or a trainwright/trace",
                       Need::Optional);
    command.positional("MEASURED", options.measured, "the trainwright/trace that a run wrote",
                       Need::Optional);
    options.plans.plans = 0;
    command.integer("--plans", options.plans.plans, 1, 1000, "N",
                    "draw so many plans instead, predict them from --profile and run them here");
    command.text("--profile", options.plans.profile, "FILE",
                 "with --plans: a profile measured on this machine");
    command.text("--ranks", options.plans.ranks, "N,N", "with --plans: ranks of the plans, in turn; 1,2");
    command.duration("--each", options.plans.seconds_each, "with --plans: time to run each one; 5 s");
    command.integer("--seed", options.plans.seed, 0, std::int64_t{1} << 62, "N",
                    "with --plans: of the draw; the profile's hash where not given");
    command.output("-o,--output", options.plans.output, "with --plans: the table in Markdown");
    command.output("--svg", options.svg, "draw both timelines on one time axis; - is stdout");
    command.text("--zoom", options.zoom, "BEGIN..END",
                 "what the drawing shows of the step, such as 2ms..5ms");
    command.number("--tolerance", options.tolerance, 0, 1000, "SHARE",
                   "error of the step time that is still fine; 0.1 where not given");
    command.integer("--skip-steps", options.skip, 0, 1 << 20, "N",
                    "measured steps that do not count; the first one where not given");
    command.needs("--zoom", "--svg");
    command.details(
        "Instructions are joined by rank and number: every measured step is held against the prediction's "
        "steady "
        "one. Tables show times by instruction and stage, idle shares, and memory at its peak. The exit code "
        "is 4 "
        "where the step time is further off than the tolerance.");
    command.example("compare plan.json run.trace.json", "how well the plan was predicted");
    command.example("compare plan.json run.trace.json --svg overlay.svg --tolerance 0.05",
                    "with both timelines in one picture");
    command.example("compare --plans 20 --profile my.profile.json -o predicted-vs-run.md",
                    "how well this machine's profile predicts plans that nobody chose");
    command.run([&command, &options](Console& console) {
        // A default of the environment or of a configuration does not choose between the two.
        const bool draws = command.typed("--plans") || command.typed("--profile");
        if (const Errors unused = draws ? command.unused(kOfTraces, "beside --plans")
                                        : command.unused(kOfPlans, "without --plans or --profile");
            !unused.empty())
            return console.fail(unused);
        if (draws) {
            if (options.plans.profile.empty())
                return console.fail({{ErrorCode::Usage, "no profile predicts the plans", "--profile",
                                      "trainwright profile -o my.profile.json"}});
            if (options.plans.plans == 0) options.plans.plans = 20;
            return compare_plans(options.plans, console);
        }
        if (options.predicted.empty() || options.measured.empty())
            return console.fail(
                {{ErrorCode::Usage, "a prediction and a measurement, or --plans N --profile FILE", "",
                  "trainwright compare plan.json run.trace.json"}});
        return compare(options, console);
    });
}

}  // namespace tw::cli
