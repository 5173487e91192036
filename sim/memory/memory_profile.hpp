// What a schedule holds in memory, apart from how large it is: for each rank the states of its program that can be a peak,
// as counts. A rank computes in program order, so the counts depend on the order alone; of states that run the same thing,
// only those that no other exceeds in every count are kept (for 1F1B: one). Peaks under any sizes are exact.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/schedule/schedule.hpp"

namespace tw {

struct MemorySnapshot {
    Opcode running = Opcode::Forward;  // Forward, a backward, OverlapForwardBackward, StashWeights or Reload
    std::uint16_t stage = 0, stage2 = 0;
    std::uint32_t instruction = 0;     // the first in the program with these counts
    // For each of the rank's stages (in the order of RankMemoryProfile::stages): microbatches held whole, microbatches of
    // which only the weight gradient's inputs are held, and stashed weight versions.
    std::vector<std::uint16_t> held, held_for_weight, stashed;
};

struct RankMemoryProfile {
    std::vector<std::uint16_t> stages;  // that the rank runs, ascending
    std::vector<MemorySnapshot> snapshots;
    int peak_in_flight = 0;   // microbatches (times chunks) held at once, whole or in part
    int weight_versions = 1;
};

// One a pipeline rank.
std::vector<RankMemoryProfile> memory_profile(const Schedule& schedule);
// Of an order that is not lowered yet: the same, unless passes stash or offload.
std::vector<RankMemoryProfile> memory_profile(const ComputeOrder& order);

}  // namespace tw
