// accelerate's YAML for `accelerate launch --config_file`: utils/dataclasses.py, parallelism_config.py.
#include <fmt/format.h>

#include "plan/frameworks/export/export_plan.hpp"

namespace tw {
namespace {

std::string_view mixed_precision(Precision compute) {
    return compute == Precision::Fp32 ? "no" : to_string(compute);
}

void add_sharding(const ParallelPlan& plan, std::string& text) {
    const int shards = shard_ranks(plan) / plan.mesh.cp;
    const bool full = plan.stages.front().recompute == RecomputeMode::Full;
    text += "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\n";
    text += fmt::format("  fsdp_reshard_after_forward: {}\n", plan.zero_stage == 3);
    text += fmt::format("  fsdp_activation_checkpointing: {}\n", full);
    text +=
        "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  fsdp_offload_params: false\n"
        "  fsdp_state_dict_type: SHARDED_STATE_DICT\n";
    text += "parallelism_config:\n";
    const auto degree = [&text](std::string_view key, int value) {
        text += fmt::format("  parallelism_config_{}_size: {}\n", key, value);
    };
    degree("dp_replicate", plan.mesh.dp / shards);
    degree("dp_shard", shards);
    degree("tp", plan.mesh.tp);
    degree("cp", plan.mesh.cp);
}

}  // namespace

PlanExport export_accelerate(const ExportInput& input) {
    const ParallelPlan& plan = input.plan();
    const Cluster& cluster = input.document.cluster;
    PlanExport made;
    made.remarks.push_back(
        fmt::format("the script gives each rank batches of {} sequences of {} tokens, and "
                    "Accelerator(gradient_accumulation_steps={})",
                    plan.microbatch, plan.seq_len, plan.microbatches));
    // Replicas alone are plain data parallelism; tp by itself has nothing to shard and goes through FSDP too.
    const bool replicas = plan.zero_stage == 0 && plan.mesh.tp == 1 && plan.mesh.cp == 1;
    if (replicas && plan.stages.front().recompute == RecomputeMode::Full)
        made.remarks.emplace_back("full recomputation is the model's: gradient_checkpointing_enable()");
    std::string text = "compute_environment: LOCAL_MACHINE\n";
    if (replicas) {
        text += cluster.devices() > 1 ? "distributed_type: MULTI_GPU\n" : "distributed_type: 'NO'\n";
    } else {
        add_sharding(plan, text);
    }
    text += fmt::format("mixed_precision: '{}'\nnum_machines: {}\nnum_processes: {}\n",
                        mixed_precision(plan.precision.compute), cluster.nodes(), cluster.devices());
    if (cluster.nodes() > 1) {
        made.remarks.emplace_back("machine_rank, main_process_ip and main_process_port are each node's own");
    }
    made.text = as_comments({"accelerate: " + input.title()}) + as_comments(made.remarks) + text;
    return made;
}

}  // namespace tw
