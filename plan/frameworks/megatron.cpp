// Megatron-LM and what is built on Megatron-Core.
#include <array>

#include "plan/frameworks/tables.hpp"

namespace tw {
namespace {

constexpr std::array kInPlace = {FrameworkFact{
    "loss", "in place on one fp32 copy of the logits",
    "Megatron-LM core/tensor_parallel/cross_entropy.py (before: mpu/cross_entropy.py): in-place subtraction "
    "and exponential"}};

constexpr std::array kFusedAccumulation = {
    FrameworkFact{"grad_accumulation_fused", "on",
                  "Megatron-LM megatron/arguments.py, --no-gradient-accumulation-fusion switches it off"}};
constexpr std::array kGradientFp32 = {
    FrameworkFact{"gradient_fp32", "fp32 main gradients with fp16 and bf16",
                  "Megatron-LM megatron/model/distributed.py, accumulate_allreduce_grads_in_fp32 (bf16: "
                  "forced; fp16: the fused accumulation needs it)"}};
constexpr std::array kCommon = {
    FrameworkFact{"vocab_divisor", "128 times tp",
                  "Megatron-LM arguments.py, --make-vocab-size-divisible-by"},
    FrameworkFact{"fused_elementwise", "bias-gelu, bias-dropout-add, scaled masked softmax",
                  "Megatron-LM arguments.py, --no-bias-gelu-fusion, --no-bias-dropout-fusion, "
                  "--no-masked-softmax-fusion switch them off"},
};

// The loops of 1F1B; core's for 1F1B without virtual stages, where overlap_p2p_comm is switched off.
constexpr std::array kSynchronised = {FrameworkFact{
    "p2p_calls", "a rank exchanges between its computations, and its host then waits for the device",
    "Megatron-LM p2p_communication.py (v2 on; core/pipeline_parallel), _communicate: "
    "torch.cuda.synchronize() "
    "after batch_isend_irecv; core model_parallel_config.py: batch_p2p_sync = True"}};

constexpr std::array kReadBack = {FrameworkFact{
    "batch_read_back", "all stages; 18 dispatches until the model's first kernel",
    "Megatron-LM pretrain_gpt.py, get_batch, on every stage until 2023: mpu/data.py "
    "(core/tensor_parallel/data.py), _build_key_size_numel_dictionaries: sizes_cuda.cpu(); the rest of "
    "get_batch timed on one core as sim/cost/host_dispatch.hpp says: 113 transpositions, 8 calls of the "
    "device, a broadcast"}};

constexpr std::array kVirtualStagesOverlap = {
    FrameworkFact{"overlap_p2p", "with virtual stages alone",
                  "Megatron-LM arguments.py: args.overlap_p2p_comm = False without "
                  "--num-layers-per-virtual-pipeline-stage, "
                  "--no-overlap-p2p-communication; NeMo MegatronCommOverlapCallback alike"}};

// The host's work beside layers, in Megatron-Core 0.16.1. Gradient hooks and pipeline transfers (two
// processes of a group that sends nothing) were counted by cProfile; a call takes 1.33 us there, 2.4 us
// inside the backward, an operation 7.7 us: sim/cost/host_dispatch.cpp. What it does for every parameter
// tensor was timed on the same core, the functions of core/optimizer and of Transformer Engine's FusedAdam
// over 48 and 240 tensors. Operations of a microbatch, a step and the logs were counted by reading, with 1.4
// for a collective and one for each value that the host reads back.
constexpr double calls(double count, double operations = 0) {
    return (count * 1.33 + operations * 7.7) / 7.7;
}

constexpr double kTorchOperation_us = 7.7, kDeviceCall_us = 2.95;

// Gradients to the main parameters (4.2 us), the list of the norm (0.5), gradients cleared (0.4), FusedAdam's
// lists (4.6), parameters back by a copy each (5.7 and its device call).
constexpr double kUpdatedTensor = (4.2 + 0.5 + 0.4 + 4.6 + 5.7 + kDeviceCall_us) / kTorchOperation_us;
// count_zeros_fp32: 15.9 us and four kernels (comparison, sum, subtraction, addition).
constexpr double kZerosOfTensor = (15.9 + 4 * kDeviceCall_us) / kTorchOperation_us;
// calc_params_l2_norm: 3.8 us.
constexpr double kNormOfTensor = 3.8 / kTorchOperation_us;

constexpr HostExtras host_extras() {
    HostExtras e;
    e.gradient_hook = (3 * 2.4 + 1.8) / 7.7;
    e.transfer = calls(45, 0.8);
    e.microbatch = calls(150, 25);
    e.step = 30 + 6 * 1.4 + 100 / kTorchOperation_us;
    return e;
}

constexpr std::array kHost = {
    FrameworkFact{"host_extras.gradient_hook", "3 calls and a view a tensor",
                  "Megatron-LM core/distributed/distributed_data_parallel.py, _make_backward_post_hook"},
    FrameworkFact{"host_extras.transfer", "45 calls and the device's four of NCCL for each of a pair",
                  "Megatron-LM core/pipeline_parallel/p2p_communication.py, _communicate: batch_isend_irecv, "
                  "then torch.cuda.synchronize (batch_p2p_sync); since v2.2"},
    FrameworkFact{"host_extras.microbatch", "25 operations; 150 calls (estimated)",
                  "Megatron-LM pretrain_gpt.py, get_batch (five tensors copied and broadcast) and loss_func "
                  "with its checks for NaN and infinity; core/pipeline_parallel/schedules.py, forward_step "
                  "and backward_step"},
    FrameworkFact{"host_extras.step", "30 operations, 6 collectives; 100 us of Python (estimated)",
                  "Megatron-LM training/training.py, train_step: loss, logical_and and "
                  "reduce_max_stat_across_model_parallel_group; core/optimizer: norm, clipping, update; "
                  "core/distributed/param_and_grad_buffer.py, start_grad_sync"},
    FrameworkFact{"step_dispatches", "18 us a tensor, 2.4 dispatches",
                  "Megatron-LM core/optimizer/distrib_optimizer.py: _copy_model_grads_to_main_grads, "
                  "_copy_main_params_to_model_params; optimizer.py: get_main_grads_for_grad_norm, zero_grad; "
                  "Transformer Engine optimizers/fused_adam.py, step; timed on one core"},
};

constexpr std::array kStepByShard = {
    FrameworkFact{"host_extras.step_by_shard", "yes",
                  "Megatron-LM core/optimizer/distrib_optimizer.py, _build_model_and_main_param_groups: the "
                  "tensors that lie in this rank's range of the buffer"}};

constexpr std::array kTransformerEngine = {FrameworkFact{
    "host", "Transformer Engine's modules",
    "Megatron-LM training/arguments.py: --transformer-impl defaults to transformer_engine; NeMo "
    "and Megatron-Bridge build the same layers (gpt_layer_specs.py, "
    "get_gpt_layer_with_transformer_engine_spec)"}};

constexpr std::array kCastWeights = {FrameworkFact{
    "weight_casts", "2 in fp8 and nvfp4",
    "Transformer Engine module/base.py, get_weight_workspace: cached where the caller says which "
    "microbatch is the first, as Megatron-LM's TELinear does; row-wise and column-wise "
    "(linear.py, weight_quantizer.set_usage; Blackwell under per-tensor scaling holds one: "
    "is_non_tn_fp8_gemm_supported)"}};

constexpr std::array kFacts2021Own = {
    FrameworkFact{"attention", "unfused, fused softmax",
                  "Narayanan et al. 2021 (2104.04473), section 4.2: no fused attention existed"},
    FrameworkFact{"dropout", "0.1 and 0.1",
                  "Megatron-LM arguments.py, --hidden-dropout, --attention-dropout"},
    FrameworkFact{
        "overlap_grad_reduce", "no",
        "Megatron-LM v2: gradients are all-reduced after the last backward (training.py, train_step)"},
    FrameworkFact{"overlap_p2p", "no", "Megatron-LM v2 p2p_communication.py waits for every exchange"},
    FrameworkFact{
        "scatter_gather", "on",
        "Narayanan et al. 2021, section 4.1; --no-scatter-gather-tensors-in-pipeline switches it off"},
    FrameworkFact{"grad_accumulation_fused", "on in the runs of 2022, off before",
                  "Megatron-LM commit that adds wgrad_gemm_accum_fp32, 2021-12; the SC21 runs accumulated in "
                  "fp16: not known, recalled"},
};

constexpr std::array kFacts2023Own = {
    FrameworkFact{
        "p2p of zero-bubble schedules", "posted; a receive is waited for where it is used",
        "the fork's zb_schedules.py: fused_pipeline_ops returns requests, schedule_f and schedule_b "
        "wait for their own"},
    FrameworkFact{
        "vocab", "32000",
        "the fork's script: --tokenizer-type GPTSentencePieceTokenizer; the models' published sizes, 14.6B "
        "and 28.3B, leave 27 to 35 thousand rows"},
    FrameworkFact{"attention", "unfused, fused softmax",
                  "sail-sg/zero-bubble-pipeline-parallelism examples/pretrain_zbh1.sh: no --use-flash-attn "
                  "at the paper's time"},
    FrameworkFact{"dropout", "0.1 and 0.1", "the same script sets neither"},
    FrameworkFact{
        "overlap_p2p", "no",
        "Megatron-LM core v0.3 model_parallel_config.py, overlap_p2p_comm (interleaving alone may); "
        "the fork's examples/pretrain_zero_bubble.sh: --no-overlap-p2p-communication"},
};

constexpr std::array kAttentionCore = {FrameworkFact{
    "attention", "Transformer Engine: FlashAttention-2 on Ampere, cuDNN from Hopper on",
    "TransformerEngine attention/dot_product_attention/utils.py, get_attention_backend (recalled)"}};
constexpr std::array kNoDropout = {FrameworkFact{"dropout", "none", "Llama and Nemotron recipes set 0"}};
constexpr std::array kOverlapCore = {
    FrameworkFact{"overlap", "gradients, parameters and p2p",
                  "NeMo and Megatron-Bridge performance recipes: overlap_grad_reduce, overlap_param_gather, "
                  "overlap_p2p_comm with vpp"}};
constexpr std::array kZeroCore = {
    FrameworkFact{"zero_stage", "1", "the recipes set use_distributed_optimizer"},
    FrameworkFact{"sequence_parallel", "where tp > 1", "the recipes set it"},
    FrameworkFact{"bucket", "max(40e6, 1e6 dp) gradients",
                  "Megatron-LM core/distributed/distributed_data_parallel.py"},
};

constexpr std::array kNemoOwn = {
    FrameworkFact{"fp8_parameters",
                  "yes: held as both casts of a weight, 2 bytes, and gathered in fp8; in nvfp4 in 16 bits",
                  "NeMo recipes/precision/mixed_precision.py, Megatron-Bridge training/mixed_precision.py: "
                  "fp8_param_gather = True, fp4_param is not supported; Megatron-LM training/arguments.py, "
                  "--fp8-param-gather"},
    FrameworkFact{"host_extras.graphs_on_grace", "attention, router and its preprocessing",
                  "Megatron-Bridge scripts/performance/configs/qwen/qwen3_workload_base_configs.py: "
                  "cuda_graph_scope of the GB200 and GB300 recipes; taken for other mixtures of experts too"},
    FrameworkFact{"deepseek_per_node",
                  "DeepSeek-V3 on Hopper: DeepEP, beside the other pass where stages are virtual; elsewhere "
                  "all-to-alls",
                  "Megatron-Bridge scripts/performance/configs/deepseek/deepseek_llm_pretrain.py: "
                  "enable_deepep, set_moe_a2a_overlap_overrides"},
    FrameworkFact{
        "deepseek_modules", "DeepSeek-V3: recompute_modules mla_up_proj, on Hopper mla_up_proj and mlp",
        "Megatron-Bridge scripts/performance/configs/deepseek/deepseek_llm_pretrain.py of 25.09 and "
        "deepseek_workload_base_configs.py since; of single GB200 and GB300 precisions versions "
        "differ (mlp, moe_act), and the one that most have is taken"},
    FrameworkFact{
        "recipe_recompute", "yes",
        "Megatron-Bridge scripts/performance/configs/*/workload_base_configs.py: recompute_modules and "
        "cpu_offloading_num_layers by model, GPU and precision"},
    FrameworkFact{"gradient_fp32", "no: accumulated and sent in bf16",
                  "Megatron-Bridge scripts/performance/configs/deepseek/deepseek_llm_pretrain.py and its "
                  "siblings; NeMo collections/llm/recipes, pretrain_performance_optimizations: "
                  "grad_reduce_in_fp32 = False"},
};

constexpr std::array kNemoGraphsOwn = {
    FrameworkFact{
        "host", "none: the passes of a step are one CUDA graph",
        "Megatron-Bridge scripts/performance/configs/qwen3/workload_base_configs.py of 25.09: "
        "cuda_graph_impl local, cuda_graph_scope full_iteration for Blackwell (its DeepSeek-V3 and the "
        "pipelined Qwen3 235B of B200 have none); Megatron-LM core/full_cuda_graph.py"},
    FrameworkFact{"expert capacity", "1, padded",
                  "Megatron-Bridge training/utils/moe_token_drop.py, apply_moe_token_drop's defaults"},
};

constexpr std::array kReadmeOwn = {
    FrameworkFact{"overlap", "data, tensor and pipeline parallel communication",
                  "Megatron-LM README, Training Speed and Scalability: --overlap-grad-reduce "
                  "--overlap-param-gather, --tp-comm-overlap, pipeline by default"}};

constexpr std::array kFunctionalOwn = {
    FrameworkFact{"host_extras.uninitialised", "23 fills a layer",
                  "the same files: --deterministic-mode; PyTorch torch.utils.deterministic."
                  "fill_uninitialized_memory fills every fresh tensor: 10 forward, 13 backward (profiler)"},
    FrameworkFact{"host_extras.log_tensor, log_updated", "4 us a tensor, 28 us a tensor that is updated",
                  "the same files: --log-params-norm, --log-num-zeros-in-grad; Megatron-LM "
                  "training/utils.py, calc_params_l2_norm; core/optimizer/clip_grads.py, count_zeros_fp32; "
                  "timed on one core"},
    FrameworkFact{
        "host_extras.log_step",
        "27 operations, 8 collectives; 17 scalars in 113 us, the "
        "allocator's statistics in 49 us, 50 us of text (estimated)",
        "the same files: --log-interval 1, --log-timers-to-tensorboard, "
        "--log-memory-to-tensorboard; Megatron-LM training/training.py, training_log, and "
        "training/utils.py; add_scalar of TensorBoard 2.21 and torch.cuda.memory_stats timed on one "
        "core"},
    FrameworkFact{"grad_accumulation_fused", "off",
                  "Megatron-LM tests/functional_tests/test_cases/*/model_config.yaml: "
                  "--no-gradient-accumulation-fusion"},
    FrameworkFact{"attention",
                  "unfused, but for GPT tests that resume and gpt3_7b (FlashAttention-2 on Blackwell)",
                  "the same files: --attention-backend: unfused, and where they state none; "
                  "TransformerEngine attention/dot_product_attention/utils.py, get_attention_backend: no "
                  "deterministic fused attention on Blackwell"},
    FrameworkFact{"dropout", "0.1 and 0.1, but none in tests of hierarchical context parallelism",
                  "the same files: two of them set --hidden-dropout and --attention-dropout; Megatron-LM "
                  "arguments.py's defaults"},
    FrameworkFact{"zero_stage", "0", "the same files: --use-distributed-optimizer where it is on"},
};

constexpr std::array kLocalSpec = {
    FrameworkFact{"host", "Megatron's own modules",
                  "the same files: --spec local in the tests whose names say local_spec"}};

constexpr auto kFacts2021 = join(kHost, kInPlace, kSynchronised, kReadBack, kFusedAccumulation, kGradientFp32,
                                 kCommon, kFacts2021Own);
constexpr auto kFacts2023 = join(kHost, kInPlace, kSynchronised, kReadBack, kFusedAccumulation, kGradientFp32,
                                 kCommon, kFacts2023Own);
constexpr auto kCoreBase =
    join(kHost, kStepByShard, kTransformerEngine, kInPlace, kSynchronised, kVirtualStagesOverlap,
         kFusedAccumulation, kCommon, kAttentionCore, kZeroCore);
constexpr auto kFactsCore = join(kCoreBase, kCastWeights, kGradientFp32, kNoDropout, kOverlapCore);
constexpr auto kFactsNemo = join(kCoreBase, kNoDropout, kOverlapCore, kNemoOwn);
constexpr auto kFactsNemoGraphs = join(kCoreBase, kNoDropout, kOverlapCore, kNemoOwn, kNemoGraphsOwn);
constexpr auto kFactsReadme = join(kCoreBase, kCastWeights, kGradientFp32, kNoDropout, kReadmeOwn);
constexpr auto kFunctionalBase = join(kHost, kStepByShard, kInPlace, kSynchronised, kVirtualStagesOverlap,
                                      kGradientFp32, kCommon, kFunctionalOwn);
constexpr auto kFactsFunctional = join(kFunctionalBase, kTransformerEngine, kCastWeights);
constexpr auto kFactsFunctionalLocal = join(kFunctionalBase, kLocalSpec);

constexpr FrameworkDefaults base() {
    FrameworkDefaults d;
    d.host_extras = host_extras();
    d.step_dispatches = kUpdatedTensor;
    d.host = HostCode::MegatronCompiled;
    d.fused_elementwise = true;
    d.grad_accumulation_fused = true;
    d.bucket_parameters_per_dp = 1e6;
    d.p2p_calls = LoweringOptions::P2pCalls::Synchronised;
    d.overlap_p2p_needs_virtual_stages = true;
    return d;
}

constexpr FrameworkDefaults early(std::string_view name, std::string_view versions) {
    FrameworkDefaults d = base();
    d.host = HostCode::Megatron;
    d.name = name;
    d.versions = versions;
    d.attention = AttentionKernel::Unfused;
    d.flash = AttentionKernel::Flash1;
    d.precision = Precision::Fp16;
    d.dropout = true;
    d.scatter_gather = true;
    d.loss = WorkShape::Loss::InPlace;
    d.batch_read_back = StageSet::All;
    d.batch_dispatches = 18;
    d.host_extras.microbatch -= d.batch_dispatches;  // get_batch is among them
    return d;
}

constexpr FrameworkDefaults make_2021() {
    FrameworkDefaults d = early("megatron-2021", "Megatron-LM v2, 2021");
    d.facts = kFacts2021;
    return d;
}

constexpr FrameworkDefaults make_2022() {
    FrameworkDefaults d = early("megatron-2022", "Megatron-LM v3, 2022");
    d.facts = kFacts2021;
    return d;
}

constexpr FrameworkDefaults make_2023() {
    FrameworkDefaults d = early("megatron-2023", "Megatron-LM of 2023 and its zero-bubble fork");
    d.vocab = 32000;
    d.facts = kFacts2023;
    return d;
}

constexpr FrameworkDefaults core(std::string_view name, std::string_view versions) {
    FrameworkDefaults d = base();
    d.host = HostCode::TransformerEngine;
    d.weight_casts = 2;
    d.host_extras.step_by_shard = true;
    d.name = name;
    d.versions = versions;
    d.attention = d.flash = AttentionKernel::Flash2;
    d.flash_hopper = AttentionKernel::CuDnn;
    d.overlap_grad_reduce = d.overlap_param_gather = d.overlap_p2p = true;
    d.zero_stage = 1;
    d.sequence_parallel = true;
    d.loss = WorkShape::Loss::InPlace;
    d.facts = kFactsCore;
    return d;
}

constexpr FrameworkDefaults make_megatron() {
    FrameworkDefaults d = core("megatron", "Megatron-Core 0.8 and later, its command line's defaults");
    d.overlap_grad_reduce = d.overlap_param_gather = false;
    return d;
}

constexpr FrameworkDefaults make_readme() {
    FrameworkDefaults d = core("megatron-2024", "Megatron-Core 0.8, the README's weak scaling runs of 2024");
    d.overlap_tp = true;
    d.facts = kFactsReadme;
    return d;
}

constexpr FrameworkDefaults make_nemo() {
    FrameworkDefaults d = core("nemo", "NeMo and Megatron-Bridge performance recipes, 2024-2025");
    d.gradient_fp32 = d.reduce_fp32 = false;
    d.recipe_recompute = true;
    d.deepseek_per_node = true;
    d.deepseek_modules = true;
    d.fp8_parameters = true;
    d.host_extras.graphs_on_grace = true;
    d.facts = kFactsNemo;
    return d;
}

constexpr FrameworkDefaults make_nemo_graphs() {
    FrameworkDefaults d = make_nemo();
    d.name = "nemo-graphs";
    d.versions = "NeMo and Megatron-Bridge 25.09 recipes that drop tokens, without a pipeline, on Blackwell";
    d.host = HostCode::Graph;
    d.host_extras.graphs_on_grace = false;
    d.host_extras.gradient_hook = d.host_extras.transfer = d.host_extras.microbatch = 0;
    d.facts = kFactsNemoGraphs;
    return d;
}

constexpr FrameworkDefaults make_functional() {
    FrameworkDefaults d = base();
    d.host = HostCode::TransformerEngine;
    d.weight_casts = 2;
    d.host_extras.step_by_shard = true;
    d.name = "megatron-functional";
    d.versions = "Megatron-LM functional tests, 2025";
    d.attention = AttentionKernel::Unfused;
    d.flash = AttentionKernel::Flash2;
    d.flash_hopper = AttentionKernel::CuDnn;
    d.dropout = true;
    d.grad_accumulation_fused = false;
    d.overlap_p2p = true;
    d.loss = WorkShape::Loss::InPlace;
    d.host_extras.uninitialised = 23 * (1.1 + 2.95) / 7.7;
    d.host_extras.log_tensor = kNormOfTensor;
    d.host_extras.log_updated = kZerosOfTensor;
    d.host_extras.log_step = 27 + 8 * 1.4 + (113 + 49 + 50) / kTorchOperation_us;
    d.facts = kFactsFunctional;
    return d;
}

constexpr FrameworkDefaults make_functional_local() {
    FrameworkDefaults d = make_functional();
    d.name = "megatron-functional-local";
    d.versions = "Megatron-LM functional tests of the local specification, 2025";
    d.host = HostCode::MegatronCompiled;
    d.weight_casts = 0;
    d.facts = kFactsFunctionalLocal;
    return d;
}

}  // namespace

const FrameworkDefaults kMegatron = make_megatron();
const FrameworkDefaults kMegatron2021 = make_2021();
const FrameworkDefaults kMegatron2022 = make_2022();
const FrameworkDefaults kMegatron2023 = make_2023();
const FrameworkDefaults kMegatron2024 = make_readme();
const FrameworkDefaults kMegatronFunctional = make_functional();
const FrameworkDefaults kMegatronFunctionalLocal = make_functional_local();
const FrameworkDefaults kNemo = make_nemo();
const FrameworkDefaults kNemoGraphs = make_nemo_graphs();

}  // namespace tw
