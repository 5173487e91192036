#include <array>
#include <map>
#include <mutex>

#include "plan/frameworks/tables.hpp"
#include "plan/parallel_plan.hpp"

namespace tw {
namespace {

constexpr std::array kTable = {
    &kComposer,
    &kComposerPure,
    &kDeepSpeed,
    &kInternEvo,
    &kMaxText,
    &kMegatron,
    &kMegatron2021,
    &kMegatron2022,
    &kMegatron2023,
    &kMegatron2024,
    &kMegatronDeepSpeed,
    &kBigScience,
    &kBigScienceTr11,
    &kMegatronFunctional,
    &kMegatronFunctionalLocal,
    &kNemo,
    &kNemoGraphs,
    &kPytorch,
    &kPytorchPure,
    &kPytorchCompile,
    &kPytorchCompilePure,
    &kTorchtitan,
    &kTorchtitanEager,
    &kTrainwright,
    &kTransformers,
    &kTransformersPure,
};

struct Variants {
    std::mutex mutex;
    std::map<std::string, FrameworkDefaults, std::less<>> rows;  // addresses stay
};

Variants& variants() {
    static Variants all;
    return all;
}

}  // namespace

std::span<const FrameworkDefaults* const> frameworks() {
    return kTable;
}

const FrameworkDefaults* find_framework(std::string_view name) {
    for (const FrameworkDefaults* d : kTable) {
        if (d->name == name) return d;
    }
    const std::lock_guard lock(variants().mutex);
    const auto it = variants().rows.find(name);
    return it == variants().rows.end() ? nullptr : &it->second;
}

const FrameworkDefaults& add_framework_variant(const FrameworkDefaults& row, const std::string& name) {
    const std::lock_guard lock(variants().mutex);
    const auto [it, added] = variants().rows.emplace(name, row);
    if (added) it->second.name = it->first;
    return it->second;
}

const FrameworkDefaults& framework_defaults(std::string_view name) {
    // A search asks for one framework all the time: 2.8 % of GPT-3's on 1,024 A100 went into names (samples
    // of its stacks). Rows of the table and variants stay where they are.
    thread_local const FrameworkDefaults* last = &kTrainwright;
    if (last->name == name) return *last;
    if (const FrameworkDefaults* d = find_framework(name)) last = d;
    return last->name == name ? *last : kTrainwright;
}

void apply_framework(const FrameworkDefaults& d, bool hopper, ParallelPlan& plan) {
    plan.framework = d.name;
    plan.zero_stage = d.zero_stage;
    plan.attention =
        d.attention == AttentionKernel::Unfused ? d.attention : (hopper ? d.flash_hopper : d.attention);
    plan.dropout = d.dropout;
    plan.sequence_parallel = d.sequence_parallel && plan.mesh.tp > 1;
    plan.recompute = d.full_recompute ? RecomputeMode::Full : RecomputeMode::None;
    plan.vocab_divisor = d.vocab_divisor;
    plan.bucket_bytes = 0;

    PrecisionSpec& p = plan.precision;
    const Precision half = activation_precision(p.compute);
    const bool full = half == Precision::Fp32 || half == Precision::Tf32;
    p.parameters = d.fp32_parameters || full ? Precision::Fp32 : half;
    p.autocast = d.autocast && !full;
    const bool wide = full || (d.bf16_gradients_fp32 && half == Precision::Bf16);
    p.gradient_fp32 = d.gradient_fp32 || wide;
    p.gradient_reduce = d.reduce_fp32 || wide ? Precision::Fp32 : half;
    p.optimizer_states = d.fp32_optimizer ? Precision::Fp32 : p.parameters;
    p.master_weights = d.fp32_optimizer && p.parameters != Precision::Fp32;

    plan.overlap.grad_reduce = d.overlap_grad_reduce;
    plan.overlap.param_gather = d.overlap_param_gather;
    plan.overlap.p2p = d.overlap_p2p;
    plan.overlap.tp = d.overlap_tp;
}

}  // namespace tw
