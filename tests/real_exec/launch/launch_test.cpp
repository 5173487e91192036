#include <gtest/gtest.h>

#include "models/hardware/cluster.hpp"
#include "plan/stage_partition.hpp"
#include "real_exec/launch/launch_file.hpp"
#include "real_exec/launch/shell_words.hpp"

namespace tw {
namespace {

PlanDocument plan_on(const std::string& cluster, int dp, int pp, int tp) {
    PlanDocument document;
    document.model_name = "gpt2-tiny";
    const auto model = read_model_document("gpt2-tiny");
    EXPECT_TRUE(model);
    document.model_document = *model;
    document.graph = load_model("gpt2-tiny")->graph;
    const auto loaded = load_cluster(cluster);
    EXPECT_TRUE(loaded) << to_string(loaded.errors());
    document.cluster = *loaded;
    document.plan.mesh.dp = dp;
    document.plan.mesh.pp = pp;
    document.plan.mesh.tp = tp;
    document.plan.stages = uniform_partition(document.graph, pp, RecomputeMode::None);
    return document;
}

LaunchOptions options_for(LaunchTarget target) {
    LaunchOptions options;
    options.target = target;
    options.words = {"plan.json", "--steps", "50", "--data", "my corpus.txt"};
    options.environment = {{"NCCL_DEBUG", "INFO"}};
    return options;
}

TEST(Launch, SlurmStartsATaskADevice) {
    const auto text = launch_file(plan_on("h100:16", 2, 4, 2), options_for(LaunchTarget::Slurm));
    ASSERT_TRUE(text) << to_string(text.errors());
    EXPECT_EQ(*text,
              "#!/bin/bash\n"
              "# gpt2-tiny on h100:16: tp2 pp4 dp2 mbs1 1f1b, 16 ranks. Written by trainwright launch.\n"
              "#SBATCH --job-name=trainwright\n"
              "#SBATCH --output=%x-%j.out\n"
              "#SBATCH --nodes=2\n"
              "#SBATCH --ntasks-per-node=8\n"
              "#SBATCH --gpus-per-node=8\n"
              "#SBATCH --exclusive\n"
              "\n"
              "set -euo pipefail\n"
              "export NCCL_DEBUG=INFO\n"
              "srun --mpi=pmix --kill-on-bad-exit=1 \\\n"
              "    trainwright-exec plan.json --steps 50 --data 'my corpus.txt'\n");
}

TEST(Launch, RanksThatSaveAreToldAheadOfTheirEnd) {
    for (const char* option : {"--checkpoint", "--trace"}) {
        LaunchOptions options = options_for(LaunchTarget::Slurm);
        options.words.insert(options.words.end(), {option, "there"});
        const auto text = launch_file(plan_on("h100:16", 2, 4, 2), options);
        ASSERT_TRUE(text);
        EXPECT_NE(text->find("#SBATCH --signal=USR1@120\n"), std::string::npos) << *text;
    }
}

TEST(Launch, NodesOfSeveralSizesAreAHeterogeneousJob) {
    // Twelve ranks: a whole node and half of another.
    LaunchOptions options = options_for(LaunchTarget::Slurm);
    const auto text = launch_file(plan_on("h100:16", 3, 2, 2), options);
    ASSERT_TRUE(text);
    EXPECT_NE(text->find("#SBATCH --ntasks-per-node=8\n"), std::string::npos) << *text;
    EXPECT_NE(text->find("#SBATCH hetjob\n"), std::string::npos);
    EXPECT_NE(text->find("#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-node=4\n"), std::string::npos);
    EXPECT_NE(text->find("--het-group=0,1"), std::string::npos);
    options.target = LaunchTarget::MpiJob;
    options.image = "x";
    const auto job = launch_file(plan_on("h100:16", 3, 2, 2), options);
    ASSERT_FALSE(job);
    EXPECT_EQ(job.error().message, "an MPIJob has workers of one size; this plan's nodes have 8 and 4 ranks");
}

TEST(Launch, MpirunMapsAndBinds) {
    LaunchOptions options = options_for(LaunchTarget::Mpirun);
    options.hostfile = "hosts";
    const auto gpus = launch_file(plan_on("a100:16", 2, 4, 2), options);
    ASSERT_TRUE(gpus);
    EXPECT_NE(gpus->find("exec mpirun \\\n    -np 16 \\\n    --hostfile hosts \\\n    --map-by ppr:8:node "
                         "--bind-to none \\\n"
                         "    --mca pml ob1 --mca btl ^openib \\\n    -x NCCL_DEBUG=INFO \\\n    "
                         "trainwright-exec plan.json"),
              std::string::npos)
        << *gpus;
    options.cpus_per_task = 2;
    const auto cpus = launch_file(plan_on("cpu:2", 1, 2, 1), options);
    ASSERT_TRUE(cpus);
    EXPECT_NE(cpus->find("--map-by ppr:2:node:PE=2 --bind-to core"), std::string::npos) << *cpus;
    const auto uneven = launch_file(plan_on("h100:16", 3, 2, 2), options);
    ASSERT_TRUE(uneven);
    EXPECT_NE(uneven->find("--map-by slot --bind-to none"), std::string::npos) << *uneven;
}

TEST(Launch, AnMpiJobCarriesItsPlan) {
    LaunchOptions options = options_for(LaunchTarget::MpiJob);
    options.job_name = "My_Job.1";
    const auto missing = launch_file(plan_on("h100:16", 2, 4, 2), options);
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().context, "--image");
    options.image = "registry/trainwright:1";
    const auto text = launch_file(plan_on("h100:16", 2, 4, 2), options);
    ASSERT_TRUE(text) << to_string(text.errors());
    for (const char* part :
         {"kind: ConfigMap\nmetadata:\n  name: my-job-1-plan\n",
          "    {\n     \"schema\": \"trainwright/plan\",\n",
          "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata:\n  name: my-job-1\n",
          "  slotsPerWorker: 8\n", "    Launcher:\n      replicas: 1\n", "    Worker:\n      replicas: 2\n",
          "nvidia.com/gpu: 8\n", "            - \"-np\"\n            - \"16\"\n",
          "            - \"/trainwright/plan.json\"\n            - \"--steps\"\n",
          "            - \"my corpus.txt\"\n", "            - \"--allow-run-as-root\"\n",
          "            - name: shm\n              mountPath: /dev/shm\n            resources:\n",
          "          - name: shm\n            emptyDir:\n              medium: Memory\n"})
        EXPECT_NE(text->find(part), std::string::npos) << part << "\n" << *text;
}

TEST(Launch, RanksOnProcessorsAskForNoGpu) {
    LaunchOptions options = options_for(LaunchTarget::Slurm);
    options.on_processors = true;
    options.mpi = "pmi2";
    const auto text = launch_file(plan_on("h100:16", 2, 4, 2), options);
    ASSERT_TRUE(text);
    EXPECT_EQ(text->find("gpus"), std::string::npos) << *text;
    EXPECT_NE(text->find("#SBATCH --cpus-per-task=1\n"), std::string::npos) << *text;
    EXPECT_NE(text->find("srun --mpi=pmi2 --kill"), std::string::npos) << *text;
    options.target = LaunchTarget::MpiJob;
    options.image = "x";
    const auto job = launch_file(plan_on("h100:16", 2, 4, 2), options);
    ASSERT_TRUE(job);
    EXPECT_EQ(job->find("nvidia"), std::string::npos) << *job;
    EXPECT_EQ(job->find("/dev/shm"), std::string::npos) << *job;
}

TEST(Launch, RefusesWhatWouldBreakTheFile) {
    LaunchOptions options = options_for(LaunchTarget::Slurm);
    options.job_name = "x\n#SBATCH --uid=0";
    options.environment = {{"A B", "1"}};
    const auto text = launch_file(plan_on("h100:16", 2, 4, 2), options);
    ASSERT_FALSE(text);
    EXPECT_EQ(text.errors().size(), 2U);
    const auto large = launch_file(plan_on("cpu:2", 2, 2, 2), options_for(LaunchTarget::Slurm));
    ASSERT_FALSE(large);
    EXPECT_EQ(large.error().message, "the plan has 8 ranks, cpu:2 has 2 devices");
}

TEST(ShellWords, QuoteWhatAShellWouldRead) {
    EXPECT_EQ(shell_quoted("a-b/c.json"), "a-b/c.json");
    EXPECT_EQ(shell_quoted(""), "''");
    EXPECT_EQ(shell_quoted("a b"), "'a b'");
    EXPECT_EQ(shell_quoted("it's $HOME"), "'it'\\''s $HOME'");
}

}  // namespace
}  // namespace tw
