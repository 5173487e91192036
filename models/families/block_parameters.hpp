// Parameters of one block: exact, whole or one rank's share.
#pragma once

#include "models/families/block_spec.hpp"

namespace tw {

struct BlockParameters {
    std::int64_t dense = 0;   // all but the routed experts
    std::int64_t expert = 0;  // the routed experts
};

// tp shards the matrices (norms, biases of row-parallel products, the router and latent down-projections are
// replicated); ep divides the number of experts, etp shards each of them. All 1: the whole block.
BlockParameters block_parameters(const BlockSpec& spec, int tp, int ep, int etp);
// Parameters that one token uses: top_k experts instead of all.
std::int64_t active_block_parameters(const BlockSpec& spec);
// The whole block in floating point, for sizes whose exact count would overflow.
double block_parameters_estimate(const BlockSpec& spec);

// Norms of the block itself, each of the hidden width.
int block_norms(const BlockSpec& spec);

}  // namespace tw
