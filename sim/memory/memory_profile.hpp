// What a schedule holds in memory, apart from how large it is: for each rank the states of its program that
// can be a peak, as counts. A rank computes in program order, so the counts depend on the order alone; of
// states that run the same thing, only those that no other exceeds in every count are kept (for 1F1B: one).
// Peaks under any sizes are exact.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/schedule/schedule.hpp"

namespace tw {

struct MemorySnapshot {
    Opcode running = Opcode::Forward;  // Forward, a backward, OverlapForwardBackward, StashWeights or Reload
    std::uint16_t stage = 0, stage2 = 0;
    std::uint32_t instruction = 0;  // the first in the program with these counts
};

struct RankMemoryProfile {
    std::vector<std::uint16_t> stages;  // that the rank runs, ascending
    std::vector<MemorySnapshot> snapshots;
    // Of each snapshot three counts a stage (in the order of `stages`): microbatches held whole, then
    // microbatches of which only the weight gradient's inputs are held, then stashed weight versions.
    std::vector<std::uint16_t> counts;
    int peak_in_flight = 0;  // microbatches (times chunks) held at once, whole or in part
    int weight_versions = 1;

    [[nodiscard]] std::span<const std::uint16_t> counts_of(std::size_t snapshot) const {
        return std::span(counts).subspan(snapshot * 3 * stages.size(), 3 * stages.size());
    }
};

// One a pipeline rank.
std::vector<RankMemoryProfile> memory_profile(const Schedule& schedule);
// Of an order that is not lowered yet: the same, unless passes stash or offload.
std::vector<RankMemoryProfile> memory_profile(const ComputeOrder& order);

}  // namespace tw
