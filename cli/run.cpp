#include <csignal>
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <unistd.h>

#include "base/json.hpp"
#include "cli/commands.hpp"
#include "cli/common/load_plan.hpp"
#include "cli/common/scratch_folder.hpp"
#include "cli/common/train_flags.hpp"
#include "cli/start_ranks.hpp"
#include "plan/check_plan.hpp"
#include "real_exec/backend/make_backend.hpp"
#include "real_exec/checkpoint/checkpoint.hpp"
#include "real_exec/runtime/executable.hpp"
#include "real_exec/runtime/rank_layout.hpp"
#include "real_exec/runtime/training.hpp"
#include "sim/memory/model_states.hpp"

namespace tw::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

struct RunCommandOptions {
    TrainFlags flags;
    std::int64_t restarts = 0;
};

// The newest step that a run goes on from; 0 where it begins.
std::int64_t first_step(const TrainFlags& flags) {
    if (flags.train.resume_folder.empty()) return 0;
    const auto steps = checkpoint_steps(flags.train.resume_folder);
    return steps.empty() ? 0 : steps.front();
}

// Checkpoints of later steps than this run begins with are an earlier run's. The newest of a folder is what a
// restart and --resume go on from, and the newest are what is kept: they would take this run's place.
Errors checkpoints_of_earlier_run(const TrainFlags& flags) {
    const std::string& folder = flags.train.checkpoint_folder;
    if (folder.empty()) return {};
    const auto steps = checkpoint_steps(folder);
    if (steps.empty() || steps.front() <= first_step(flags)) return {};
    return {{ErrorCode::Usage,
             fmt::format("holds step {} of an earlier run: a restart would go on from there", steps.front()),
             "--checkpoint " + folder,
             fmt::format("--resume {} goes on with that run; or another folder", folder)}};
}

Errors check_before_launch(const PlanDocument& document, const TrainOptions& options,
                           const std::string& path) {
    PlanCheck check = check_plan(document.graph, document.cluster, document.plan);
    const Errors unsupported = unsupported_by_executor(document.graph, document.plan);
    check.errors.insert(check.errors.end(), unsupported.begin(), unsupported.end());
    Errors errors = in_document(std::move(check.errors), path);
    const Errors asked = unsupported_options(document, options);
    errors.insert(errors.end(), asked.begin(), asked.end());
    return errors;
}

// What no layout makes smaller: one copy of the weights, their gradients and the optimizer's states, on one
// machine. GPUs have memory of their own.
Errors too_large_for_this_machine(const PlanDocument& document, const TrainFlags& flags) {
    if (flags.backend != "cpu") return {};
    ParallelPlan whole = document.plan;
    whole.mesh = {};
    whole.zero_stage = whole.zero_shard = 0;
    const double least =
        model_state_bytes(whole, static_cast<double>(document.graph.parameters()), 0).device();
    const double memory =
        static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
    if (least <= memory) return {};
    return {
        {ErrorCode::Infeasible,
         fmt::format("{} ranks on this machine's processors: weights, gradients and optimizer states of {} "
                     "take {:.1f} GiB, this machine has {:.1f} GiB",
                     world_size(document.plan), document.model_name, least / kGiB, memory / kGiB),
         flags.plan, "a smaller model, or trainwright launch for the cluster that the plan is for"}};
}

std::string why(const RanksEnded& ended) {
    if (ended.signal > 0)
        return fmt::format("a rank was ended by signal {} ({})", ended.signal, strsignal(ended.signal));
    return fmt::format("a rank failed with exit code {}", ended.exit_code);
}

// Runs the ranks; while restarts are left, a run that a rank's death ended goes on from its checkpoint.
Result<RanksEnded> run_with_restarts(const RunCommandOptions& options, const PlanDocument& document,
                                     Console& console) {
    TrainFlags flags = options.flags;
    StartRanks how;
    how.end_when_asked = ends_when_asked(flags.train);
    const std::int64_t first = first_step(flags);
    bool output_lost = false;
    while (true) {
        auto ended = start_ranks(world_size(document.plan), train_words(flags), how);
        if (!ended) return ended;
        output_lost = ended->output_lost = output_lost || ended->output_lost;
        const bool died = ended->exit_code == exit_code(ErrorCode::Failure);
        if (!died || flags.attempt >= options.restarts) return ended;
        ++flags.attempt;
        flags.inject.clear();  // a fault on purpose happens once
        const auto steps = flags.train.checkpoint_folder.empty()
                               ? std::vector<std::int64_t>{}
                               : checkpoint_steps(flags.train.checkpoint_folder);
        const bool saved = !steps.empty() && steps.front() > first;  // by this run
        if (saved) {
            flags.train.resume_folder = flags.train.checkpoint_folder;
            flags.train.weights.clear();
        }
        console.note(fmt::format("{}; restart {} of {} from the {}", why(*ended), flags.attempt,
                                 options.restarts, saved ? "newest checkpoint" : "beginning"));
    }
}

// The answer to --json: the figures that rank 0 left in `path`.
Status print_report(const std::string& path, const PlanDocument& document, Console& console) {
    const auto json = read_json_file(path);
    if (!json) return json.errors();
    Json answer = cli::document("run");
    answer["model"] = document.model_name;
    answer["plan"] = summary(document.plan);
    for (const auto& [key, value] : json->items())
        answer[key] = value;
    console.out_json(answer);
    return ok();
}

int run(const Command& command, RunCommandOptions& options, Console& console) {
    TrainFlags& flags = options.flags;
    const auto parsed = train_options(flags);
    if (!parsed) return console.fail(parsed.errors());
    if (flags.plan == "-")
        return console.fail({{ErrorCode::Usage, "the ranks cannot read this command's input", "PLAN",
                              "trainwright plan -o plan.json, then trainwright run plan.json"}});
    const Result<PlanDocument> document = load_plan_document(flags.plan);
    if (!document) return console.fail(document.errors());
    take_sync_options(command, document->plan, flags);
    if (const Errors errors = check_before_launch(*document, *parsed, flags.plan); !errors.empty())
        return console.fail(errors);
    if (const Errors errors = too_large_for_this_machine(*document, flags); !errors.empty())
        return console.fail(errors);
    Errors useless = without_effect(command, flags, document->plan);
    const Errors absent = absent_faults(parsed->faults, world_size(document->plan), parsed->steps);
    useless.insert(useless.end(), absent.begin(), absent.end());
    if (!useless.empty()) return console.fail(useless);
    // Said once here, not by every rank.
    if (const Status present = backend_present(flags.backend); !present)
        return console.fail(present.errors());
    if (const Errors errors = checkpoints_of_earlier_run(flags); !errors.empty()) return console.fail(errors);
    std::unique_ptr<ScratchFolder> scratch;
    std::string result;
    if (console.json) {
        auto created = ScratchFolder::create("run");
        if (!created) return console.fail(created.errors());
        scratch = std::move(*created);
        flags.train.result = result = scratch->file("result.json");
        flags.train.quiet = true;
    }
    const auto ended = run_with_restarts(options, *document, console);
    if (!ended) return console.fail(ended.errors());
    if (ended->exit_code == exit_code(ErrorCode::Interrupted)) {
        // A run that is ended at once leaves none.
        if (std::error_code ignored; console.json && fs::exists(result, ignored)) {
            if (const Status told = print_report(result, *document, console); !told)
                return console.fail(told.errors());
        }
        const auto kept = flags.train.checkpoint_folder.empty()
                              ? std::vector<std::int64_t>{}
                              : checkpoint_steps(flags.train.checkpoint_folder);
        return console.fail(
            {Error{ErrorCode::Interrupted, "interrupted", "run",
                   kept.empty() ? "" : "--resume " + flags.train.checkpoint_folder + " goes on"}});
    }
    if (ended->exit_code != 0) {
        if (ended->signal == 0) return ended->exit_code;  // the rank has said why
        return console.fail({Error{ErrorCode::Failure, why(*ended), "",
                                   options.restarts == 0 ? "--restarts N goes on by itself" : ""}});
    }
    if (ended->output_lost)
        return console.fail({Error{ErrorCode::Failure, "what was written to stdout got lost", "",
                                   "the run itself came to its end"}});
    if (!console.json) return 0;
    const Status told = print_report(result, *document, console);
    return told ? 0 : console.fail(told.errors());
}

}  // namespace

void define_run(Command& command) {
    auto& options = command.keep<RunCommandOptions>();
    command.details(
        "Trains the plan's model as the plan says, on this machine's processors: starts a process a rank, "
        "draws the weights from the seed (or goes on from a checkpoint) and prints every step. The losses "
        "are "
        "the same in every layout. On a cluster, mpirun or srun start trainwright-exec with the same "
        "options. "
        "What the executor cannot run of a plan is named before anything starts.");
    define_train_flags(command, options.flags, false);
    command.integer("--restarts", options.restarts, 0, 1000, "N",
                    "start again after a rank has died, from the newest checkpoint");
    command.example("run plan.json --steps 50 --data corpus.txt", "train on a text");
    command.example("run plan.json --steps 20 --trace run.trace.json",
                    "keep what happened when, to be held against the prediction");
    command.example("run plan.json --steps 1000 --checkpoint ckpt --every 100 --restarts 3",
                    "survive the death of a rank");
    command.run([&command, &options](Console& console) { return run(command, options, console); });
}

}  // namespace tw::cli
