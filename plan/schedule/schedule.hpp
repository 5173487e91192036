// A schedule: one program of instructions for each pipeline rank. It is what a plan lowers to, what the
// simulator predicts and what the executor runs.
//
// One pipeline rank stands for all its replicas (tensor, data, context and expert parallel ranks) where these
// are identical; sim/engine expands it where they are not.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "plan/schedule/instruction.hpp"

namespace tw {

// What separates two consecutive steps. Step time is the steady period between them.
enum class StepBoundary : std::uint8_t {
    Barrier,    // a global gradient norm: no rank starts the next step before all have finished
    RankLocal,  // each rank goes on when its own optimizer step is done (zero bubble's post-validation)
    None,       // no flush at all (PipeDream): the program spans several steps
};

// What a plan's result means; searches never rank different semantics against each other silently.
enum class Semantics : std::uint8_t { Synchronous, BoundedStaleness, LocalSteps, Asynchronous };

// What decides an instruction's duration. Instructions with equal keys share a class.
struct DurationKey {
    Opcode opcode = Opcode::Forward;
    std::uint16_t stage = 0;
    std::uint16_t stage2 = 0;  // OverlapForwardBackward's backward; transfers: the other end's stage
    std::uint32_t part =
        0;  // bucket of a split collective; chunk (from 1) of a split last backward, 0: whole
    std::uint16_t group = 0;
    friend bool operator==(const DurationKey&, const DurationKey&) = default;
    friend auto operator<=>(const DurationKey&, const DurationKey&) = default;
};

// The keys of a schedule's classes in the order in which they were added; a key is found again in constant
// time.
class DurationKeys {
  public:
    [[nodiscard]] std::size_t size() const { return keys_.size(); }
    [[nodiscard]] bool empty() const { return keys_.empty(); }
    const DurationKey& operator[](std::size_t i) const { return keys_[i]; }
    [[nodiscard]] auto begin() const { return keys_.begin(); }
    [[nodiscard]] auto end() const { return keys_.end(); }

    // The index of the first equal key, added where there is none.
    std::uint16_t find_or_add(const DurationKey& key);
    // A further entry, equal to an earlier one or not.
    void push_back(const DurationKey& key);
    // An entry that find_or_add never finds: size class 0.
    void add_unused() { keys_.emplace_back(); }

    friend bool operator==(const DurationKeys& a, const DurationKeys& b) { return a.keys_ == b.keys_; }

  private:
    std::uint16_t& bucket_of(const DurationKey& key);  // its own, or the empty one where it belongs
    void grow();

    std::vector<DurationKey> keys_;
    std::vector<std::uint16_t> buckets_;  // open addressing; index + 1, 0: empty
};

struct RankProgram {
    std::vector<Instruction> instructions;  // in the order in which the host issues them
    // Explicit waits, CSR: instruction i starts after instructions waits[wait_begin[i] .. wait_begin[i+1]) of
    // the same rank have finished; all of them are earlier in the program. wait_begin has instructions.size()
    // + 1 entries.
    std::vector<std::uint32_t> wait_begin;
    std::vector<std::uint32_t> waits;

    [[nodiscard]] std::span<const std::uint32_t> waits_of(std::size_t i) const {
        return {waits.data() + wait_begin[i], waits.data() + wait_begin[i + 1]};
    }
    // Appends an instruction with its waits (indices below the new one) and returns its index.
    std::uint32_t append(const Instruction& instruction, std::span<const std::uint32_t> waits_for = {}) {
        const auto index = static_cast<std::uint32_t>(instructions.size());
        if (wait_begin.empty()) wait_begin.push_back(0);
        for (const std::uint32_t wait : waits_for) {
            TW_CHECK_MSG(wait < index, "an instruction waits for a later one");
            waits.push_back(wait);
        }
        instructions.push_back(instruction);
        wait_begin.push_back(static_cast<std::uint32_t>(waits.size()));
        return index;
    }
};

// The part of a lowered schedule that repeats itself, for later microbatches each time. Who puts instructions
// into its programs, or takes some away, clears it.
struct SteadyPhase {
    struct Program {
        std::uint32_t begin = 0, end = 0;  // instructions
        std::uint32_t period = 0;          // i + period is i for later microbatches, where both are inside
    };
    std::vector<Program> programs;  // by rank; empty where nothing is known
    // In Schedule::senders: where the periods begin, how many transfers one has, and how many there are.
    std::size_t first_sender = 0, senders = 0, periods = 0;
};

struct Schedule {
    std::string generator;  // registry name
    int stages = 1;         // virtual stages
    int microbatches = 1;   // a step
    int steps = 1;          // steps the program spans: 1 where it flushes, more where it does not
    StepBoundary boundary = StepBoundary::Barrier;
    Semantics semantics = Semantics::Synchronous;
    std::vector<std::uint16_t> rank_of_stage;      // replica 0's rank; the other replicas follow it
    std::vector<std::uint16_t> replicas_of_stage;  // PipeDream's replicated stages; all 1 elsewhere
    std::vector<RankProgram> programs;             // one a pipeline rank
    // The sending ranks of all transfers in one global order that every program agrees with: lowering knows
    // one. Empty elsewhere: it spares those who follow all programs the search for it, and means nothing.
    std::vector<std::uint16_t> senders;
    SteadyPhase steady;  // likewise: what may be looked at once instead of hundreds of times
    DurationKeys duration_classes;
    DurationKeys size_classes;  // [0] is unused
    // Ranks of each collective group that crosses pipeline ranks. groups[0] is empty: a group inside one
    // pipeline rank's replicas (dp, ep), which needs no rendezvous between pipeline ranks.
    std::vector<std::vector<std::uint16_t>> groups;

    [[nodiscard]] int ranks() const { return static_cast<int>(programs.size()); }
    [[nodiscard]] std::size_t instruction_count() const;
    // The stages that a rank runs (as first or further replica), ascending.
    [[nodiscard]] std::vector<std::uint16_t> stages_of_rank(int rank) const;
    // Index of the class with this key, added where it is new.
    std::uint16_t duration_class(const DurationKey& key) { return duration_classes.find_or_add(key); }
    std::uint16_t size_class(const DurationKey& key);
};

// One compute action of a generator's order, before transfers and synchronisation are placed.
struct Action {
    Opcode opcode = Opcode::Forward;  // a compute opcode
    std::uint16_t stage = 0;
    std::int32_t microbatch = 0;
    std::uint16_t stage2 = 0;  // OverlapForwardBackward
    std::int32_t microbatch2 = kNoMicrobatch;
    std::uint16_t weight_version = 0;
    friend bool operator==(const Action&, const Action&) = default;
};

// What a generator produces: which rank computes what, in which order.
struct ComputeOrder {
    int stages = 1;
    int microbatches = 1;  // a step
    int steps = 1;
    StepBoundary boundary = StepBoundary::Barrier;
    Semantics semantics = Semantics::Synchronous;
    bool splits_backward = false;  // has BackwardInput and BackwardWeight
    int weight_versions = 1;       // the most kept by any rank
    std::vector<std::uint16_t>
        versions_of_rank;  // kept by each; Action::weight_version is modulo this. Empty: 1
    int backwards_per_update =
        0;  // a rank's own backwards of a stage between optimizer steps; 0: all of a step
    std::vector<std::uint16_t> rank_of_stage;  // replica 0's rank
    std::vector<std::uint16_t> replicas_of_stage;
    // Microbatches are numbered through all steps: 0 .. steps * microbatches - 1.
    std::vector<std::vector<Action>> ranks;

    [[nodiscard]] int kept_versions(std::size_t rank) const {
        return versions_of_rank.empty() ? 1 : versions_of_rank[rank];
    }
    [[nodiscard]] int total_microbatches() const { return steps * microbatches; }
    // The rank that runs `stage` for `microbatch`: replicas take turns.
    [[nodiscard]] int rank_of(int stage, int microbatch) const {
        const auto s = static_cast<std::size_t>(stage);
        return rank_of_stage[s] + microbatch % replicas_of_stage[s];
    }
};

}  // namespace tw
