// Megatron-LM and what is built on Megatron-Core.
#include <array>

#include "plan/frameworks/tables.hpp"

namespace tw {
namespace {

constexpr FrameworkFact kInPlace = {
    "loss", "in place on one fp32 copy of the logits",
    "Megatron-LM core/tensor_parallel/cross_entropy.py: in-place subtraction and exponential"};

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

constexpr std::array kFacts2021 = {
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
        "the fork's script: --no-overlap-p2p-communication"},
};

constexpr std::array kFactsCore = {
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
};

constexpr std::array kFactsNemo = {
    kFactsCore[0],
    kFactsCore[1],
    kFactsCore[3],
    kFactsCore[4],
    kFactsCore[5],
    kFactsCore[6],
    kFactsCore[7],
    kFactsCore[8],
    kFactsCore[9],
    kFactsCore[10],
    FrameworkFact{"gradient_fp32", "no: accumulated and sent in bf16",
                  "Megatron-Bridge scripts/performance/configs/deepseek/deepseek_llm_pretrain.py and its "
                  "siblings; NeMo collections/llm/recipes, pretrain_performance_optimizations: "
                  "grad_reduce_in_fp32 = False"},
};

constexpr std::array kFactsReadme = {
    kFactsCore[0],
    kFactsCore[1],
    kFactsCore[2],
    kFactsCore[3],
    kFactsCore[4],
    kFactsCore[5],
    kFactsCore[6],
    kFactsCore[8],
    kFactsCore[9],
    FrameworkFact{"overlap", "data, tensor and pipeline parallel communication",
                  "Megatron-LM README, Training Speed and Scalability: --overlap-grad-reduce "
                  "--overlap-param-gather, --tp-comm-overlap, pipeline by default"},
    kFactsCore[10],
};

constexpr std::array kFactsFunctional = {
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
    d.host = HostCode::MegatronCompiled;
    d.fused_elementwise = true;
    d.grad_accumulation_fused = true;
    d.bucket_parameters_per_dp = 1e6;
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
    d.overlap_grad_reduce = d.overlap_param_gather = d.overlap_p2p = false;
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
    d.loss = WorkShape::Loss::InPlace;
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
