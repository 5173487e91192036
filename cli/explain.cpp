#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "cli/commands.hpp"
#include "cli/common/load_plan.hpp"
#include "planner/explain/breakdown.hpp"
#include "planner/explain/hardware_changes.hpp"
#include "planner/explain/plan_changes.hpp"
#include "planner/request.hpp"
#include "sim/report/report_json.hpp"
#include "sim/report/report_text.hpp"

namespace tw::cli {
namespace {

struct ExplainOptions {
    std::string plan, framework;
    int top = 10;
    double factor = 2;
};

// A neighbour of the plan with why it wins or loses.
struct ExplainedChange {
    JudgedChange judged;
    bool tied = false;   // the difference is within its own standard deviation
    std::string mostly;  // "bubble -1.2 s"
};

struct Explanation {
    SimulationReport report;
    std::vector<ExplainedChange> changes;
    std::size_t judged = 0;  // before the list was cut
    std::vector<JudgedHardware> hardware;
};

double seconds(const Evaluation& evaluation) {
    return to_seconds(evaluation.step_time).value;
}

Result<Explanation> explain(const LoadedPlan& plan, const ExplainOptions& options, TargetFramework target) {
    const Simulator simulator(plan.environment);
    SimulateOptions wanted;
    wanted.critical_path = true;
    auto report = simulator.simulate(plan.document.plan, wanted);
    if (!report) return in_document(report.errors(), options.plan);
    Explanation explanation;
    explanation.report = std::move(*report);
    std::vector<JudgedChange> judged = judge_changes(simulator, plan.document.plan, target);
    explanation.judged = judged.size();
    judged.resize(std::min(judged.size(), static_cast<std::size_t>(options.top)));
    for (JudgedChange& change : judged) {
        const auto other = simulator.simulate(change.change.plan);
        if (!other) return other.errors();
        ExplainedChange explained;
        explained.mostly = main_difference(explanation.report, *other);
        explained.tied = std::abs(other->step_time_s - explanation.report.step_time_s) <
                         sigma_of_difference(other->uncertainty, explanation.report.uncertainty,
                                             same_kernels(change.change.plan, plan.document.plan));
        explained.judged = std::move(change);
        explanation.changes.push_back(std::move(explained));
    }
    auto hardware = judge_hardware(*plan.environment, plan.document.plan, options.factor);
    if (!hardware) return hardware.errors();
    explanation.hardware = std::move(*hardware);
    return explanation;
}

Json explanation_to_json(const Explanation& explanation) {
    const double base = explanation.report.step_time_s;
    Json json = document("explanation");
    json["report"] = report_to_json(explanation.report);
    json["changes"] = Json::array();
    for (const ExplainedChange& change : explanation.changes) {
        const Evaluation& e = change.judged.evaluation;
        json["changes"].push_back(Json{{"change", change.judged.change.what},
                                       {"plan", plan_to_json(change.judged.change.plan)},
                                       {"step_time_s", seconds(e)},
                                       {"step_time_change", seconds(e) / base - 1},
                                       {"tied", change.tied},
                                       {"mostly", change.mostly},
                                       {"peak_device_bytes", e.peak_device_bytes},
                                       {"fits", e.fits}});
    }
    json["changes_judged"] = explanation.judged;
    json["hardware"] = Json::array();
    for (const JudgedHardware& hardware : explanation.hardware) {
        json["hardware"].push_back(Json{{"change", hardware.what},
                                        {"step_time_s", seconds(hardware.evaluation)},
                                        {"step_time_change", seconds(hardware.evaluation) / base - 1},
                                        {"fits", hardware.evaluation.fits}});
    }
    return json;
}

void print_changes(const Explanation& explanation, Console& console) {
    const double base = explanation.report.step_time_s;
    console.heading("One change at a time");
    TextTable table({"Change", "Step", "Change of it", "", "Memory", "Mostly"});
    for (const ExplainedChange& change : explanation.changes) {
        const Evaluation& e = change.judged.evaluation;
        const TextStyle style = !e.fits             ? TextStyle::Red
                                : change.tied       ? TextStyle::Dim
                                : seconds(e) < base ? TextStyle::Green
                                                    : TextStyle::Plain;
        table.add_row({change.judged.change.what, format_duration(seconds(e)),
                       TableCell(relative_change(base, seconds(e)), style),
                       !e.fits       ? "does not fit"
                       : change.tied ? "tied"
                                     : "",
                       format_bytes(e.peak_device_bytes), change.mostly});
    }
    console.out_table(table);
    if (explanation.judged > explanation.changes.size()) {
        console.out(fmt::format("and {} more that bring less (--top)\n",
                                explanation.judged - explanation.changes.size()));
    }
    console.heading("Other hardware, the same plan");
    TextTable hardware({"Change", "Step", "Change of it", ""});
    for (const JudgedHardware& change : explanation.hardware) {
        const double step = seconds(change.evaluation);
        hardware.add_row(
            {change.what, format_duration(step),
             TableCell(relative_change(base, step), step < base ? TextStyle::Green : TextStyle::Dim),
             change.evaluation.fits ? "" : "does not fit"});
    }
    console.out_table(hardware);
}

int run_explain(const ExplainOptions& options, Console& console) {
    const Result<LoadedPlan> plan = load_plan(options.plan);
    if (!plan) return console.fail(plan.errors());
    Result<TargetFramework> target = framework_of(plan->document.plan);
    if (!options.framework.empty()) target = parse_target_framework(options.framework);
    if (!target) return console.fail(target.errors());
    const Result<Explanation> explanation = explain(*plan, options, *target);
    if (!explanation) return console.fail(explanation.errors());
    if (console.json) {
        console.out_json(explanation_to_json(*explanation));
        return 0;
    }
    ReportTextOptions text;
    text.width = console.width();
    text.colour = console.out_colour();
    console.out(report_headline(explanation->report, text));
    console.out(time_breakdown_text(explanation->report, text));
    console.out(memory_text(explanation->report, text));
    print_changes(*explanation, console);
    return 0;
}

}  // namespace

void define_explain(Command& command) {
    auto& options = command.keep<ExplainOptions>();
    command.positional("PLAN", options.plan, "a trainwright/plan document; - is stdin");
    command.word("--for", options.framework, target_framework_names(),
                 "propose only what this framework can run; where not given, the plan's own framework");
    command.integer("--top", options.top, 1, 1000, "K", "changes of the plan to show; 10 where not given");
    command.number("--factor", options.factor, 1, 1000, "X",
                   "how many times faster the other hardware is; 2 where not given");
    command.details(
        "Simulates the plan, every legal plan that differs from it in one decision, and the plan on hardware "
        "with one figure "
        "changed. Mostly: the part of the step that the change makes shorter or longer. Tied: within the "
        "prediction's "
        "uncertainty.");
    command.example("explain plan.json", "where the time and the memory go, and what would help");
    command.example("explain plan.json --factor 1.5 --json", "as JSON");
    command.run([&options](Console& console) { return run_explain(options, console); });
}

}  // namespace tw::cli
