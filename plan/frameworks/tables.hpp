// The rows of the framework table, one family a file; registry.cpp lists them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "plan/frameworks/framework.hpp"

namespace tw {

// Facts that several versions share, and a version's own, one list after the other.
template <std::size_t... N>
constexpr auto join(const std::array<FrameworkFact, N>&... lists) {
    std::array<FrameworkFact, (N + ...)> all{};
    auto at = all.begin();
    ((at = std::copy(lists.begin(), lists.end(), at)), ...);
    return all;
}

extern const FrameworkDefaults kTrainwright;
// megatron.cpp
extern const FrameworkDefaults kMegatron, kMegatron2021, kMegatron2022, kMegatron2023, kMegatron2024,
    kMegatronFunctional, kMegatronFunctionalLocal, kNemo, kNemoGraphs;
// deepspeed.cpp
extern const FrameworkDefaults kDeepSpeed, kMegatronDeepSpeed, kBigScience, kBigScienceTr11;
// fsdp.cpp
extern const FrameworkDefaults kComposer, kComposerPure, kTorchtitan, kTorchtitanEager, kMaxText;
// internevo.cpp
extern const FrameworkDefaults kInternEvo;
// pytorch.cpp
extern const FrameworkDefaults kPytorch, kPytorchCompile, kPytorchCompilePure, kPytorchPure, kTransformers,
    kTransformersPure;

}  // namespace tw
