// The rows of the framework table, one family a file; registry.cpp lists them.
#pragma once

#include "plan/frameworks/framework.hpp"

namespace tw {

extern const FrameworkDefaults kTrainwright;
// megatron.cpp
extern const FrameworkDefaults kMegatron, kMegatron2021, kMegatron2022, kMegatron2023, kMegatron2024,
    kMegatronFunctional, kNemo;
// deepspeed.cpp
extern const FrameworkDefaults kDeepSpeed, kMegatronDeepSpeed, kBigScience, kBigScienceTr11;
// fsdp.cpp
extern const FrameworkDefaults kComposer, kComposerPure, kTorchtitan, kTorchtitanEager, kMaxText;
// internevo.cpp
extern const FrameworkDefaults kInternEvo;
// pytorch.cpp
extern const FrameworkDefaults kPytorch, kPytorchCompile, kPytorchPure, kTransformers, kTransformersPure;

}  // namespace tw
