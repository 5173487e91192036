// DeepSpeed, alone and under Megatron.
#include <array>

#include "plan/frameworks/tables.hpp"

namespace tw {
namespace {

constexpr std::array kZero = {
    FrameworkFact{
        "step_bytes", "2, then 4: the partition's gradient flat, and in fp32",
        "DeepSpeed runtime/zero/stage_1_and_2.py, step: single_grad_partition = flatten(...).to(...); "
        "runtime/fp16/fused_optimizer.py alike"},
    FrameworkFact{"norm_in_double", "yes",
                  "DeepSpeed runtime/zero/stage_1_and_2.py, get_grad_norm_direct: g.data.double().norm(2)"},
    FrameworkFact{
        "sub_group_elements", "1e9 under ZeRO-3",
        "DeepSpeed runtime/zero/config.py, sub_group_size; runtime/zero/stage3.py, step: "
        "_prepare_sub_group makes a sub-group's gradients flat and fp32, _release_sub_group frees them"},
    FrameworkFact{
        "reduces_on_compute", "ZeRO-3 without overlap_comm",
        "DeepSpeed runtime/zero/stage3.py: reduce_and_partition_stream is the default stream then, which "
        "waits for its reduce-scatters; gathers return handles that are waited for at use "
        "(partitioned_param_coordinator.py) on either stream"},
    FrameworkFact{
        "flat_gather_elements", "5e8",
        "DeepSpeed runtime/zero/config.py, allgather_bucket_size; all_gather into a list of tensors "
        "makes a flat one first (PyTorch ProcessGroupNCCL.cpp, allgather: outputFlattened)"},
};

constexpr std::array kFactsDeepSpeedOwn = {
    FrameworkFact{
        "fused_elementwise", "the model's own eager modules",
        "DeepSpeed wraps a torch module and replaces no kernel of it in training (runtime/engine.py)"},
    FrameworkFact{"gradient_fp32", "in the parameters' precision",
                  "DeepSpeed runtime/config.py, grad_accum_dtype: model dtype"},
    FrameworkFact{"bucket", "5e8 elements", "DeepSpeed runtime/zero/config.py, reduce_bucket_size"},
    FrameworkFact{
        "live_parameters", "1e9 + 5e7",
        "DeepSpeed runtime/zero/config.py, stage3_max_live_parameters, stage3_prefetch_bucket_size"},
    FrameworkFact{"overlap_grad_reduce", "from ZeRO stage 3 on",
                  "DeepSpeed runtime/zero/config.py, overlap_comm"},
};

constexpr auto kFactsDeepSpeed = join(kZero, kFactsDeepSpeedOwn);

constexpr std::array kFactsMegatronOwn = {
    FrameworkFact{"batch_read_back", "first and last stage; 18 dispatches until the model's first kernel",
                  "Megatron-DeepSpeed pretrain_gpt.py, get_batch_pipe: megatron/mpu/data.py, "
                  "_build_key_size_numel_dictionaries, on the first and the last stage; the others read what "
                  "they receive"},
    FrameworkFact{
        "p2p_calls", "a rank exchanges between its computations; with tp > 1 the host reads what it received",
        "DeepSpeed runtime/pipe/schedule.py, TrainSchedule: transfers, then the pass, on one stream; "
        "runtime/pipe/engine.py, _exec_forward_pass and _exec_backward_pass: PartitionedTensor.from_meta "
        "(runtime/utils.py: meta.tolist())"},
    FrameworkFact{
        "scatter_gather", "pipeline transfers split over tp",
        "DeepSpeed runtime/pipe/engine.py: is_pipe_partitioned = is_model_parallel, and gradients alike"},
    FrameworkFact{"fused_elementwise", "Megatron's kernels",
                  "microsoft/Megatron-DeepSpeed keeps megatron/fused_kernels"},
    FrameworkFact{"grad_accumulation_fused", "off",
                  "DeepSpeed's pipeline engine accumulates param.grad; the fused accumulation needs "
                  "Megatron's own DDP (recalled)"},
    FrameworkFact{"gradient_fp32", "fp16: fp16; bf16: fp32",
                  "DeepSpeed runtime/fp16/fused_optimizer.py; runtime/bf16_optimizer.py accumulates fp32, "
                  "runtime/pipe/engine.py, _bf16_reduce_grads, sends it"},
    FrameworkFact{
        "overlap", "none",
        "DeepSpeed runtime/pipe/engine.py: blocking sends and receives, reduction after the last backward"},
    FrameworkFact{"attention", "unfused, fused softmax", "Megatron of 2021-2022"},
    FrameworkFact{"vocab_divisor", "128 times tp",
                  "Megatron-LM arguments.py, --make-vocab-size-divisible-by"},
};

constexpr auto kFactsMegatron = join(kZero, kFactsMegatronOwn);

constexpr std::array kFactsBigScienceOwn = {
    FrameworkFact{
        "lazy_kernels", "no",
        "bigscience train/tr11-176B-ml/tr11-176B-ml.slurm: PyTorch of early 2022, CUDA before 11.7"},
    FrameworkFact{
        "zero_stage", "1",
        "bigscience train/tr3-1B3-baseline/tr3m-1B3-pile.slurm and tr1-13B-round1.slurm: ZERO_STAGE=1"},
    FrameworkFact{"dropout", "0.1 and 0.1", "tr3m-1B3-pile.slurm and tr11-176B-ml.slurm set neither"},
    FrameworkFact{"heads", "96",
                  "bigscience train/tr11-176B-ml/chronicles-prequel.md: NHEADS=96 with hidden 14400"},
};

constexpr std::array kFactsTr11Own = {
    FrameworkFact{
        "launch_blocking", "yes",
        "bigscience train/tr11-176B-ml/tr11-176B-ml.slurm: CUDA_LAUNCH_BLOCKING=1, \"do not remove or "
        "the training will hang\"; chronicles-prequel.md, dealing with JZ hanging"},
};

constexpr auto kFactsBigScience = join(kFactsMegatron, kFactsBigScienceOwn);
constexpr auto kFactsTr11 = join(kFactsTr11Own, kFactsBigScience);

constexpr FrameworkDefaults make_deepspeed() {
    FrameworkDefaults d;
    d.name = "deepspeed";
    d.host = HostCode::Eager;
    d.versions = "DeepSpeed, any torch model";
    d.fused_elementwise = false;
    d.grad_accumulation_fused = false;
    d.gradient_fp32 = d.reduce_fp32 = false;
    d.gradient_buffer = false;
    d.step_bytes = 4;
    d.step_flat_bytes = 2;
    d.norm_in_double = true;
    d.flat_gather_elements = 5e8;
    d.sub_group_elements = 1e9;
    d.reduces_on_compute = true;
    d.bucket_bytes = 1e9;
    d.vocab_divisor = 1;
    d.live_parameters = 1e9 + 5e7;
    d.facts = kFactsDeepSpeed;
    return d;
}

constexpr FrameworkDefaults megatron(std::string_view name, std::string_view versions) {
    FrameworkDefaults d;
    d.scatter_gather = true;
    d.p2p_calls = LoweringOptions::P2pCalls::Blocking;
    d.p2p_synchronised_by_tp = true;
    d.bf16_gradients_fp32 = true;
    d.batch_read_back = StageSet::Ends;
    d.batch_dispatches = 18;
    d.host = HostCode::Megatron;
    d.name = name;
    d.versions = versions;
    d.attention = AttentionKernel::Unfused;
    d.flash = AttentionKernel::Flash1;
    d.precision = Precision::Fp16;
    d.grad_accumulation_fused = false;
    d.gradient_fp32 = d.reduce_fp32 = false;
    d.gradient_buffer = false;
    d.step_bytes = 4;
    d.step_flat_bytes = 2;
    d.norm_in_double = true;
    d.flat_gather_elements = 5e8;
    d.sub_group_elements = 1e9;
    d.reduces_on_compute = true;
    d.dropout = true;
    d.bucket_bytes = 1e9;
    d.facts = kFactsMegatron;
    return d;
}

constexpr FrameworkDefaults make_bigscience() {
    FrameworkDefaults d =
        megatron("megatron-deepspeed-bigscience", "bigscience-workshop/Megatron-DeepSpeed, 2021-2022");
    d.zero_stage = 1;
    d.heads = 96;
    d.lazy_kernels = false;
    d.facts = kFactsBigScience;
    return d;
}

constexpr FrameworkDefaults make_tr11() {
    FrameworkDefaults d = make_bigscience();
    d.name = "megatron-deepspeed-tr11";
    d.versions = "bigscience-workshop/Megatron-DeepSpeed as run on A100 for the 176B model, 2022";
    d.launch_blocking = true;
    d.facts = kFactsTr11;
    return d;
}

}  // namespace

const FrameworkDefaults kDeepSpeed = make_deepspeed();
const FrameworkDefaults kMegatronDeepSpeed =
    megatron("megatron-deepspeed", "microsoft/Megatron-DeepSpeed, 2021-2023");
const FrameworkDefaults kBigScience = make_bigscience();
const FrameworkDefaults kBigScienceTr11 = make_tr11();

}  // namespace tw
