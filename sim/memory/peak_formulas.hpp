// What a rank's activations and temporaries at its peak are made of, in words: how many microbatches, of
// which layers, which tensors of the head. The ledger (ledger.hpp) has the bytes.
#pragma once

#include <string>
#include <vector>

#include "sim/memory/ledger.hpp"

namespace tw {

// "4 microbatches x (8 blocks x 1.02 GiB + head 502 MiB (probs [8192, 16064] fp32))". Stages of one rank that
// hold alike are counted together.
std::string activations_formula(const LayerGraph& graph, const ParallelPlan& plan, const PlanCost& costs,
                                const RankMemoryProfile& profile, std::size_t snapshot,
                                const std::vector<StageFootprint>& stages);

// "head 4 B x [8192, 16064]", "block 310 MiB + recomputed 1.20 GiB".
std::string temporaries_formula(const LayerGraph& graph, const ParallelPlan& plan, const PlanCost& costs,
                                const MemorySnapshot& snapshot);

}  // namespace tw
