// What one pipeline rank holds: model states, buffers and activations at the peak, what the allocator keeps
// reserved beside them, what the device shows. Bare numbers; the ledger (ledger.hpp) names them.
#pragma once

#include "models/hardware/cluster.hpp"
#include "sim/memory/model_states.hpp"

namespace tw {

// Of a rank, whatever the ZeRO stage.
struct RankFootprint {
    double dense = 0, expert = 0;  // parameters
    double quantised = 0;          // of both, parameters of modules in fp8 or nvfp4
    double largest_block = 0;      // parameters of the largest layer that is gathered by itself
    double outside_blocks = 0;     // parameters of embeddings and heads
    double largest_weight = 0;     // parameters of the largest tensor
    double sync_buffers = 0;       // bytes, of the gradient synchronisation
    double activations = 0, transient = 0, weight_stash = 0;  // bytes, at the dynamic peak
    double offloaded_activations = 0;                         // bytes, when most are on the host
    double loose = 0;                // bytes between the loss's tensors that no other tensor fits
    bool executor = false;           // gathered parameters and whole gradients are part of `transient`
    bool tied_ends = false;          // two ranks sum the gradient of tied embeddings
    double outside = 0;              // bytes of a process on processors beside what it allocates
    Device const* device = nullptr;  // the smallest that the rank uses
    double capacity = 0;             // what a plan may use of it
    double host_capacity = 0;        // its share of the node's memory; 0: unknown
};

// Two instants compete for the peak: while the compute instruction of the dynamic peak runs, gradients are
// held where an earlier microbatch (or a buffer that lives from the start) made them; at the optimizer's step
// no activation is.
struct RankMemory {
    ModelStateBytes states;
    bool at_step = false;                          // the peak is the optimizer's step
    bool holds_gradients = true;                   // at the peak
    bool early_gradients = true;                   // held from the step's beginning
    double buckets = 0;                            // of gradients being sent
    double quantised_weights = 0;                  // casts of weights, kept from microbatch to microbatch
    double gathered = 0, unsharded_gradients = 0;  // ZeRO-3; at the dynamic peak
    double step = 0;                               // allocated by the step
    double allocated = 0;
    // Freed blocks that stay reserved: gradients and temporaries of the step while activations are at their
    // peak or the other way round, pools of other streams, holes that nothing fits. The allocator gives them
    // back before it fails, so that they decide nothing about fitting (c10/cuda/CUDACachingAllocator.cpp,
    // release_cached_blocks).
    double cached = 0;
    double reserved = 0;
    double required = 0;  // of the device, without cached blocks: what has to fit
    double device =
        0;  // as nvidia-smi shows: cached blocks fill the device at most, whatever a plan leaves free
    // Of the host's memory: what the optimizer offloads, gradients to update it with, activations.
    double host = 0;
};

RankMemory rank_memory(const ParallelPlan& plan, const RankFootprint& footprint);

// In the allocator's blocks of 2 MiB (kRoundLarge).
double in_blocks(double bytes);

}  // namespace tw
