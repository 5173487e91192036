#include <sstream>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "cli/chakra_traces.hpp"
#include "cli/commands.hpp"
#include "cli/common/flops_option.hpp"
#include "cli/common/load_plan.hpp"
#include "cli/scenario_text.hpp"
#include "plan/trace/chrome.hpp"
#include "plan/trace/svg_timeline.hpp"
#include "sim/report/flop_convention.hpp"
#include "sim/report/report_json.hpp"
#include "sim/report/report_text.hpp"
#include "sim/report/training_cost.hpp"
#include "sim/scenario/scenario_json.hpp"

namespace tw::cli {
namespace {

struct SimulateCommandOptions {
    std::string plan, trace, svg, scenario, chakra, flops = "causal";
    bool timeline = false;
    double tokens = 0, goodput = 1;
};

Status write_pictures(const SimulateCommandOptions& options, const SimulationReport& report,
                      Console& console) {
    if (!options.trace.empty()) {
        std::ostringstream chrome;
        write_chrome_trace(report.trace, chrome);
        const Status written = console.write(options.trace, chrome.str());
        if (!written) return written;
    }
    if (options.svg.empty()) return ok();
    SvgOptions svg;
    svg.memory = true;
    return console.write(options.svg, render_svg(report.trace, svg));
}

// Names that promise another format than is written would deceive who opens the file.
Errors promised_otherwise(const SimulateCommandOptions& options) {
    struct Promise {
        std::string_view key, path, format;
        std::vector<std::string_view> others;
    };
    Errors errors;
    for (const Promise& p :
         {Promise{"--trace", options.trace, "JSON", {".gz", ".zst", ".pftrace", ".perfetto-trace", ".svg"}},
          Promise{"--svg", options.svg, "SVG", {".png", ".pdf", ".svgz", ".json"}}}) {
        for (const std::string_view other : p.others) {
            if (!p.path.ends_with(other)) continue;
            const std::string_view ending = p.format == "JSON" ? ".json" : ".svg";
            errors.push_back({ErrorCode::Usage, fmt::format("what is written is {}, not {}", p.format, other),
                              std::string(p.key),
                              fmt::format("{}{}", p.path.substr(0, p.path.find('.')), ending)});
        }
    }
    return errors;
}

int simulate(const SimulateCommandOptions& options, Console& console) {
    if (const Errors errors = promised_otherwise(options); !errors.empty()) return console.fail(errors);
    const Result<FlopConvention> flops = parse_flop_convention(options.flops);
    if (!flops) return console.fail(flops.errors());
    const Result<LoadedPlan> plan = load_plan(options.plan);
    if (!plan) return console.fail(plan.errors());
    const Simulator simulator(plan->environment);
    SimulateOptions wanted;
    wanted.critical_path = true;
    wanted.trace =
        options.timeline || !options.trace.empty() || !options.svg.empty() || !options.chakra.empty();
    Result<SimulationReport> report = simulator.simulate(plan->document.plan, wanted);
    if (!report) return console.fail(in_document(report.errors(), options.plan));
    const Status stated = restate_flops(*report, *plan->environment, *flops);
    if (!stated) return console.fail(stated.errors());
    if (!options.chakra.empty()) {
        const Status kept = write_chakra_traces(options.chakra, simulator, *report, console);
        if (!kept) return console.fail(kept.errors());
    }
    const Status written = write_pictures(options, *report, console);
    if (!written) return console.fail(written.errors());
    if (options.trace == "-" || options.svg == "-") return 0;

    Result<ScenarioResult> scenario = ScenarioResult{};
    if (!options.scenario.empty()) {
        const Result<Scenario> conditions = read_scenario(options.scenario);
        if (!conditions) return console.fail(conditions.errors());
        scenario = simulate_scenario(simulator, plan->document.plan, *conditions);
        if (!scenario) return console.fail(scenario.errors());
    }
    TrainingRun run;
    run.tokens = options.tokens;
    run.goodput = options.goodput;
    run.devices = plan->document.cluster.devices();
    const Result<TrainingCost> cost = options.tokens > 0 ? training_cost(*report, run) : TrainingCost{};
    if (!cost) return console.fail(cost.errors());
    if (console.json) {
        Json json = report_document_to_json(*report);
        if (options.tokens > 0) json["training"] = training_cost_to_json(*cost);
        if (!options.scenario.empty()) json["scenario"] = scenario_result_to_json(*scenario);
        console.out_json(json);
        return 0;
    }
    ReportTextOptions text;
    text.width = console.width();
    text.colour = console.out_colour();
    text.timeline = options.timeline;
    console.out(report_text(*report, text));
    if (!options.scenario.empty()) print_scenario(*scenario, console);
    if (options.tokens > 0) console.out("\n" + training_cost_text(run, *cost) + "\n");
    return 0;
}

}  // namespace

void define_simulate(Command& command) {
    auto& options = command.keep<SimulateCommandOptions>();
    command.positional("PLAN", options.plan, "a trainwright/plan document; - is stdin");
    command.answer("--timeline", options.timeline, "draw the timeline of a step in the terminal");
    command.output("--trace", options.trace,
                   "write two steps as a Chrome trace (Perfetto, chrome://tracing); - is stdout");
    command.output("--svg", options.svg, "draw the timeline and the memory of every rank; - is stdout");
    command.text(
        "--chakra", options.chakra, "PREFIX",
        "write a step as Chakra execution traces, PREFIX.0.et and so on, one a rank, and their groups, "
        "PREFIX.groups.json (ASTRA-sim)");
    define_flops(command, options.flops);
    command.text("--scenario", options.scenario, "FILE",
                 "a trainwright/scenario document: slow ranks, slow and dead network interfaces, jitter");
    command.number("--tokens", options.tokens, 1, 1e18, "N",
                   "say what training on so many tokens takes, for example 15e12");
    command.number("--goodput", options.goodput, 1e-3, 1, "SHARE",
                   "of wall time that advances training, with --tokens; 1 where not given");
    command.needs("--goodput", "--tokens");
    command.example("simulate plan.json", "the report");
    command.example("simulate plan.json --trace step.json --svg step.svg",
                    "with its timeline, for Perfetto and as a picture");
    command.example("simulate plan.json --tokens 15e12 --json",
                    "days, energy and money of a training run, as JSON");
    command.run([&options](Console& console) { return simulate(options, console); });
}

}  // namespace tw::cli
