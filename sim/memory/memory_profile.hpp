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

// What an instruction does to the counts below: the one table that the profile and the curves over time both
// follow. `before` takes effect as it starts, `after` as it ends; `after2` concerns stage2
// (OverlapForwardBackward's backward).
struct MemoryEffect {
    struct Counts {
        int held = 0, held_for_weight = 0, stashed = 0;
    };
    Counts before, after;
    int after2_held = 0;
    bool may_peak = false;       // a state in which memory can be at its most
    bool ends_backward = false;  // of the stage, or of stage2 where after2_held says so
    [[nodiscard]] bool any() const {
        return may_peak || after.held != 0 || after.held_for_weight != 0 || after.stashed != 0;
    }
};
// `last_chunk`: whether a backward that is cut into chunks ends with this one (true where it is whole).
MemoryEffect memory_effect(Opcode opcode, bool last_chunk);

// The number of the last chunk of each stage's cut backward in a program; 0 where it is whole.
std::vector<std::uint32_t> last_chunks(const RankProgram& program, int stages);

struct MemorySnapshot {
    Opcode running = Opcode::Forward;  // Forward, a backward, OverlapForwardBackward, StashWeights or Reload
    std::uint16_t stage = 0, stage2 = 0;
    std::uint32_t instruction = 0;  // the first in the program with these counts
    bool again = false;             // `stage` has finished a backward in the step before this
};

struct RankMemoryProfile {
    std::vector<std::uint16_t> stages;  // that the rank runs, ascending
    std::vector<MemorySnapshot> snapshots;
    // Of each snapshot three counts a stage (in the order of `stages`): microbatches held whole, then
    // microbatches of which only the weight gradient's inputs are held, then stashed weight versions.
    std::vector<std::uint16_t> counts;
    // Of each stage the microbatches whose activations are on the host, when most of them are; empty where
    // none ever is.
    std::vector<std::uint16_t> offloaded;
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
// Of an order that splits backwards and runs one microbatch at a time through stages on these ranks: any
// order of them holds as much at some moment.
std::vector<RankMemoryProfile> one_in_flight_profile(std::span<const std::uint16_t> rank_of_stage);

}  // namespace tw
