// A framework's own configuration as a plan: the inverse of plan/frameworks/export. One reader a framework,
// each in a file of its own; registry.cpp lists them.
//
// A configuration states a part of a plan, in the framework's own keys. What it leaves out the framework
// decides (its defaults, stated by the reader), the model or the cluster (complete_plan). Unknown keys are
// warnings that suggest the nearest known one; values that cannot be read are errors, all of them at once.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "plan/check_plan.hpp"
#include "plan/parallel_plan.hpp"

namespace tw {

// Fields of a plan, as far as a configuration or its framework's defaults say them.
struct StatedPlan {
    std::optional<std::int64_t> nodes, devices_per_node, world;  // devices that the job starts on
    std::optional<int> dp, pp, tp, cp, ep, etp, vpp;
    std::optional<WorkShape::Cp> cp_kind;

    // How layers are split; at most one of these families.
    std::optional<std::int64_t> layers_per_virtual_stage;
    std::vector<int> blocks_per_stage;
    std::optional<int> first_blocks, last_blocks;  // of the first and the last pipeline rank
    bool embedding_counts = false;                 // as one block of the first stage
    bool loss_counts = false;                      // ... of the last stage
    std::optional<int> first_weight, last_weight;  // torchtitan: blocks that embedding and head count as
    std::optional<int> layers_per_stage;           // torchtitan, with these weights

    std::optional<std::int64_t> microbatch, microbatches, global_batch, seq_len, vocab_divisor;
    std::optional<std::int64_t> rank_batch;  // sequences of a data-parallel rank between two exchanges
    std::optional<bool> sequence_parallel;
    std::optional<std::string> schedule, rank_order;
    std::optional<int> microbatch_group;

    std::optional<int> zero_stage;
    std::optional<int> shard_ranks;     // that a shard group spans
    std::optional<int> shard_replicas;  // copies of the sharded states: shard_ranks = dp * cp / replicas
    std::optional<RecomputeMode> recompute;
    std::optional<int> recompute_layers;
    RecomputeModules recompute_modules = {};  // of RecomputeMode::Modules, those that the model lacks too
    std::optional<Precision> compute, gradient_reduce, optimizer_states;
    std::optional<bool> gradient_fp32;
    std::optional<OptimizerKind> optimizer;
    std::optional<bool> overlap_grad_reduce, overlap_param_gather, overlap_p2p, overlap_tp;
    std::optional<double> bucket_elements;  // gradients of a bucket
    std::optional<double> offload_optimizer;
    std::optional<AttentionKernel> attention;
    std::optional<bool> dropout;

    // nodes * devices_per_node where both are stated, else world.
    [[nodiscard]] std::optional<std::int64_t> devices() const;
};

// One setting as it was read: "tp", "8", "--tensor-model-parallel-size".
struct StatedSetting {
    std::string what, value, key;
};

struct ImportedConfig {
    TargetFramework framework = TargetFramework::Megatron;
    std::string row = "trainwright";  // of plan/frameworks: whose kernels and defaults run it
    StatedPlan stated;
    std::vector<StatedSetting> settings;  // in the order in which the reader asks for them
    // What load_model_text builds the model from, where the configuration describes it; else null.
    Json model;
    std::string model_name;     // its name, or that of a preset
    std::string model_missing;  // why there is no model: "no --hidden-size"
    std::vector<std::string> warnings;
    // Settings that the framework refuses beside each other, in its own keys: it can be read, and is not
    // legal.
    Errors contradictions;
};

struct ConfigReader {
    TargetFramework framework;
    std::string_view document;  // "Megatron-LM arguments"
    // True where the text looks like one of its documents; cheap, and never wrong about another kind's.
    bool (*sniff)(std::string_view text, std::string_view path);
    Result<ImportedConfig> (*read)(std::string_view text, std::string_view path);
};

std::span<const ConfigReader> config_readers();  // in the order in which they are tried
// The first reader whose sniff is true; null where there is none.
const ConfigReader* find_config_reader(std::string_view text, std::string_view path);
const ConfigReader* config_reader_of(TargetFramework framework);  // null for Trainwright

// The plan of a configuration for a model on a cluster: dp follows from the devices, microbatches from the
// global batch, stages from the split. Errors (Unreadable, in the framework's keys) are appended; no plan
// where none can be made. Whether it is legal is check_plan's.
std::optional<ParallelPlan> complete_plan(const ImportedConfig& config, const LayerGraph& graph,
                                          const Cluster& cluster, Errors& errors);

// A model and a number of devices that suit whatever the configuration states, so that rules between its own
// numbers can be checked before the real ones are known.
Json stand_in_model(const ImportedConfig& config);
std::int64_t stand_in_devices(const ImportedConfig& config);

// "tp8 pp16 mbs1 ..., 16 devices": the degrees that are stated.
std::string stated_summary(const ImportedConfig& config);

Result<ImportedConfig> import_megatron(std::string_view text, std::string_view path);    // megatron.cpp
Result<ImportedConfig> import_deepspeed(std::string_view text, std::string_view path);   // deepspeed.cpp
Result<ImportedConfig> import_torchtitan(std::string_view text, std::string_view path);  // torchtitan.cpp
Result<ImportedConfig> import_nanotron(std::string_view text, std::string_view path);    // nanotron.cpp
Result<ImportedConfig> import_accelerate(std::string_view text, std::string_view path);  // accelerate.cpp

// Blocks of each stage in --pipeline-model-parallel-layout
// (core/transformer/pipeline_parallel_layer_layout.py): stages between '|', in each E (embedding, once and
// first), t (block), m (multi-token prediction), L (loss, once and last); x*n and (...)*n repeat, commas are
// decoration. Errors: what else stands there, its column.
struct MegatronLayout {
    std::vector<int> blocks;  // of each stage
    int mtp = 0;
};
Result<MegatronLayout> parse_megatron_layout(std::string_view text);

// Names of Megatron-LM's flags (core 0.20) without their dashes, one blank between two
// (megatron_flag_names.cpp).
std::string_view megatron_flag_names();

}  // namespace tw
