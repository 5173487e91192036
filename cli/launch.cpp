#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <regex>

#include <fmt/format.h>
#include <sys/wait.h>

#include "cli/commands.hpp"
#include "cli/common/load_plan.hpp"
#include "cli/common/train_flags.hpp"
#include "plan/check_plan.hpp"
#include "planner/rank_devices.hpp"
#include "real_exec/launch/launch_file.hpp"
#include "real_exec/launch/shell_words.hpp"
#include "real_exec/runtime/executable.hpp"
#include "real_exec/runtime/rank_layout.hpp"
#include "sim/cost/one_thread.hpp"

namespace tw::cli {
namespace {

struct LaunchCommandOptions {
    TrainFlags flags;
    LaunchOptions launch;
    std::string target, output, environment;
    bool submit = false;
};

// The options that differ from what trainwright-exec does by itself; each is a name and a value.
std::vector<std::string> given_words(const TrainFlags& flags, const ParallelPlan& plan) {
    TrainFlags untouched;
    untouched.train.sync = plan.gradient_sync_options;
    untouched.plan = flags.plan;
    std::map<std::string, std::string> own;
    const std::vector<std::string> defaults = train_words(untouched), all = train_words(flags);
    for (std::size_t w = 1; w + 1 < defaults.size(); w += 2)
        own[defaults[w]] = defaults[w + 1];
    std::vector<std::string> words = {flags.plan};
    for (std::size_t w = 1; w + 1 < all.size(); w += 2) {
        const auto found = own.find(all[w]);
        if (found != own.end() && found->second == all[w + 1]) continue;
        words.push_back(all[w]);
        words.push_back(all[w + 1]);
    }
    return words;
}

// What sbatch --time takes: minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]].
bool is_slurm_time(const std::string& text) {
    static const std::regex kForms(R"((\d+(:\d{1,2}){0,2}|\d+-\d{1,2}(:\d{1,2}){0,2}|UNLIMITED|INFINITE)?)",
                                   std::regex::icase);
    return std::regex_match(text, kForms);
}

Status parse_environment(const std::string& text, LaunchOptions& options) {
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        const std::string one = text.substr(begin, end - begin);
        const std::size_t equals = one.find('=');
        if (equals == std::string::npos || equals == 0)
            return Error{ErrorCode::Usage, fmt::format("'{}' is not NAME=VALUE", one), "--env",
                         "NAME=VALUE,NAME=VALUE"};
        options.environment.emplace_back(one.substr(0, equals), one.substr(equals + 1));
        begin = end + 1;
    }
    return ok();
}

// A plan for GPUs is to run on them, unless the options say otherwise.
void choose_backend(const Command& command, const Cluster& cluster, TrainFlags& flags) {
    for (const NodeGroup& group : cluster.groups) {
        if (runs_on_processors(group.device)) return;
    }
    if (!command.given("--backend")) flags.backend = "cuda";
    if (flags.backend == "cuda" && !command.given("--transport")) flags.transport = "nccl";
}

Errors what_cannot_run(const PlanDocument& document, const std::string& path) {
    Errors errors = check_plan(document.graph, document.cluster, document.plan).errors;
    const Errors unsupported = unsupported_by_executor(document.graph, document.plan);
    errors.insert(errors.end(), unsupported.begin(), unsupported.end());
    return in_document(std::move(errors), path);
}

// Runs sbatch; its answer is one line with the job's number.
Result<std::string> submit(const std::string& path) {
    const std::string command = "sbatch --parsable " + shell_quoted(path);
    std::FILE* const pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) return Error{ErrorCode::Failure, "cannot be started", "sbatch", ""};
    std::string answer;
    std::array<char, 256> buffer{};
    while (std::fgets(buffer.data(), static_cast<int>(buffer.size()), pipe) != nullptr)
        answer += buffer.data();
    const int status = pclose(pipe);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        const bool missing = WIFEXITED(status) && WEXITSTATUS(status) == 127;
        return Error{ErrorCode::Failure, missing ? "is not here" : fmt::format("refused {}", path), "sbatch",
                     missing ? "submit the file where Slurm is" : ""};
    }
    while (!answer.empty() && (answer.back() == '\n' || answer.back() == ' '))
        answer.pop_back();
    return answer.substr(0, answer.find(';'));  // "123;cluster"
}

int launch(const Command& command, LaunchCommandOptions& options, Console& console) {
    LaunchOptions& file = options.launch;
    Errors errors;
    const auto keep = [&](const Errors& more) { errors.insert(errors.end(), more.begin(), more.end()); };
    if (!is_slurm_time(file.time_limit)) {
        errors.push_back({ErrorCode::Usage, fmt::format("'{}' is no time limit of Slurm", file.time_limit),
                          "--time", "minutes, 02:00:00 or 1-12:00:00 (days-hours:minutes:seconds)"});
    }
    if (const Status parsed = parse_environment(options.environment, file); !parsed) keep(parsed.errors());
    if (options.submit && (options.output.empty() || options.output == "-"))
        errors.push_back({ErrorCode::Usage, "needs a file to submit", "--submit", "-o job.sbatch"});
    if (options.flags.plan == "-")
        errors.push_back({ErrorCode::Usage, "the ranks cannot read this command's input", "PLAN",
                          "a file that all nodes see"});
    // What the ranks run on, which the plan's cluster says, decides which options are legal.
    const Result<PlanDocument> plan =
        options.flags.plan == "-" ? Result<PlanDocument>(Errors{{}}) : load_plan_document(options.flags.plan);
    if (plan) {
        choose_backend(command, plan->cluster, options.flags);
        take_sync_options(command, plan->plan, options.flags);
    }
    const auto trained = train_options(options.flags);
    if (!trained) keep(trained.errors());
    if (!errors.empty()) return console.fail(errors);
    if (!plan) return console.fail(plan.errors());
    if (const Errors cannot = what_cannot_run(*plan, options.flags.plan); !cannot.empty())
        return console.fail(cannot);
    keep(without_effect(command, options.flags, plan->plan));
    keep(absent_faults(trained->faults, world_size(plan->plan), trained->steps));
    if (!errors.empty()) return console.fail(errors);

    file.target = options.target == "slurm"    ? LaunchTarget::Slurm
                  : options.target == "mpirun" ? LaunchTarget::Mpirun
                                               : LaunchTarget::MpiJob;
    file.words = given_words(options.flags, plan->plan);
    file.on_processors = options.flags.backend == "cpu";
    if (file.on_processors && file.cpus_per_task == 0) file.cpus_per_task = trained->threads;
    // Where a topology tells which devices are next to a network port, the ranks that leave a node run on
    // those.
    const RankDevices placed = rank_devices(plan->plan, plan->cluster);
    const bool chosen = std::any_of(file.environment.begin(), file.environment.end(),
                                    [](const auto& one) { return one.first == "CUDA_VISIBLE_DEVICES"; });
    if (placed.reordered() && !chosen)
        file.environment.emplace_back("CUDA_VISIBLE_DEVICES", placed.visible_devices());
    const Result<std::string> text = launch_file(*plan, file);
    if (!text) return console.fail(text.errors());
    const bool to_stdout = options.output.empty() || options.output == "-";
    std::string job;
    if (!to_stdout) {
        if (const Status written = console.write(options.output, *text); !written)
            return console.fail(written.errors());
    }
    if (options.submit) {
        auto submitted = submit(options.output);
        if (!submitted) return console.fail(submitted.errors());
        job = *submitted;
    }
    if (console.json) {
        Json json = document("launch");
        json["target"] = options.target;
        json["file"] = to_stdout ? Json(nullptr) : Json(options.output);
        json["text"] = *text;
        json["job"] = job.empty() ? Json(nullptr) : Json(job);
        console.out_json(json);
    } else if (to_stdout) {
        console.out(*text);
    } else if (!job.empty()) {
        console.out(job + "\n");
    }
    return 0;
}

}  // namespace

void define_launch(Command& command) {
    auto& options = command.keep<LaunchCommandOptions>();
    LaunchOptions& file = options.launch;
    define_train_flags(command, options.flags, false);
    command.word("--to", options.target, {"slurm", "mpirun", "mpijob"}, "what starts the ranks; needed");
    command.output("-o,--output", options.output, "where the launch file goes; stdout where not given");
    command.flag("--submit", options.submit, "hand the file to sbatch and print the job's number");
    command.text("--job-name", file.job_name, "NAME", "trainwright where not given");
    command.text("--exec", file.program, "PATH", "trainwright-exec as the nodes find it");
    command.text("--env", options.environment, "NAME=VALUE,...",
                 "environment of the ranks, such as NCCL_DEBUG=INFO");
    command.integer("--cpus-per-task", file.cpus_per_task, 1, 1024, "N",
                    "processors of a rank; --threads where ranks run on processors, else the cluster's own");
    command.text("--mpi", file.mpi, "TYPE",
                 "slurm: what of srun's --mpi list the cluster's MPI was built for; pmix where not given");
    command.text("--partition", file.partition, "NAME", "slurm");
    command.text("--account", file.account, "NAME", "slurm");
    command.text("--time", file.time_limit, "TIME", "slurm: the job's time limit, such as 02:00:00");
    command.text("--hostfile", file.hostfile, "FILE", "mpirun: the nodes");
    command.text("--image", file.image, "IMAGE",
                 "mpijob: a container with trainwright-exec and Open MPI; needed there");
    command.text("--namespace", file.name_space, "NAME", "mpijob");
    for (const char* of_slurm : {"--mpi", "--partition", "--account", "--time", "--submit"})
        command.needs(of_slurm, "--to", "slurm");
    command.needs("--hostfile", "--to", "mpirun");
    for (const char* of_mpijob : {"--image", "--namespace"})
        command.needs(of_mpijob, "--to", "mpijob");
    command.details(
        "Nodes and devices are those of the plan's cluster; the training options are trainwright run's and "
        "are "
        "handed on. Paths are those that the nodes see. A plan for GPUs runs on them (--backend cuda "
        "--transport nccl), unless the options say otherwise.");
    command.example(
        "launch plan.json --to slurm -o job.sbatch --submit --steps 1000 --checkpoint ckpt --every 100",
        "write a batch script and submit it");
    command.example("launch plan.json --to mpirun --hostfile hosts", "print a script that calls mpirun");
    command.example("launch plan.json --to mpijob --image registry/trainwright:1 -o job.yaml",
                    "for Kubeflow");
    command.run([&command, &options](Console& console) {
        if (!options.target.empty()) return launch(command, options, console);
        return console.fail({{ErrorCode::Usage, "is needed", "--to", "slurm, mpirun or mpijob"}});
    });
}

}  // namespace tw::cli
