#include "cli/schedule_run.hpp"

#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "plan/parallel_plan.hpp"
#include "plan/schedule/check.hpp"
#include "plan/schedule/pytorch_csv.hpp"
#include "plan/trace/ascii_timeline.hpp"

namespace tw::cli {
namespace {

// The engine's arrays stay below a gigabyte.
constexpr std::int64_t kMostComputes = 4'000'000;
constexpr double kLongestTime_s = 1e4;

class CostReader {
  public:
    explicit CostReader(Errors& errors) : errors_(errors) {}

    double read(const std::string& text, double fallback, const char* flag, double low) {
        if (text.empty()) return fallback;
        const Result<double> seconds = parse_duration(text);
        if (!seconds || !std::isfinite(*seconds) || *seconds < low || *seconds > kLongestTime_s) {
            fail(flag, fmt::format("'{}' is not a time {} 0 and at most {}", text, low > 0 ? "above" : "from",
                                   kLongestTime_s));
            return fallback;
        }
        return *seconds;
    }
    void fail(const char* flag, std::string message) {
        errors_.push_back(
            {ErrorCode::Usage, std::move(message), flag, "a number of seconds, or with a unit: 12.5ms"});
    }

  private:
    Errors& errors_;
};

constexpr double kSmallest = 1e-12;  // one picosecond: SimTime's resolution

void read_replicas(const std::string& text, std::vector<int>& replicas, Errors& errors) {
    if (text.empty()) return;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        int count = 0;
        const auto [stop, code] = std::from_chars(text.data() + begin, text.data() + end, count);
        if (code != std::errc{} || stop != text.data() + end || count < 1) {
            errors.push_back({ErrorCode::Usage, fmt::format("'{}' is not a list of counts", text),
                              "--replicas", "one count for each stage, for example 15,1"});
            return;
        }
        replicas.push_back(count);
        begin = end + 1;
    }
}

// The shape came from the command line: its parameters are named as the user named them.
void speak_in_flags(Error& error) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kFlags = {{
        {"ranks", "--stages"},
        {"virtual_stages", "--virtual"},
        {"microbatches", "--microbatches"},
        {"microbatch_group", "--group"},
        {"replicas", "--replicas"},
        {"vertical_sync", "--vertical-sync"},
    }};
    error.code = ErrorCode::Usage;
    for (const auto& [parameter, flag] : kFlags) {
        if (error.context == parameter) error.context = flag;
        const std::string spoken = std::string(parameter) + " ";  // "virtual_stages 2, or ..."
        if (error.hint.starts_with(spoken)) error.hint.replace(0, parameter.size(), flag);
    }
    for (const auto& [value, words] :
         {std::pair{"--group 0", "no --group"}, std::pair{"--vertical-sync false", "no --vertical-sync"}}) {
        if (error.hint.starts_with(value)) error.hint.replace(0, std::string_view(value).size(), words);
    }
}

std::string boundary_sentence(StepBoundary boundary) {
    switch (boundary) {
        case StepBoundary::Barrier:
            return "steady, from barrier to barrier";
        case StepBoundary::RankLocal:
            return "steady, each rank going on when its own step is done";
        case StepBoundary::None:
            return "steady, between steps that are never flushed";
    }
    return {};
}

void missing(Errors& errors, const char* option) {
    errors.push_back({ErrorCode::Usage, std::string(option) + " is missing", "schedule",
                      "a schedule's name needs it, a file does not"});
}

Result<ScheduleRun> run_registered(const ScheduleOptions& options) {
    const auto generator = find_schedule(options.name);
    if (!generator) return generator.errors();
    ScheduleRun run;
    run.info = (*generator)->info();
    run.shape = options.shape;
    run.shape.vertical_sync = options.vertical_sync;
    if (run.shape.virtual_stages == 0) run.shape.virtual_stages = own_virtual_stages(run.info);

    Errors errors;
    if (run.shape.ranks == 0) missing(errors, "--stages P");
    if (run.shape.microbatches == 0) missing(errors, "--microbatches M");
    read_replicas(options.replicas, run.shape.replicas, errors);
    const std::int64_t computes =
        std::int64_t{run.shape.ranks} * run.shape.virtual_stages * run.shape.microbatches;
    if (computes > kMostComputes) {
        errors.push_back({ErrorCode::Usage,
                          fmt::format("{} stages and microbatches are more than {}", format_count(computes),
                                      format_count(kMostComputes)),
                          "schedule", "fewer --stages, --virtual or --microbatches"});
    }
    const Result<UnitStageCosts> costs = stage_times(options);
    if (!costs) errors.insert(errors.end(), costs.errors().begin(), costs.errors().end());
    if (!errors.empty()) return errors;
    run.costs = *costs;

    auto summary = run_schedule_alone(options.name, run.shape, run.costs);
    if (!summary) {
        Errors refused = summary.errors();
        for (Error& error : refused)
            speak_in_flags(error);
        return refused;
    }
    run.summary = std::move(*summary);
    return run;
}

// The transfers of a file, on the one communicator that torch.distributed.pipelining gives all its stages: a
// receive posted early holds up the sends behind it (pytorch/pytorch#188833).
Result<Schedule> transfers_of_file(const std::string& text, const ComputeOrder& order) {
    auto schedule = read_pytorch_csv_schedule(text, LoweringOptions::P2p::Single);
    if (!schedule) return schedule.errors();
    Errors errors = check_schedule(*schedule);
    if (errors.empty()) return schedule;
    std::string grid = format_grid(order, &errors.front());
    while (grid.ends_with('\n'))
        grid.pop_back();
    errors.front().message += "\n" + grid;
    return errors;
}

// An order of PyTorch's CSV, proven before it runs; what is wrong with it is shown in its grid.
Result<ScheduleRun> run_file(const ScheduleOptions& options) {
    const Result<std::string> text = read_text_file(options.name);
    if (!text) return text.errors();
    const Result<ComputeOrder> order = read_pytorch_csv(*text);
    if (!order) {
        Errors errors = order.errors();
        for (Error& error : errors)
            error.context = options.name + (error.context.empty() ? "" : ": " + error.context);
        return errors;
    }
    if (Errors errors = check_order(*order); !errors.empty()) {
        std::string grid = format_grid(*order, &errors.front());
        while (grid.ends_with('\n'))
            grid.pop_back();
        errors.front().message += "\n" + grid;
        return errors;
    }
    const Result<UnitStageCosts> costs = stage_times(options);
    if (!costs) return costs.errors();
    auto summary = [&]() -> Result<ScheduleSummary> {
        if (!has_transfers(*text)) return run_order_alone(*order, options.name, *costs);
        auto schedule = transfers_of_file(*text, *order);
        if (!schedule) return schedule.errors();
        return run_lowered_alone(std::move(*schedule), options.name, *costs);
    }();
    if (!summary) return summary.errors();
    ScheduleRun run;
    run.info.name = run.info.title = options.name;
    run.info.source = "a schedule read from a file";
    run.info.boundary = order->boundary;
    run.info.semantics = order->semantics;
    run.shape.ranks = static_cast<int>(order->ranks.size());
    run.shape.virtual_stages = order->stages / run.shape.ranks;
    run.shape.microbatches = order->microbatches;
    run.costs = *costs;
    run.summary = std::move(*summary);
    return run;
}

}  // namespace

bool is_schedule_file(const std::string& name) {
    return name.ends_with(".csv") || name.find('/') != std::string::npos;
}

Result<UnitStageCosts> stage_times(const ScheduleOptions& options) {
    Errors errors;
    UnitStageCosts costs;
    CostReader reader(errors);
    costs.forward = Seconds(reader.read(options.forward, 1.0, "--forward", kSmallest));
    costs.transfer = Seconds(reader.read(options.transfer, 0.0, "--transfer", 0));
    costs.dispatch = Seconds(reader.read(options.dispatch, 0.0, "--dispatch", 0));
    const bool has_input = !options.backward_input.empty(), has_weight = !options.backward_weight.empty();
    const double whole = reader.read(options.backward, 2.0, "--backward", kSmallest);
    double input = reader.read(options.backward_input, whole / 2, "--backward-input", 0);
    double weight = reader.read(options.backward_weight, whole / 2, "--backward-weight", 0);
    if (!options.backward.empty() && has_input && has_weight &&
        std::abs(input + weight - whole) > 1e-9 * whole) {
        reader.fail("--backward", fmt::format("{} is not the sum of its parts {} and {}", options.backward,
                                              options.backward_input, options.backward_weight));
    } else if (!options.backward.empty() && has_input != has_weight) {
        double& given = has_input ? input : weight;
        (has_input ? weight : input) = whole - given;
        if (given > whole)
            reader.fail("--backward", fmt::format("{} is less than its part", options.backward));
    } else if (options.backward.empty() && has_input != has_weight) {
        reader.fail(has_input ? "--backward-weight" : "--backward-input", "is missing beside the other part");
    }
    if (!errors.empty()) return errors;
    costs.backward_input = Seconds(input);
    costs.backward_weight = Seconds(weight);
    return costs;
}

Result<ScheduleRun> run_schedule(const ScheduleOptions& options) {
    return is_schedule_file(options.name) ? run_file(options) : run_registered(options);
}

Json schedule_to_json(const ScheduleRun& run) {
    const ScheduleSummary& summary = run.summary;
    const auto seconds = [](SimTime time) { return to_seconds(time).value; };
    Json json{{"schema", "trainwright/schedule-run"},
              {"version", 1},
              {"schedule", run.info.name},
              {"ranks", summary.schedule.ranks()},
              {"stages", summary.schedule.stages},
              {"virtual_stages", run.shape.virtual_stages},
              {"microbatches", run.shape.microbatches},
              {"semantics", std::string(to_string(run.info.semantics))},
              {"boundary", std::string(to_string(run.info.boundary))},
              {"forward", run.costs.forward.value},
              {"backward_input", run.costs.backward_input.value},
              {"backward_weight", run.costs.backward_weight.value},
              {"transfer", run.costs.transfer.value},
              {"dispatch", run.costs.dispatch.value},
              {"makespan", seconds(summary.times.makespan)},
              {"period", seconds(summary.times.period)},
              {"steady", summary.times.steady},
              {"bubble_fraction", summary.bubble_fraction},
              {"per_rank", Json::array()}};
    for (std::size_t r = 0; r < summary.ranks.size(); ++r) {
        const RankSummary& rank = summary.ranks[r];
        json["per_rank"].push_back(Json{{"rank", r},
                                        {"busy", seconds(rank.busy)},
                                        {"idle", seconds(rank.idle)},
                                        {"peak_in_flight", rank.peak_in_flight},
                                        {"weight_versions", rank.weight_versions}});
    }
    return json;
}

void print_schedule(const ScheduleRun& run, Console& console) {
    const ScheduleSummary& summary = run.summary;
    const bool colour = console.out_colour();
    console.out(styled(run.info.title, TextStyle::Bold, colour) + "\n");
    console.out(styled(run.info.source, TextStyle::Dim, colour) + "\n\n");

    AsciiTimelineOptions timeline;
    timeline.width = console.width();
    timeline.colour = colour;
    Trace untitled = summary.trace;
    untitled.title.clear();
    console.out(ascii_timeline(untitled, timeline));

    console.out("\n");
    const auto fact = [&](const char* name, const std::string& value, const std::string& meaning) {
        console.out(pad_right(name, 10) + pad_left(value, 10) + "   " +
                    styled(meaning, TextStyle::Dim, colour) + "\n");
    };
    fact("makespan", format_sim_time(summary.times.makespan), "one step alone, from idle to its last end");
    fact("period", format_sim_time(summary.times.period), boundary_sentence(run.info.boundary));
    fact("bubble", format_percent(summary.bubble_fraction), "idle share of the period, over all ranks");
    console.out("\n");

    TextTable table({"Rank", "Busy", "Idle", "Bubble", "In flight", "Weight versions"});
    for (std::size_t r = 0; r < summary.ranks.size(); ++r) {
        const RankSummary& rank = summary.ranks[r];
        table.add_row(
            {std::to_string(r), format_sim_time(rank.busy), format_sim_time(rank.idle),
             format_percent(static_cast<double>(rank.idle) / static_cast<double>(summary.times.period)),
             std::to_string(rank.peak_in_flight), std::to_string(rank.weight_versions)});
    }
    console.out_table(table);
}

}  // namespace tw::cli
