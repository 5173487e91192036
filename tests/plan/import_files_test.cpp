// Configurations as users write them: scripts with variables, misspelt keys, what is illegal in them.
#include <algorithm>

#include <gtest/gtest.h>

#include "models/load_model.hpp"
#include "plan/frameworks/import/foreign_table.hpp"
#include "plan/frameworks/import/import_config.hpp"
#include "plan/frameworks/import/shell_words.hpp"

namespace tw {
namespace {

bool reads_yaml() {
    return parse_yaml("a: 1", "probe").has_value();
}

ImportedConfig read(TargetFramework framework, std::string_view text) {
    const auto config = config_reader_of(framework)->read(text, "file");
    if (config) return *config;
    ADD_FAILURE() << to_string(config.errors()) << text;
    return {};
}

Errors refusal(TargetFramework framework, std::string_view text) {
    const auto config = config_reader_of(framework)->read(text, "file");
    EXPECT_FALSE(config.has_value());
    return config ? Errors{} : config.errors();
}

bool warned(const ImportedConfig& config, std::string_view words) {
    return std::any_of(config.warnings.begin(), config.warnings.end(),
                       [&](const std::string& w) { return w.find(words) != std::string::npos; });
}

TEST(ShellWords, VariablesListsAndConditions) {
    const ShellScript script = read_shell(R"(#!/bin/bash
#SBATCH --nodes=4
A=3; B="two words"   # a comment
declare -a LIST=(
    --x $A   # one
    "--y $B"
)
LIST+=(--z ${NONE:-seven} '$A')
: "${D:=nine}"
export E=$((A * (2 + 5) / 3)) F=${A}x
if [[ "$B" == "two words" && $A -gt 2 ]]; then C=yes; elif true; then C=no; else C=never; fi
if [ -f nowhere ]; then G=yes; else G=no; fi
[ -z "$H" ] && H=empty
case "$C" in
    no) I=1 ;;
    yes|maybe) I=2 ;;
    *) I=3 ;;
esac
for size in small large; do S=$size; done
cat <<EOF > file
run --not this
EOF
srun bash -c "run ${LIST[@]} \$RANK" 2>&1 | tee log
run "${LIST[@]}" $B "$B" $UNSET $(date) `date` > out
)");
    ASSERT_EQ(script.directives, std::vector<std::string>{"--nodes=4"});
    ASSERT_GE(script.commands.size(), 2U);
    EXPECT_EQ(script.commands.back(),
              (ShellWords{"run", "--x", "3", "--y two words", "--z", "seven", "$A", "two", "words",
                          "two words", "${UNSET}", "$(date)", "`date`"}));
    const auto value = [&](const char* name) { return script.variables.at(name).front(); };
    EXPECT_EQ(value("E"), "7");
    EXPECT_EQ(value("F"), "3x");
    EXPECT_EQ(value("C"), "yes");
    EXPECT_EQ(value("D"), "nine");
    EXPECT_EQ(value("G"), "no");
    EXPECT_EQ(value("H"), "empty");
    EXPECT_EQ(value("I"), "2");
    EXPECT_EQ(value("S"), "small");
    EXPECT_EQ(split_words("a 'b c' \"d\\\"e\" f\\ g # h"), (ShellWords{"a", "b c", "d\"e", "f g"}));
}

TEST(ImportFiles, MegatronScript) {
    const ImportedConfig config = read(TargetFramework::Megatron, R"(#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
TP=2
PP=$((2 * 2))
MODEL="--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --swiglu --normalization RMSNorm \
  --position-embedding-type rope --disable-bias-linear --untie-embeddings-and-output-weights"
TRAIN=(--micro-batch-size 1 --global-batch-size 1_024 --seq-length 4096 --bf16 "--fp8-format hybrid")
srun torchrun --nproc_per_node 8 --nnodes $SLURM_NNODES pretrain_gpt.py $MODEL ${TRAIN[@]} \
  --tensor-model-parallel-size $TP --pipeline-model-parallel-size ${PP} --vocab-size 32000 \
  --context_parallel_size 2 --sequence-paralel --train-iters $STEPS --my-own-flag
)");
    EXPECT_EQ(config.stated.devices(), 16);
    EXPECT_EQ(config.stated.tp, 2);
    EXPECT_EQ(config.stated.pp, 4);
    EXPECT_EQ(config.stated.cp, 1) << "argparse knows no underscores";
    EXPECT_EQ(config.stated.global_batch, 1024);
    EXPECT_EQ(config.stated.compute, Precision::Fp8);
    EXPECT_EQ(read(TargetFramework::Megatron, "--micro-batch-size 1 --bf16 --fp4-format e2m1").stated.compute,
              Precision::Nvfp4);
    EXPECT_TRUE(
        warned(config, "unknown flag --context_parallel_size; did you mean '--context-parallel-size'?"));
    EXPECT_TRUE(warned(config, "unknown flag --sequence-paralel; did you mean '--sequence-parallel'?"));
    EXPECT_TRUE(warned(config, "has no flags --my-own-flag"));
    const auto model = load_model_text(config.model.dump(), "file");
    ASSERT_TRUE(model.has_value());
    EXPECT_EQ(model->graph.blocks, 32);
    EXPECT_EQ(model->config->ffn, 10880) << "two thirds of 4 * 4096 in multiples of 64";

    // A list alone, and the YAML of a functional test.
    for (const char* text :
         {"--num-layers 2 --hidden-size 64 --num-attention-heads 4 --micro-batch-size 2\n",
          "MODEL_ARGS:\n  --num-layers: 2\n  --hidden-size: 64\n  --num-attention-heads: 4\n"
          "  --micro-batch-size: 2\n  --bf16: true\n  --swiglu: false\n"}) {
        if (std::string_view(text).starts_with("MODEL_ARGS") && !reads_yaml()) continue;
        const ImportedConfig small = read(TargetFramework::Megatron, text);
        EXPECT_EQ(small.stated.microbatch, 2);
        EXPECT_EQ(small.model["layers"], 2);
        EXPECT_TRUE(warned(small, "no --vocab-size"));
    }
}

TEST(ImportFiles, MegatronsModules) {
    const std::string start =
        "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --micro-batch-size 1 "
        "--recompute-granularity selective ";
    const auto plan_of = [&](const std::string& flags, const char* model = "deepseek-v3") {
        const ImportedConfig config = read(TargetFramework::Megatron, start + flags);
        Errors errors;
        const auto plan = complete_plan(config, load_model(model)->graph, *load_cluster("h100:64"), errors);
        EXPECT_TRUE(plan) << to_string(errors);
        return *plan;
    };
    ParallelPlan plan = plan_of("--recompute-modules mla_up_proj layernorm moe_act");
    EXPECT_EQ(plan.recompute, RecomputeMode::Modules);
    EXPECT_EQ(to_string(plan.recompute_modules), "moe_act+layernorm+mla_up_proj");
    EXPECT_EQ(plan.stages.front().recompute, RecomputeMode::Modules);
    plan = plan_of("--recompute-modules core_attn");
    EXPECT_EQ(plan.recompute, RecomputeMode::Selective);
    EXPECT_FALSE(plan.recompute_modules.any());
    // Deprecated, beside the default.
    EXPECT_EQ(to_string(plan_of("--moe-layer-recompute").recompute_modules), "core_attn+moe");
    // Megatron takes these of any model; its norms and experts are what they would be of.
    plan = plan_of("--recompute-modules layernorm moe mlp", "llama3-8b");
    EXPECT_EQ(to_string(plan.recompute_modules), "mlp");
    EXPECT_EQ(plan_of("--recompute-modules moe", "llama3-8b").recompute, RecomputeMode::None);
    const ImportedConfig other = read(TargetFramework::Megatron, start + "--recompute-modules mhc mlp");
    EXPECT_TRUE(warned(other, "--recompute-modules mhc: not modelled"));
    EXPECT_EQ(to_string(other.stated.recompute_modules), "mlp");
}

TEST(ImportFiles, FlagsThatContradictEachOther) {
    const ImportedConfig config =
        read(TargetFramework::Megatron,
             "--num-layers 8 --bf16 --fp16 --overlap-param-gather --recompute-granularity full "
             "--num-query-groups 8 "
             "--num-layers-per-virtual-pipeline-stage 2 --num-virtual-stages-per-pipeline-rank 2");
    std::vector<std::string> keys;
    for (const Error& error : config.contradictions)
        keys.push_back(error.context);
    EXPECT_EQ(keys, (std::vector<std::string>{"--bf16", "--overlap-param-gather", "--overlap-param-gather",
                                              "--recompute-granularity",
                                              "--num-virtual-stages-per-pipeline-rank"}));
    EXPECT_TRUE(warned(config, "--num-query-groups does nothing without --group-query-attention"));
    EXPECT_EQ(read(TargetFramework::DeepSpeed, R"({"bf16": {"enabled": true}, "fp16": {"enabled": true}})")
                  .contradictions.size(),
              1U);
}

TEST(ImportFiles, WhatIsNoNumberIsRefused) {
    const Errors errors = refusal(TargetFramework::Megatron,
                                  "--num-layers 8 --tensor-model-parallel-size two --micro-batch-size 0 "
                                  "--pipeline-model-parallel-layout Et*4|x");
    ASSERT_EQ(errors.size(), 3U) << to_string(errors);
    EXPECT_EQ(errors[0].context, "file: --tensor-model-parallel-size");
    EXPECT_EQ(errors[1].context, "file: --pipeline-model-parallel-layout");
    EXPECT_EQ(errors[2].context, "file: --micro-batch-size");
    const Errors json = refusal(TargetFramework::DeepSpeed,
                                R"({"train_batch_size": "many", "zero_optimization": {"stage": 4}})");
    ASSERT_EQ(json.size(), 2U);
    EXPECT_EQ(json[0].context, "file: train_batch_size");
    EXPECT_EQ(json[1].context, "file: zero_optimization.stage");
}

// UC-01: 30 layers on 4 ranks are refused, with the flags that split them.
TEST(ImportFiles, UnevenLayersNeedTheirFlags) {
    const std::string text =
        "--num-layers 30 --hidden-size 1024 --num-attention-heads 16 --vocab-size 32000 --bf16 "
        "--micro-batch-size 1 --global-batch-size 64 --pipeline-model-parallel-size 4 ";
    const auto complete = [](const std::string& flags, Errors& errors) {
        const ImportedConfig config = read(TargetFramework::Megatron, flags);
        const auto model = load_model_text(config.model.dump(), "file");
        return complete_plan(config, model->graph, *load_cluster("h100:8"), errors);
    };
    Errors errors;
    (void)complete(text, errors);
    ASSERT_EQ(errors.size(), 1U);
    EXPECT_EQ(errors[0].context, "--pipeline-model-parallel-size");
    EXPECT_NE(errors[0].message.find("30 layers are not a multiple of pp 4"), std::string::npos);
    EXPECT_NE(
        errors[0].hint.find("--decoder-first-pipeline-num-layers 7 --decoder-last-pipeline-num-layers 7"),
        std::string::npos)
        << errors[0].hint;
    errors.clear();
    const auto legal =
        complete(text + "--decoder-first-pipeline-num-layers 7 --decoder-last-pipeline-num-layers 7", errors);
    ASSERT_TRUE(legal.has_value()) << to_string(errors);
    EXPECT_EQ(legal->stages.size(), 4U);
    EXPECT_EQ(legal->stages.front().last_layer, 8) << "the embedding and 7 blocks";
}

// UC-11: the layout of a published recipe.
TEST(ImportFiles, MegatronLayout) {
    const auto layout = parse_megatron_layout("Et*2|(t*2|)*34,t*3|(t*2|)*3,tL");
    ASSERT_TRUE(layout.has_value()) << to_string(layout.errors());
    ASSERT_EQ(layout->blocks.size(), 40U);
    EXPECT_EQ(layout->blocks.front(), 2);
    EXPECT_EQ(layout->blocks.back(), 1);
    EXPECT_EQ(std::count(layout->blocks.begin(), layout->blocks.end(), 3), 1);
    int sum = 0;
    for (const int blocks : layout->blocks)
        sum += blocks;
    EXPECT_EQ(sum, 80);
    EXPECT_EQ(parse_megatron_layout("Ett|t*3mL")->mtp, 1);
    for (const char* wrong :
         {"", "t|t", "Et|tLt", "tE|tL", "Et|(t|", "Et|)tL", "Et*|tL", "EtX|tL", "Et*999999L"})
        EXPECT_FALSE(parse_megatron_layout(wrong).has_value()) << wrong;
}

TEST(ImportFiles, DeepSpeed) {
    const ImportedConfig config = read(TargetFramework::DeepSpeed, R"({
      "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2, "train_batch_size": "auto",
      "bf16": {"enabled": true}, "zero_optimisation": {}, "steps_per_print": 10,
      "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}, "reduce_bucket_sise": 5e8,
                            "reduce_bucket_size": 5e8},
      "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}})");
    EXPECT_EQ(config.stated.microbatch, 4);
    EXPECT_EQ(config.stated.microbatches, 2);
    EXPECT_FALSE(config.stated.global_batch.has_value());
    EXPECT_EQ(config.stated.zero_stage, 3);
    EXPECT_EQ(config.stated.offload_optimizer, 1.0);
    EXPECT_EQ(config.stated.bucket_elements, 5e8);
    EXPECT_TRUE(warned(config, "unknown key zero_optimisation; did you mean 'zero_optimization'?"));
    EXPECT_TRUE(warned(
        config, "unknown key zero_optimization.reduce_bucket_sise; did you mean 'reduce_bucket_size'?"));
    Errors errors;
    const auto plan = complete_plan(config, load_model("llama3-8b")->graph, *load_cluster("a100:16"), errors);
    ASSERT_TRUE(plan.has_value()) << to_string(errors);
    EXPECT_EQ(plan->global_batch, 4 * 2 * 16);
}

TEST(ImportFiles, Torchtitan) {
    const ImportedConfig config = read(TargetFramework::Torchtitan, R"(
[model]
name = "llama3"
flavor = "70B"
converters = ["quantize.linear.float8"]
[training]
local_batch_size = 8
seq_len = 8192
[parallelism]
data_parallel_shard_degree = -1
tensor_paralel_degree = 4
tensor_parallel_degree = 8
pipeline_parallel_degree = 4
pipeline_parallel_schedule = "Interleaved1F1B"
[activation_checkpoint]
mode = "full"
)");
    EXPECT_EQ(config.model_name, "llama3-70b");
    EXPECT_EQ(config.stated.compute, Precision::Fp8);
    EXPECT_EQ(config.stated.recompute, RecomputeMode::Full);
    EXPECT_EQ(config.stated.zero_stage, 2) << "a pipeline keeps parameters by default";
    EXPECT_TRUE(warned(config, "parallelism.tensor_paralel_degree; did you mean 'tensor_parallel_degree'?"));
    Errors errors;
    const auto plan =
        complete_plan(config, load_model("llama3-70b")->graph, *load_cluster("h100:64"), errors);
    ASSERT_TRUE(plan.has_value()) << to_string(errors);
    EXPECT_EQ(plan->mesh.dp, 2);
    EXPECT_EQ(plan->global_batch, 16);
    EXPECT_EQ(plan->microbatches, 8);
    EXPECT_EQ(plan->virtual_stages, 2);
}

TEST(ImportFiles, NanotronAndItsModel) {
    if (!reads_yaml()) GTEST_SKIP() << "built without yaml-cpp";
    const ImportedConfig config = read(TargetFramework::Nanotron, R"(general:
  run: tiny
model:
  dtype: bfloat16
  model_config:
    is_llama_config: true
    hidden_size: 2048
    intermediate_size: 8192
    num_attention_heads: 32
    num_hidden_layers: 16
    num_key_value_heads: 8
    vocab_size: 32000
    tie_word_embeddings: true
    pad_token_id: null
parallelism:
  dp: 4
  pp: 2
  tp: 2
  pp_engine: 1f1b
  tp_mode: REDUCE_SCATTER
  recompute_layers: true
tokens:
  micro_batch_size: 2
  batch_accumulation_per_replica: 4
  sequence_length: 4096
optimizer:
  zero_stage: 1
)");
    EXPECT_EQ(config.stated.devices(), 16);
    EXPECT_TRUE(warned(config, "parallelism.recompute_layers; did you mean 'recompute_layer'?"));
    const auto model = load_model_text(config.model.dump(), config.model_name);
    ASSERT_TRUE(model.has_value()) << to_string(model.errors());
    EXPECT_EQ(model->graph.blocks, 16);
    Errors errors;
    const auto plan = complete_plan(config, model->graph, *load_cluster("h100:16"), errors);
    ASSERT_TRUE(plan.has_value()) << to_string(errors);
    EXPECT_EQ(plan->global_batch, 2 * 4 * 4);
    EXPECT_FALSE(refusal(TargetFramework::Nanotron, "parallelism:\n  pp_engine: zigzag\n").empty());
}

TEST(ImportFiles, Accelerate) {
    if (!reads_yaml()) GTEST_SKIP() << "built without yaml-cpp";
    const ImportedConfig config = read(TargetFramework::Accelerate, R"(compute_environment: LOCAL_MACHINE
distributed_type: FSDP
fsdp_config:
  fsdp_sharding_strategy: SHARD_GRAD_OP
  fsdp_activation_checkpointing: true
  fsdp_shardingstrategy: FULL_SHARD
mixed_precision: 'no'
num_machines: 2
num_processes: 16
)");
    EXPECT_EQ(config.stated.devices(), 16);
    EXPECT_EQ(config.stated.zero_stage, 2);
    EXPECT_EQ(config.stated.compute, Precision::Fp32);
    EXPECT_EQ(config.stated.recompute, RecomputeMode::Full);
    EXPECT_TRUE(warned(config, "fsdp_config.fsdp_shardingstrategy; did you mean 'fsdp_sharding_strategy'?"));
    // YAML that refers to itself is refused, not followed.
    const Errors endless = refusal(TargetFramework::Accelerate, "distributed_type: &a [*a]\n");
    ASSERT_FALSE(endless.empty());
}

// Rules between a configuration's own numbers hold before its model and its cluster are known.
TEST(ImportFiles, StandInsSuitTheConfiguration) {
    for (const char* text :
         {"--num-layers 1 --pipeline-model-parallel-size 8 --num-virtual-stages-per-pipeline-rank 3 "
          "--global-batch-size 8 --bf16",
          "--num-layers 1 --tensor-model-parallel-size 8 --context-parallel-size 4 --bf16",
          "--num-layers 1 --tensor-model-parallel-size 4 --expert-model-parallel-size 16 --bf16",
          "--num-layers 1 --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et*3|t*5L' "
          "--bf16"}) {
        const ImportedConfig config = read(TargetFramework::Megatron, text);
        const auto model = load_model_text(stand_in_model(config).dump(), "stand-in");
        ASSERT_TRUE(model.has_value()) << text << to_string(model.errors());
        Cluster cluster = *load_cluster("h100:8");
        cluster.groups.front().nodes =
            static_cast<int>(std::max<std::int64_t>(1, stand_in_devices(config) / 8));
        Errors errors;
        const auto plan = complete_plan(config, model->graph, cluster, errors);
        ASSERT_TRUE(plan.has_value()) << text << to_string(errors);
        const PlanCheck check = check_plan(model->graph, cluster, *plan, TargetFramework::Megatron);
        EXPECT_TRUE(check.errors.empty()) << text << to_string(check.errors);
    }
}

}  // namespace
}  // namespace tw
