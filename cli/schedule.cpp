#include <fmt/format.h>

#include "base/counted.hpp"
#include "cli/commands.hpp"
#include "cli/schedule_run.hpp"
#include "plan/schedule/pytorch_csv.hpp"
#include "plan/schedule/text.hpp"
#include "plan/trace/svg_timeline.hpp"

namespace tw::cli {
namespace {

Status write_svg(const ScheduleRun& run, const std::string& path, Console& console) {
    SvgOptions svg;
    svg.title = fmt::format("{}: {}, {}", run.info.title, counted(run.summary.schedule.ranks(), "rank"),
                            counted(run.shape.microbatches, "microbatch"));
    return console.write(path, render_svg(run.summary.trace, svg));
}

// A file brings its own shape.
Errors shape_beside_file(const Command& command, const ScheduleOptions& options) {
    Errors errors;
    if (!is_schedule_file(options.name)) return errors;
    for (const char* option :
         {"--stages", "--microbatches", "--virtual", "--group", "--replicas", "--vertical-sync"}) {
        if (!command.typed(option)) continue;
        errors.push_back({ErrorCode::Usage, "the file says how many", option, "leave it out"});
    }
    return errors;
}

int answer(const Command& command, const ScheduleOptions& options, Console& console) {
    if (const Errors errors = shape_beside_file(command, options); !errors.empty())
        return console.fail(errors);
    const Result<ScheduleRun> run = run_schedule(options);
    if (!run) return console.fail(run.errors());
    if (!options.svg.empty()) {
        const Status written = write_svg(*run, options.svg, console);
        if (!written) return console.fail(written.errors());
        if (options.svg == "-") return 0;
    }
    if (console.json) {
        console.out_json(schedule_to_json(*run));
    } else if (options.text) {
        console.out(format_schedule(run->summary.schedule));
    } else if (options.csv) {
        console.out(write_pytorch_csv(run->summary.schedule));
    } else {
        print_schedule(*run, console);
    }
    return 0;
}

}  // namespace

void define_schedule(Command& command) {
    auto& options = command.keep<ScheduleOptions>();
    options.shape.virtual_stages = 0;
    command.positional("SCHEDULE", options.name,
                       "a pipeline schedule's name (trainwright schedules), or a PyTorch schedule CSV: a "
                       "path that ends in .csv or has a /");
    command.integer("-p,--stages", options.shape.ranks, 1, 4096, "P",
                    "pipeline ranks; the model has P x V stages, V of them on each rank; needed with a name");
    command.integer("-m,--microbatches", options.shape.microbatches, 1, 1 << 20, "M",
                    "microbatches of a step; needed with a name");
    command.integer(
        "--virtual", options.shape.virtual_stages, 1, 256, "V",
        "virtual stages a rank holds; where not given 2 for the schedules that have them, else 1");
    command.text("--forward", options.forward, "F",
                 "time of a stage's forward: seconds, or 12.5ms; 1 where not given");
    command.text("--backward", options.backward, "B",
                 "time of a whole backward, equal parts for inputs and weights; 2 where not given");
    command.text("--backward-input", options.backward_input, "B", "time of the part for inputs");
    command.text("--backward-weight", options.backward_weight, "W", "time of the part for weights");
    command.text("--transfer", options.transfer, "T",
                 "time of an activation or gradient between stages; 0 where not given");
    command.text(
        "--dispatch", options.dispatch, "T",
        "time that a rank's host takes to start a pass, P times as long where one process starts the "
        "passes of all ranks; 0 where not given");
    command.integer("--group", options.shape.microbatch_group, 1, 1 << 20, "N",
                    "interleaved: microbatches a rank runs of one stage before the next; P where not given");
    command.text("--replicas", options.replicas, "R,R,...",
                 "pipedream: ranks that run each stage in turn, for example 15,1");
    command.flag("--vertical-sync", options.vertical_sync,
                 "pipedream: one weight version for all stages of a microbatch");
    command.output("--svg", options.svg, "draw the timeline; - is stdout");
    command.answer("--text", options.text, "answer with the schedule's instructions and their waits");
    command.answer("--csv", options.csv, "answer with PyTorch's schedule CSV (compute and communication)");
    command.details(
        "Two consecutive steps are run with the given stage times and nothing else: no kernels, no gradient "
        "synchronisation. "
        "The bubble is the idle share of the steady period between two steps.");
    command.example("schedule zb-h1 --stages 4 --microbatches 8 --forward 1 --backward 2",
                    "zero bubble, with a bubble of 1/9");
    command.example("schedule interleaved -p 4 -m 8 --virtual 2 --svg interleaved.svg",
                    "two stages a rank, drawn");
    command.example("schedule pipedream -p 2 -m 30 --replicas 15,1 --json", "PipeDream's replicated stages");
    command.example("schedule order.csv --backward-input 1 --backward-weight 0.8",
                    "an order of your own, checked and run");
    command.run([&command, &options](Console& console) { return answer(command, options, console); });
}

}  // namespace tw::cli
