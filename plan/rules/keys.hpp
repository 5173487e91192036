// What the target framework's users call the knobs of a plan: a refusal names the key that they can change.
#pragma once

#include <cstdint>
#include <string_view>

#include "plan/check_plan.hpp"

namespace tw {

enum class PlanKnob : std::uint8_t {
    Dp,
    Tp,
    Sp,
    Pp,
    Vpp,
    Cp,
    CpKind,
    Ep,
    Etp,
    ExpertDispatch,
    Mbs,
    Microbatches,
    GlobalBatch,
    SeqLen,
    Zero,
    ZeroShard,
    Recompute,
    RecomputeLayers,
    RecomputeModules,
    Schedule,
    MicrobatchGroup,
    Stages,
    RankOrder,
    Precision,
    Optimizer,
    OffloadOptimizer,
    OffloadActivations,
    VocabDivisor,
    Attention,
    ExpertImbalance,
    Semantics,
    GradientSync,
    GradientSyncOptions,
    Cluster
};

// Ours are the keys of --fix and of the plan document; Megatron-LM's flags (core 0.20), torchtitan's
// configuration fields (v0.2.2), DeepSpeed's JSON paths (2026-08), nanotron's (2026-04) and
// accelerate's YAML keys. A knob that a framework does not have answers with the nearest one.
std::string_view user_key(PlanKnob knob, TargetFramework target);

}  // namespace tw
