// What makes two plans alternatives to each other. Plans of one kind differ only in their virtual stages, in
// how many blocks are recomputed, the microbatch, the split of layers, sequence parallelism, the ranks of a
// ZeRO shard, or in dp against cp: where they also tie, whoever has one has no use for the others.
#pragma once

#include <string>

#include "plan/parallel_plan.hpp"

namespace tw {

struct PlanKind {
    int tp = 1, pp = 1, ep = 1, etp = 1;
    int zero_stage = 0;
    RecomputeMode recompute = RecomputeMode::None;
    std::string schedule;
    friend bool operator==(const PlanKind&, const PlanKind&) = default;
};

// Full recomputation of the first `blocks` (-1: all) of every stage: that of less than half of the layers is
// nearer to none.
RecomputeMode kind_of_recompute(RecomputeMode mode, int blocks, int stages, int layers);

PlanKind kind_of(const ParallelPlan& plan);

}  // namespace tw
