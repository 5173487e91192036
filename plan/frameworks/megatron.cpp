// Megatron-LM and what is built on Megatron-Core.
#include <array>

#include "plan/frameworks/tables.hpp"

namespace tw {
namespace {

constexpr FrameworkFact kInPlace = {
    "loss", "in place on one fp32 copy of the logits",
    "Megatron-LM core/tensor_parallel/cross_entropy.py (before: mpu/cross_entropy.py): in-place subtraction "
    "and exponential"};

constexpr std::array kCommon = {
    FrameworkFact{"grad_accumulation_fused", "on",
                  "Megatron-LM megatron/arguments.py, --no-gradient-accumulation-fusion switches it off"},
    FrameworkFact{"gradient_fp32", "fp32 main gradients with fp16 and bf16",
                  "Megatron-LM megatron/model/distributed.py, accumulate_allreduce_grads_in_fp32 (bf16: "
                  "forced; fp16: the fused accumulation needs it)"},
    FrameworkFact{"vocab_divisor", "128 times tp",
                  "Megatron-LM arguments.py, --make-vocab-size-divisible-by"},
    FrameworkFact{"fused_elementwise", "bias-gelu, bias-dropout-add, scaled masked softmax",
                  "Megatron-LM arguments.py, --no-bias-gelu-fusion, --no-bias-dropout-fusion, "
                  "--no-masked-softmax-fusion switch them off"},
};

// The loops of 1F1B; core's for 1F1B without virtual stages, where overlap_p2p_comm is switched off.
constexpr FrameworkFact kSynchronised = {
    "p2p_calls", "a rank exchanges between its computations, and its host then waits for the device",
    "Megatron-LM p2p_communication.py (v2 on; core/pipeline_parallel), _communicate: "
    "torch.cuda.synchronize() "
    "after batch_isend_irecv; core model_parallel_config.py: batch_p2p_sync = True"};

constexpr FrameworkFact kReadBack = {
    "batch_read_back", "yes; 18 dispatches until the model's first kernel",
    "Megatron-LM pretrain_gpt.py, get_batch, on every stage until 2023: mpu/data.py "
    "(core/tensor_parallel/data.py), _build_key_size_numel_dictionaries: sizes_cuda.cpu(); the rest of "
    "get_batch timed on one core as sim/cost/host_dispatch.hpp says: 113 transpositions, 8 calls of the "
    "device, a broadcast"};

constexpr FrameworkFact kVirtualStagesOverlap = {
    "overlap_p2p", "with virtual stages alone",
    "Megatron-LM arguments.py: args.overlap_p2p_comm = False without "
    "--num-layers-per-virtual-pipeline-stage, "
    "--no-overlap-p2p-communication; NeMo MegatronCommOverlapCallback alike"};

// The host's work beside layers. Counted in Megatron-Core 0.16.1 by cProfile: gradient hooks, pipeline
// transfers (two processes of a group that sends nothing); by reading: the optimizer's loops. The microbatch,
// the step and the logs are estimates (recalled), not counts. A call takes 1.33 us, 2.4 us inside the
// backward, an operation 7.7 us: sim/cost/host_dispatch.cpp.
constexpr double calls(double count, double operations = 0) {
    return (count * 1.33 + operations * 7.7) / 7.7;
}

constexpr HostExtras host_extras() {
    HostExtras e;
    e.gradient_hook = (3 * 2.4 + 1.8) / 7.7;
    e.transfer = calls(45, 0.8);
    e.microbatch = calls(150, 25);
    e.step = calls(400, 30);
    return e;
}

constexpr FrameworkFact kHostFacts[] = {
    {"host_extras.gradient_hook", "3 calls and a view a tensor",
     "Megatron-LM core/distributed/distributed_data_parallel.py, _make_backward_post_hook"},
    {"host_extras.transfer", "45 calls and the device's four of NCCL for each of a pair",
     "Megatron-LM core/pipeline_parallel/p2p_communication.py, _communicate: batch_isend_irecv, then "
     "torch.cuda.synchronize (batch_p2p_sync); since v2.2"},
    {"host_extras.microbatch", "150 calls, 25 operations",
     "Megatron-LM pretrain_gpt.py, get_batch and loss_func with its checks for NaN; "
     "core/pipeline_parallel/schedules.py, forward_step and backward_step"},
    {"host_extras.step", "400 calls, 30 operations", "Megatron-LM training/training.py, train_step"},
    {"step_dispatches", "28 calls a tensor",
     "Megatron-LM core/optimizer/optimizer.py: _copy_model_grads_to_main_grads, "
     "get_main_grads_for_grad_norm, _copy_main_params_to_model_params, zero_grad; Transformer Engine "
     "optimizers/fused_adam.py, step"},
};

constexpr std::array kFacts2021 = {
    kHostFacts[0],
    kHostFacts[1],
    kHostFacts[2],
    kHostFacts[3],
    kHostFacts[4],
    kInPlace,
    kSynchronised,
    kReadBack,
    kCommon[0],
    kCommon[1],
    kCommon[2],
    kCommon[3],
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

constexpr std::array kFacts2023 = {
    kHostFacts[0],
    kHostFacts[1],
    kHostFacts[2],
    kHostFacts[3],
    kHostFacts[4],
    kInPlace,
    kSynchronised,
    kReadBack,
    FrameworkFact{
        "p2p of zero-bubble schedules", "posted; a receive is waited for where it is used",
        "the fork's zb_schedules.py: fused_pipeline_ops returns requests, schedule_f and schedule_b "
        "wait for their own"},
    FrameworkFact{
        "vocab", "32000",
        "the fork's script: --tokenizer-type GPTSentencePieceTokenizer; the models' published sizes, 14.6B "
        "and 28.3B, leave 27 to 35 thousand rows"},
    kCommon[0],
    kCommon[1],
    kCommon[2],
    kCommon[3],
    FrameworkFact{"attention", "unfused, fused softmax",
                  "sail-sg/zero-bubble-pipeline-parallelism examples/pretrain_zbh1.sh: no --use-flash-attn "
                  "at the paper's time"},
    FrameworkFact{"dropout", "0.1 and 0.1", "the same script sets neither"},
    FrameworkFact{
        "overlap_p2p", "no",
        "Megatron-LM core v0.3 model_parallel_config.py, overlap_p2p_comm (interleaving alone may); "
        "the fork's examples/pretrain_zero_bubble.sh: --no-overlap-p2p-communication"},
};

constexpr std::array kFactsCore = {
    kHostFacts[0],
    kHostFacts[1],
    kHostFacts[2],
    kHostFacts[3],
    kHostFacts[4],
    kInPlace,
    kCommon[0],
    kCommon[1],
    kCommon[2],
    kCommon[3],
    FrameworkFact{
        "attention", "Transformer Engine: FlashAttention-2 on Ampere, cuDNN from Hopper on",
        "TransformerEngine attention/dot_product_attention/utils.py, get_attention_backend (recalled)"},
    FrameworkFact{"dropout", "none", "Llama and Nemotron recipes set 0"},
    FrameworkFact{"overlap", "gradients, parameters and p2p",
                  "NeMo and Megatron-Bridge performance recipes: overlap_grad_reduce, overlap_param_gather, "
                  "overlap_p2p_comm with vpp"},
    FrameworkFact{"zero_stage", "1", "the recipes set use_distributed_optimizer"},
    FrameworkFact{"sequence_parallel", "where tp > 1", "the recipes set it"},
    FrameworkFact{"bucket", "max(40e6, 1e6 dp) gradients",
                  "Megatron-LM core/distributed/distributed_data_parallel.py"},
    kSynchronised,
    kVirtualStagesOverlap,
};

constexpr std::array kFactsNemo = {
    FrameworkFact{"host_extras.graphs_on_grace", "attention, router and its preprocessing",
                  "Megatron-Bridge scripts/performance/configs/qwen/qwen3_workload_base_configs.py: "
                  "cuda_graph_scope of the GB200 and GB300 recipes; taken for other mixtures of experts too"},
    kHostFacts[0],
    kHostFacts[1],
    kHostFacts[2],
    kHostFacts[3],
    kHostFacts[4],
    kFactsCore[5],
    kFactsCore[6],
    kFactsCore[8],
    kFactsCore[9],
    kFactsCore[10],
    kFactsCore[11],
    kFactsCore[12],
    kFactsCore[13],
    kFactsCore[14],
    kFactsCore[15],
    kFactsCore[16],
    kFactsCore[17],
    FrameworkFact{
        "recipe_recompute", "yes",
        "Megatron-Bridge scripts/performance/configs/*/workload_base_configs.py: recompute_modules and "
        "cpu_offloading_num_layers by model, GPU and precision"},
    FrameworkFact{"gradient_fp32", "no: accumulated and sent in bf16",
                  "Megatron-Bridge scripts/performance/configs/deepseek/deepseek_llm_pretrain.py and its "
                  "siblings; NeMo collections/llm/recipes, pretrain_performance_optimizations: "
                  "grad_reduce_in_fp32 = False"},
};

constexpr std::array kFactsReadme = {
    kHostFacts[0],
    kHostFacts[1],
    kHostFacts[2],
    kHostFacts[3],
    kHostFacts[4],
    kFactsCore[5],
    kFactsCore[6],
    kFactsCore[7],
    kFactsCore[8],
    kFactsCore[9],
    kFactsCore[10],
    kFactsCore[11],
    kFactsCore[13],
    kFactsCore[14],
    FrameworkFact{"overlap", "data, tensor and pipeline parallel communication",
                  "Megatron-LM README, Training Speed and Scalability: --overlap-grad-reduce "
                  "--overlap-param-gather, --tp-comm-overlap, pipeline by default"},
    kFactsCore[15],
    kFactsCore[16],
    kFactsCore[17],
};

constexpr std::array kFactsFunctional = {
    kSynchronised,
    kVirtualStagesOverlap,
    kHostFacts[0],
    kHostFacts[1],
    kHostFacts[2],
    kHostFacts[3],
    kHostFacts[4],
    FrameworkFact{"host_extras.uninitialised", "23 fills a layer",
                  "the same files: --deterministic-mode; PyTorch torch.utils.deterministic."
                  "fill_uninitialized_memory fills every fresh tensor: 10 forward, 13 backward (profiler)"},
    FrameworkFact{"host_extras.log_tensor", "12 calls, 5 operations",
                  "the same files: --log-params-norm, --log-num-zeros-in-grad; Megatron-LM "
                  "training/utils.py, calc_params_l2_norm; core/optimizer/clip_grads.py, count_zeros_fp32"},
    FrameworkFact{"host_extras.log_step", "2600 calls, 20 operations",
                  "the same files: --log-interval 1, --log-timers-to-tensorboard, "
                  "--log-memory-to-tensorboard; Megatron-LM training/training.py, training_log: 30 scalars "
                  "of 60 calls, twice the allocator's statistics of 400"},
    kInPlace,
    kCommon[1],
    kCommon[2],
    kCommon[3],
    FrameworkFact{"grad_accumulation_fused", "off",
                  "Megatron-LM tests/functional_tests/test_cases/*/model_config.yaml: "
                  "--no-gradient-accumulation-fusion"},
    FrameworkFact{"attention", "unfused, but for GPT tests that resume and gpt3_7b",
                  "the same files: --attention-backend: unfused, and where they state none"},
    FrameworkFact{"dropout", "0.1 and 0.1",
                  "the same files set neither; Megatron-LM arguments.py's defaults"},
    FrameworkFact{"zero_stage", "0", "the same files: --use-distributed-optimizer where it is on"},
};

constexpr FrameworkDefaults base() {
    FrameworkDefaults d;
    d.host_extras = host_extras();
    d.step_dispatches = calls(28);
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
    d.batch_read_back = true;
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
    d.host_extras.graphs_on_grace = true;
    d.facts = kFactsNemo;
    return d;
}

constexpr FrameworkDefaults make_functional() {
    FrameworkDefaults d = base();
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
    d.host_extras.log_tensor = calls(12, 5);
    d.host_extras.log_step = calls(2600, 20);
    d.facts = kFactsFunctional;
    return d;
}

}  // namespace

const FrameworkDefaults kMegatron = make_megatron();
const FrameworkDefaults kMegatron2021 = make_2021();
const FrameworkDefaults kMegatron2022 = make_2022();
const FrameworkDefaults kMegatron2023 = make_2023();
const FrameworkDefaults kMegatron2024 = make_readme();
const FrameworkDefaults kMegatronFunctional = make_functional();
const FrameworkDefaults kNemo = make_nemo();

}  // namespace tw
