// What a user fixes before a search:
// `tp=8,pp=4,schedule=1f1b|interleaved,mbs=1..8,zero=0..1,recompute=none|full,sp=on`.
//
// spec := item (',' item)*; item := key '=' choice ('|' choice)*; a choice is a value, or a range a..b (both
// included) where the key counts something. Keys: dp, tp, sp, pp, vpp, cp, ep, etp, mbs, zero (0-3; 2/8
// shards over groups of 8 ranks, 2/all over all), recompute (none, selective, selective-ops, full; full:2 and
// full:1..4 the first blocks of a stage alone, full:all all of them; modules:mla_up_proj+layernorm these
// modules, one list a spec, modules those that usual_modules says), schedule (a registry name). sp takes on
// or off. An empty spec fixes nothing.
//
// Or the label of a plan, as summary() and the tables print it: `tp4 sp pp4 dp4 mbs1 1f1b zero1 full:2`; what
// it does not name is 1, off, none or 0.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "plan/parallel_plan.hpp"

namespace tw {

// Integers that are allowed: a union of ranges, or anything where there is none.
struct IntChoice {
    struct Range {
        std::int64_t low = 0, high = 0;  // both included
        friend bool operator==(const Range&, const Range&) = default;
    };
    std::vector<Range> ranges;

    [[nodiscard]] bool any() const { return ranges.empty(); }
    [[nodiscard]] bool allows(std::int64_t value) const;
    // Some of what is allowed: both ends of each range and the powers of two between them; `otherwise` where
    // anything is.
    [[nodiscard]] std::vector<int> some(int otherwise) const;
    friend bool operator==(const IntChoice&, const IntChoice&) = default;
};

// One of a few words, or anything where the list is empty.
template <class T>
struct WordChoice {
    std::vector<T> words;
    [[nodiscard]] bool any() const { return words.empty(); }
    [[nodiscard]] bool allows(const T& word) const {
        for (const T& known : words) {
            if (known == word) return true;
        }
        return words.empty();
    }
    friend bool operator==(const WordChoice&, const WordChoice&) = default;
};

struct PlanConstraints {
    IntChoice dp, tp, pp, vpp, cp, ep, etp, mbs, zero;
    IntChoice sp;              // 0: off, 1: on
    IntChoice zero_shard;      // of ZeRO's stages: ranks of a shard group; 0: all
    IntChoice full_blocks;     // of full recomputation: the first blocks of a stage; -1: all
    RecomputeModules modules;  // of RecomputeMode::Modules; none: any
    WordChoice<RecomputeMode> recompute;
    WordChoice<std::string> schedule;

    // Recompute: what every stage has must be allowed.
    [[nodiscard]] bool allows(const ParallelPlan& plan) const;
    friend bool operator==(const PlanConstraints&, const PlanConstraints&) = default;
};

// Usage errors, all at once, context "--fix": an unknown key or word (with the nearest), a key given twice, a
// number that is none or out of range, an empty range.
Result<PlanConstraints> parse_fix(std::string_view spec);

// The canonical spec: parse_fix reads it back to equal constraints.
std::string to_string(const PlanConstraints& constraints);

}  // namespace tw
