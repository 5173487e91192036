// The file that starts a plan's ranks on a cluster: a Slurm batch script, an mpirun script, or a Kubeflow
// MPIJob. All three start trainwright-exec once a device, as many as the plan has ranks, node after node.
//
//   slurm    sbatch's options (https://slurm.schedmd.com/sbatch.html), srun --mpi; nodes of several
//   kinds
//            become a heterogeneous job (https://slurm.schedmd.com/heterogeneous_jobs.html)
//   mpirun   Open MPI 4's options (mpirun(1)): ranks by node, processors bound where the plan runs on them
//   mpijob   kubeflow.org/v2beta1
//   (https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/mpi/),
//            with the plan in a ConfigMap beside it
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "plan/plan_json.hpp"

namespace tw {

enum class LaunchTarget : std::uint8_t { Slurm, Mpirun, MpiJob };
std::string_view to_string(LaunchTarget target);  // "slurm", "mpirun", "mpijob"

struct LaunchOptions {
    LaunchTarget target = LaunchTarget::Slurm;
    std::string job_name = "trainwright";
    std::string program = "trainwright-exec";  // as the nodes find it
    // trainwright-exec's words: the plan's path, then its options. An MPIJob's plan is mounted, and its path
    // replaces the first word.
    std::vector<std::string> words;
    std::vector<std::pair<std::string, std::string>> environment;  // NCCL_DEBUG=INFO, ...
    bool on_processors = false;  // the ranks use no GPU, whatever the plan's devices are
    int cpus_per_task = 0;       // 0: one where ranks run on processors, else left to the cluster
    std::string mpi = "pmix";    // slurm: srun --mpi
    std::string partition, account, time_limit;  // slurm; empty: the cluster's own
    std::string hostfile;                        // mpirun; empty: where it is started
    std::string image, name_space;               // mpijob
};

// Nodes of one kind that the plan uses, in order.
struct LaunchNodes {
    std::string type;
    int nodes = 0, ranks_per_node = 0;
    bool gpus = false;
};
// The first nodes of the plan's cluster that hold its ranks; a last node that is used in part is a group of
// its own. Errors: a plan with more ranks than the cluster has devices.
Result<std::vector<LaunchNodes>> launch_nodes(const PlanDocument& document);

// Errors: what the target lacks (an image for MPIJob), or cannot say (nodes of several sizes in an MPIJob).
Result<std::string> launch_file(const PlanDocument& document, const LaunchOptions& options);

}  // namespace tw
