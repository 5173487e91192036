#include "real_exec/launch/launch_file.hpp"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "base/json.hpp"
#include "real_exec/launch/shell_words.hpp"
#include "real_exec/runtime/rank_layout.hpp"

namespace tw {
namespace {

constexpr std::string_view kMountedPlan = "/trainwright/plan.json";

std::string about(const PlanDocument& document, int ranks) {
    return fmt::format("# {} on {}: {}, {} ranks. Written by trainwright launch.\n", document.model_name,
                       document.cluster.name, summary(document.plan), ranks);
}

int ranks_of(const std::vector<LaunchNodes>& groups) {
    int ranks = 0;
    for (const LaunchNodes& group : groups)
        ranks += group.nodes * group.ranks_per_node;
    return ranks;
}

int cpus_of(const LaunchOptions& options, const LaunchNodes& group) {
    return options.cpus_per_task > 0 ? options.cpus_per_task : group.gpus ? 0 : 1;
}

std::string command_line(const LaunchOptions& options) {
    std::vector<std::string> words = {options.program};
    words.insert(words.end(), options.words.begin(), options.words.end());
    return shell_line(words);
}

// ---- Slurm

std::string slurm_group(const LaunchNodes& group, const LaunchOptions& options) {
    std::string text =
        fmt::format("#SBATCH --nodes={}\n#SBATCH --ntasks-per-node={}\n", group.nodes, group.ranks_per_node);
    if (group.gpus) text += fmt::format("#SBATCH --gpus-per-node={}\n", group.ranks_per_node);
    if (const int cpus = cpus_of(options, group); cpus > 0)
        text += fmt::format("#SBATCH --cpus-per-task={}\n", cpus);
    if (!options.partition.empty()) text += fmt::format("#SBATCH --partition={}\n", options.partition);
    return text + "#SBATCH --exclusive\n";
}

std::string slurm_file(const PlanDocument& document, const std::vector<LaunchNodes>& groups,
                       const LaunchOptions& options) {
    std::string text = "#!/bin/bash\n" + about(document, ranks_of(groups));
    text += fmt::format("#SBATCH --job-name={}\n#SBATCH --output=%x-%j.out\n", options.job_name);
    if (!options.account.empty()) text += fmt::format("#SBATCH --account={}\n", options.account);
    if (!options.time_limit.empty()) text += fmt::format("#SBATCH --time={}\n", options.time_limit);
    // Ahead of the time limit and of a pre-emption, ranks that have something to leave are told to end.
    const bool leaves = std::any_of(options.words.begin(), options.words.end(), [](const std::string& word) {
        return word == "--checkpoint" || word == "--trace";
    });
    if (leaves) text += "#SBATCH --signal=USR1@120\n";
    std::string components;
    for (std::size_t g = 0; g < groups.size(); ++g) {
        if (g > 0) text += "#SBATCH hetjob\n";
        if (groups.size() > 1) text += fmt::format("# {}\n", groups[g].type);
        text += slurm_group(groups[g], options);
        components += (g > 0 ? "," : "") + std::to_string(g);
    }
    text += "\nset -euo pipefail\n";
    for (const auto& [name, value] : options.environment)
        text += fmt::format("export {}={}\n", name, shell_quoted(value));
    // A rank that dies must not leave the others waiting.
    text += fmt::format("srun --mpi={} --kill-on-bad-exit=1{} \\\n    {}\n", options.mpi,
                        groups.size() > 1 ? " --het-group=" + components : "", command_line(options));
    return text;
}

// ---- mpirun

// Options after "mpirun", one line each.
std::vector<std::string> mpirun_lines(const std::vector<LaunchNodes>& groups, const LaunchOptions& options) {
    const bool one_size = std::all_of(groups.begin(), groups.end(), [&](const LaunchNodes& group) {
        return group.ranks_per_node == groups.front().ranks_per_node;
    });
    const bool gpus = groups.front().gpus;
    const int cpus = cpus_of(options, groups.front());
    std::vector<std::string> lines = {fmt::format("-np {}", ranks_of(groups))};
    if (!options.hostfile.empty()) lines.push_back("--hostfile " + shell_quoted(options.hostfile));
    // Nodes of several sizes fill up by the hostfile's slots.
    std::string mapping = one_size ? fmt::format("ppr:{}:node", groups.front().ranks_per_node) : "slot";
    if (cpus > 0 && !gpus) mapping += fmt::format(":PE={}", cpus);
    lines.push_back(fmt::format("--map-by {} --bind-to {}", mapping, gpus ? "none" : "core"));
    if (gpus) lines.emplace_back("--mca pml ob1 --mca btl ^openib");
    for (const auto& [name, value] : options.environment)
        lines.push_back(fmt::format("-x {}", shell_quoted(name + "=" + value)));
    return lines;
}

std::string mpirun_file(const PlanDocument& document, const std::vector<LaunchNodes>& groups,
                        const LaunchOptions& options) {
    std::string text = "#!/bin/sh\n" + about(document, ranks_of(groups));
    for (const LaunchNodes& group : groups)
        text += fmt::format("# {} x {} with {} ranks each\n", group.nodes, group.type, group.ranks_per_node);
    text += "exec mpirun";
    for (const std::string& line : mpirun_lines(groups, options))
        text += " \\\n    " + line;
    return text + " \\\n    " + command_line(options) + "\n";
}

// ---- MPIJob

std::string yaml_quoted(std::string_view text) {
    return Json(std::string(text)).dump();  // YAML 1.2 reads JSON's strings
}

// A name that Kubernetes takes (RFC 1123): small letters, digits and dashes.
std::string kubernetes_name(std::string_view name) {
    std::string out;
    for (const char c : name) {
        const auto letter = static_cast<unsigned char>(c);
        out += std::isalnum(letter) != 0 ? static_cast<char>(std::tolower(letter)) : '-';
    }
    const auto first = out.find_first_not_of('-'), last = out.find_last_not_of('-');
    return first == std::string::npos ? "trainwright" : out.substr(first, last - first + 1);
}

// `shared_memory`: of the node's, not the 64 MiB that a container has in /dev/shm: NCCL's ranks of a node
// exchange buffers there.
std::string pod(std::string_view role, const LaunchOptions& options, int replicas, const std::string& rest,
                bool shared_memory) {
    return fmt::format(
        "    {}:\n"
        "      replicas: {}\n"
        "      template:\n"
        "        spec:\n"
        "          restartPolicy: Never\n"
        "          containers:\n"
        "          - name: {}\n"
        "            image: {}\n"
        "            volumeMounts:\n"
        "            - name: plan\n"
        "              mountPath: /trainwright\n"
        "{}{}"
        "          volumes:\n"
        "          - name: plan\n"
        "            configMap:\n"
        "              name: {}-plan\n{}",
        role, replicas, role == "Launcher" ? "launcher" : "worker", yaml_quoted(options.image),
        shared_memory ? "            - name: shm\n              mountPath: /dev/shm\n" : "", rest,
        kubernetes_name(options.job_name),
        shared_memory ? "          - name: shm\n            emptyDir:\n              medium: Memory\n" : "");
}

std::string mpijob_file(const PlanDocument& document, const LaunchNodes& group,
                        const LaunchOptions& options) {
    const std::string name = kubernetes_name(options.job_name);
    const std::string space =
        options.name_space.empty() ? "" : fmt::format("  namespace: {}\n", options.name_space);
    std::string text = about(document, group.nodes * group.ranks_per_node);
    text +=
        fmt::format("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {}-plan\n{}data:\n  plan.json: |\n",
                    name, space);
    const std::string plan = plan_document_to_json(document).dump(1);
    for (std::size_t begin = 0; begin < plan.size();) {
        const std::size_t end = std::min(plan.find('\n', begin), plan.size());
        text += "    " + plan.substr(begin, end - begin) + "\n";
        begin = end + 1;
    }
    text += fmt::format(
        "---\n"
        "apiVersion: kubeflow.org/v2beta1\n"
        "kind: MPIJob\n"
        "metadata:\n  name: {}\n{}"
        "spec:\n"
        "  slotsPerWorker: {}\n"
        "  runPolicy:\n    cleanPodPolicy: Running\n"
        "  mpiReplicaSpecs:\n",
        name, space, group.ranks_per_node);

    std::string launcher = "            command:\n            - mpirun\n            args:\n";
    const auto argument = [&](std::string_view word) {
        launcher += fmt::format("            - {}\n", yaml_quoted(word));
    };
    argument("-np");
    argument(std::to_string(group.nodes * group.ranks_per_node));
    // Containers run as root unless their image says otherwise, which mpirun refuses.
    argument("--allow-run-as-root");
    argument("--bind-to");
    argument("none");
    for (const auto& [variable, value] : options.environment) {
        argument("-x");
        argument(variable + "=" + value);
    }
    argument(options.program);
    argument(kMountedPlan);
    for (std::size_t w = 1; w < options.words.size(); ++w)
        argument(options.words[w]);

    std::string limits;
    if (group.gpus) limits += fmt::format("                nvidia.com/gpu: {}\n", group.ranks_per_node);
    if (const int cpus = cpus_of(options, group); cpus > 0)
        limits += fmt::format("                cpu: {}\n", cpus * group.ranks_per_node);
    const std::string resources =
        limits.empty() ? "" : "            resources:\n              limits:\n" + limits;
    return text + pod("Launcher", options, 1, launcher, false) +
           pod("Worker", options, group.nodes, resources, group.gpus);
}

Errors check(const std::vector<LaunchNodes>& groups, const LaunchOptions& options) {
    Errors errors;
    const auto wrong = [&](std::string message, std::string flag, std::string hint) {
        errors.push_back({ErrorCode::Usage, std::move(message), std::move(flag), std::move(hint)});
    };
    for (const auto& [name, value] : options.environment) {
        const bool plain = !name.empty() && std::isdigit(static_cast<unsigned char>(name.front())) == 0 &&
                           std::all_of(name.begin(), name.end(), [](char c) {
                               return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
                           });
        if (!plain)
            wrong(fmt::format("'{}' is no name of a variable", name), "--env", "NAME=VALUE,NAME=VALUE");
    }
    // A line break would end the directive and begin another line of the file.
    for (const std::string* text : {&options.job_name, &options.partition, &options.account,
                                    &options.time_limit, &options.name_space, &options.mpi}) {
        if (std::any_of(text->begin(), text->end(),
                        [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }))
            wrong(fmt::format("'{}' holds white space", *text), "launch", "");
    }
    if (options.target != LaunchTarget::MpiJob) return errors;
    if (options.image.empty())
        wrong("an MPIJob needs a container image with trainwright-exec and Open MPI", "--image",
              "--image registry/trainwright:1");
    if (groups.size() > 1)
        wrong(fmt::format("an MPIJob has workers of one size; this plan's nodes have {} and {} ranks",
                          groups[0].ranks_per_node, groups[1].ranks_per_node),
              "--to", "--to slurm, or a plan that fills nodes of one kind");
    return errors;
}

}  // namespace

std::string_view to_string(LaunchTarget target) {
    switch (target) {
        case LaunchTarget::Slurm:
            return "slurm";
        case LaunchTarget::Mpirun:
            return "mpirun";
        case LaunchTarget::MpiJob:
            return "mpijob";
    }
    return "";
}

std::string shell_quoted(std::string_view word) {
    const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
               std::string_view("_-./=:,+@%^").find(c) != std::string_view::npos;
    });
    if (plain) return std::string(word);
    std::string out = "'";
    for (const char c : word)
        out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
}

std::string shell_line(std::span<const std::string> words) {
    std::string line;
    for (const std::string& word : words)
        line += (line.empty() ? "" : " ") + shell_quoted(word);
    return line;
}

Result<std::vector<LaunchNodes>> launch_nodes(const PlanDocument& document) {
    int left = world_size(document.plan);
    if (left > document.cluster.devices())
        return Error{ErrorCode::Usage,
                     fmt::format("the plan has {} ranks, {} has {} devices", left, document.cluster.name,
                                 document.cluster.devices()),
                     "plan", "trainwright check names what does not fit"};
    std::vector<LaunchNodes> groups;
    const auto add = [&](const NodeGroup& of, int nodes, int ranks) {
        if (nodes > 0 && ranks > 0)
            groups.push_back({of.type.name, nodes, ranks, of.device.architecture != "cpu"});
    };
    for (const NodeGroup& group : document.cluster.groups) {
        // A rack with several trays is several nodes to a scheduler.
        const int per_node =
            group.type.devices_per_tray > 0 ? group.type.devices_per_tray : group.type.devices;
        const int nodes = group.nodes * (group.type.devices / per_node);
        const int full = std::min(nodes, left / per_node);
        add(group, full, per_node);
        left -= full * per_node;
        if (full < nodes) {
            add(group, 1, left);
            left = 0;
        }
        if (left == 0) break;
    }
    return groups;
}

Result<std::string> launch_file(const PlanDocument& document, const LaunchOptions& options) {
    auto groups = launch_nodes(document);
    if (!groups) return groups.errors();
    for (LaunchNodes& group : *groups)
        group.gpus = group.gpus && !options.on_processors;
    if (Errors errors = check(*groups, options); !errors.empty()) return errors;
    switch (options.target) {
        case LaunchTarget::Slurm:
            return slurm_file(document, *groups, options);
        case LaunchTarget::Mpirun:
            return mpirun_file(document, *groups, options);
        case LaunchTarget::MpiJob:
            return mpijob_file(document, groups->front(), options);
    }
    return std::string();
}

}  // namespace tw
