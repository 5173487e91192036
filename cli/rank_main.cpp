#include "cli/rank_main.hpp"

#include <cstdlib>
#include <iostream>
#include <optional>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "cli/common/help.hpp"
#include "cli/common/load_plan.hpp"
#include "cli/common/parse.hpp"
#include "cli/common/stop_signals.hpp"
#include "cli/common/train_flags.hpp"
#include "real_exec/backend/make_backend.hpp"
#include "real_exec/comm/call_guard.hpp"
#include "real_exec/comm/device_transport.hpp"
#include "real_exec/comm/staged/staged_transport.hpp"
#include "real_exec/runtime/executable.hpp"
#include "real_exec/runtime/rank_layout.hpp"
#include "real_exec/runtime/training.hpp"

namespace tw::cli {
namespace {

constexpr double kClosing_s = 10;

void print_head(const PlanDocument& document, int ranks, const Backend& backend) {
    std::cout << fmt::format("{}: {}, {} {}, {}\n\n{:>6}  {:>9}  {:>9}  {:>9}  {}\n", document.model_name,
                             summary(document.plan), ranks, ranks == 1 ? "rank" : "ranks",
                             backend.description(), "step", "loss", "grad norm", "time", "rate")
              << std::flush;
}

void print_step(const StepResult& step, bool tokens) {
    const std::string norm = step.grad_norm >= 0 ? fmt::format("{:.4f}", step.grad_norm) : "-";
    std::cout << fmt::format("{:>6}  {:>9.5f}  {:>9}  {:>9}  {}{}\n", step.step, step.loss, norm,
                             format_duration(step.step_time_s),
                             format_rate(step.tokens_per_s, tokens ? "tokens/s" : "images/s"),
                             step.skipped ? "  overflow, not updated" : "")
              << std::flush;
}

void print_tail(const TrainResult& result) {
    std::int64_t least = result.ranks.front().peak_allocated_bytes, most = least;
    double waited = 0;
    for (const RankResult& rank : result.ranks) {
        least = std::min(least, rank.peak_allocated_bytes);
        most = std::max(most, rank.peak_allocated_bytes);
        waited += rank.waited_s / static_cast<double>(result.ranks.size());
    }
    const auto bytes = [](std::int64_t b) { return format_bytes(static_cast<double>(b)); };
    std::cout << fmt::format("\nPeak allocated {}{} a rank; {} of a step waiting for others.\n",
                             least == most ? "" : bytes(least) + " to ", bytes(most),
                             format_duration(waited));
    for (const std::string& note : result.notes)
        std::cout << "Note: " << note << "\n";
    std::cout << std::flush;
}

// The way to the other ranks, for tensors where the backend keeps them.
Result<std::unique_ptr<Transport>> transport_of(const TrainFlags& flags, const OpenTransport& open,
                                                bool has_mpi, int world, double deadline_s,
                                                Backend& backend) {
    const LauncherVariables environment = [](const char* name) { return std::getenv(name); };
    const Launcher launcher = launcher_of(environment, has_mpi);
    const bool alone = launcher == Launcher::Torchrun || launcher == Launcher::Slurm;
    Result<std::unique_ptr<Transport>> found = Errors{{}};
    if (flags.backend == "cuda" && flags.transport == "nccl" && alone) {
        found = nccl_by_environment(backend, environment, 2 * deadline_s);
    } else {
        found = open(world, deadline_s);
        if (found && flags.backend == "cuda") {
            found = flags.transport == "nccl" ? nccl_over(std::move(*found), backend, 2 * deadline_s)
                                              : stage_through_host(std::move(*found), backend);
        }
    }
    if (found && (*found)->size() != world) {
        return Error{ErrorCode::Usage,
                     fmt::format("the plan needs {} ranks, {} were started", world, (*found)->size()), "",
                     ""};
    }
    return found;
}

int fail(Transport* transport, Console& console, const Errors& errors) {
    const int code = exit_code(errors);
    if (transport == nullptr || transport->size() == 1) return console.fail(errors);
    // The others do not know yet.
    transport->abort(code, of_rank(transport->rank(), to_string(errors)));
    return code;
}

}  // namespace

int run_rank(const std::vector<std::string>& words, const OpenTransport& open, bool has_mpi) {
    Commands commands;
    commands.push_back(std::make_unique<Command>("run", "Run one rank of a plan"));
    commands.back()->details(
        "trainwright run starts the ranks of a plan on this machine; mpirun and srun --mpi=pmix "
        "start them across nodes.");
    TrainFlags flags;
    define_train_flags(*commands.back(), flags, true);
    std::vector<std::string> all = {"run"};
    all.insert(all.end(), words.begin(), words.end());
    Invocation invocation = parse_command_line(commands, all, Defaults::None);
    Console& console = invocation.console;
    if (invocation.help) {
        console.out(command_help(*commands.back(), console.out_colour(), "trainwright-exec"));
        return 0;
    }
    if (!invocation.errors.empty()) return console.fail(invocation.errors);
    const Result<TrainOptions> options = train_options(flags);
    if (!options) return console.fail(options.errors());
    const Result<PlanDocument> document = load_plan_document(flags.plan);
    if (!document) return console.fail(document.errors());
    if (Errors errors = unsupported_by_executor(document->graph, document->plan); !errors.empty())
        return console.fail(in_document(std::move(errors), flags.plan));

    BackendOptions wanted;
    wanted.threads = options->threads;
    wanted.device = local_rank([](const char* name) { return std::getenv(name); });
    wanted.share = flags.transport != "nccl";
    wanted.tf32 = document->plan.precision.compute == Precision::Tf32;
    std::optional<CallGuard> closing;  // of what is declared after it
    auto made = make_backend(flags.backend, wanted);
    if (!made) return console.fail(made.errors());
    const std::unique_ptr<Backend> backend = std::move(*made);
    auto transport =
        transport_of(flags, open, has_mpi, world_size(document->plan), options->watchdog_s, *backend);
    if (!transport) return console.fail(transport.errors());
    const bool speaks = (*transport)->rank() == 0;
    const bool tokens = document->graph.counts_tokens;
    // A restart goes on in the table that the first attempt began.
    if (speaks && !options->quiet && options->attempt == 0)
        print_head(*document, (*transport)->size(), *backend);
    OnStep on_step;
    if (speaks && !options->quiet) on_step = [tokens](const StepResult& step) { print_step(step, tokens); };
    std::optional<StopSignals> signals;
    TrainOptions stoppable = *options;
    take_sync_options(*commands.back(), document->plan, flags);
    stoppable.sync = flags.train.sync;
    if (ends_when_asked(*options)) stoppable.stop = &signals.emplace().flag();
    auto result = train(*document, stoppable, **transport, *backend, on_step);
    if (!result) return fail(transport->get(), console, result.errors());
    const auto close = [&] {
        // After the transport's own deadline, which knows more.
        const double limit_s = options->watchdog_s > 0 ? 2 * options->watchdog_s + kClosing_s : 0;
        closing.emplace(limit_s, (*transport)->rank(), "closing its transport and its device");
    };
    // The others have done their part: a launcher that sees one of them fail would end the one that speaks.
    if (!speaks) {
        close();
        return 0;
    }
    if (!options->quiet) print_tail(*result);
    if (!options->result.empty()) {
        if (Status written = write_text_file(
                options->result,
                train_result_to_json(*result).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
            !written)
            return fail(transport->get(), console, written.errors());
    }
    // The table went through std::cout, piece by piece.
    if (!std::cout.flush())
        return console.fail({Error{ErrorCode::Failure, "what was written to stdout got lost", "", ""}});
    close();
    return result->interrupted ? exit_code(ErrorCode::Interrupted) : 0;
}

}  // namespace tw::cli
