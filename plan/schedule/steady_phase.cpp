#include "plan/schedule/steady_phase.hpp"

#include <algorithm>
#include <utility>

namespace tw {
namespace {

bool same_kind(const Action& a, const Action& b) {
    return a.opcode == b.opcode && a.stage == b.stage && a.stage2 == b.stage2;
}

std::int32_t later(std::int32_t microbatch, std::int32_t shift) {
    return microbatch == kNoMicrobatch ? kNoMicrobatch : microbatch + shift;
}

// Whether b is a for microbatches that come `shift` later.
bool repeats(const Action& a, const Action& b, std::int32_t shift) {
    return same_kind(a, b) && a.weight_version == b.weight_version &&
           later(a.microbatch, shift) == b.microbatch && later(a.microbatch2, shift) == b.microbatch2;
}

struct Phase {
    std::size_t begin = 0, end = 0, period = 0;
    [[nodiscard]] std::size_t periods() const { return (end - begin) / period; }
};

// The actions around the middle that repeat with this period.
Phase extend(const std::vector<Action>& actions, std::size_t period, std::int32_t shift) {
    Phase phase{actions.size() / 2, actions.size() / 2, period};
    while (phase.end + period < actions.size() &&
           repeats(actions[phase.end], actions[phase.end + period], shift))
        ++phase.end;
    while (phase.begin > 0 && repeats(actions[phase.begin - 1], actions[phase.begin - 1 + period], shift))
        --phase.begin;
    phase.end += period;
    return phase;
}

// The first phase that goes on from the middle of a rank's actions and is half of them or more, with its
// shift; with a shift given, that one. No periods where there is none.
std::pair<Phase, std::int32_t> find_phase(const std::vector<Action>& actions, std::int32_t shift) {
    constexpr int kCandidates = 64;
    const std::size_t middle = actions.size() / 2;
    int candidates = 0;
    for (std::size_t i = middle + 1; i < actions.size() && candidates < kCandidates; ++i) {
        if (!same_kind(actions[middle], actions[i])) continue;
        ++candidates;
        const std::int32_t by = actions[i].microbatch - actions[middle].microbatch;
        if (by <= 0 || (shift != 0 && by != shift)) continue;
        const Phase phase = extend(actions, i - middle, by);
        if (2 * (phase.end - phase.begin) >= actions.size()) return {phase, by};
        if (shift != 0) break;
    }
    return {{0, 0, 1}, 0};
}

// No forward or backward of a stage and microbatch is there twice, and none beyond the microbatches: so each
// is there once, as in the whole order.
bool is_sound(const ComputeOrder& order) {
    const auto microbatches = static_cast<std::size_t>(order.microbatches);
    std::vector<char> seen(3 * static_cast<std::size_t>(order.stages) * microbatches, 0);
    const auto once = [&](std::size_t kind, std::uint16_t stage, std::int32_t microbatch) {
        if (microbatch < 0 || microbatch >= order.microbatches) return false;
        const std::size_t row = 3 * std::size_t{stage} + kind;
        return std::exchange(seen[row * microbatches + static_cast<std::size_t>(microbatch)], char{1}) == 0;
    };
    const auto sound = [&](const Action& a) {
        switch (a.opcode) {
            case Opcode::Forward:
                return once(0, a.stage, a.microbatch);
            case Opcode::BackwardWeight:
                return once(1, a.stage, a.microbatch);
            case Opcode::OverlapForwardBackward:
                return once(0, a.stage, a.microbatch) && once(2, a.stage2, a.microbatch2);
            default:
                return once(2, a.stage, a.microbatch);
        }
    };
    return std::all_of(order.ranks.begin(), order.ranks.end(), [&](const std::vector<Action>& actions) {
        return std::all_of(actions.begin(), actions.end(), sound);
    });
}

// One of a program's periods: it is equal to the one before and to two that follow.
struct Block {
    std::size_t begin = 0, length = 0;
};

bool repeats(const Instruction& a, const Instruction& b, std::int32_t shift) {
    Instruction moved = a;
    moved.microbatch = later(a.microbatch, shift);
    moved.microbatch2 = later(a.microbatch2, shift);
    return moved == b;
}

bool repeats(const RankProgram& program, std::size_t begin, std::size_t length, std::int32_t shift) {
    for (std::size_t i = begin; i < begin + length; ++i) {
        const Instruction& in = program.instructions[i];
        if (in.batch_group != 0 || !repeats(in, program.instructions[i + length], shift)) return false;
        const auto waits = program.waits_of(i), next = program.waits_of(i + length);
        const bool same = std::equal(waits.begin(), waits.end(), next.begin(), next.end(),
                                     [&](std::uint32_t a, std::uint32_t b) { return a + length == b; });
        if (!same) return false;
    }
    return true;
}

std::optional<Block> find_block(const RankProgram& program, const ShortOrder::Rank& rank,
                                std::int32_t shift) {
    std::size_t computes = 0;
    std::vector<std::size_t> begins;  // of the last five periods: warm-up reaches far into the first ones
    std::size_t next = rank.begin + (rank.periods - 5) * rank.period;
    for (std::size_t i = 0; i < program.instructions.size() && begins.size() < 5; ++i) {
        if (!is_compute(program.instructions[i].opcode)) continue;
        if (computes++ != next) continue;
        begins.push_back(i);
        next += rank.period;
    }
    if (begins.size() < 5) return std::nullopt;
    const std::size_t length = begins[1] - begins[0];
    for (std::size_t k = 0; k < 3; ++k) {
        if (begins[k + 1] - begins[k] != length || begins[k + 2] - begins[k + 1] != length ||
            !repeats(program, begins[k], length, shift))
            return std::nullopt;
    }
    return Block{begins[1], length};
}

// Puts `copies` of a block behind it.
void insert_copies(RankProgram& program, const Block& block, std::uint32_t copies, std::int32_t shift) {
    RankProgram longer;
    const auto length = static_cast<std::uint32_t>(block.length);
    const auto end = static_cast<std::ptrdiff_t>(block.begin + block.length);
    const std::uint32_t first_wait = program.wait_begin[block.begin],
                        last_wait = program.wait_begin[block.begin + length];
    const std::uint32_t waits = last_wait - first_wait;
    const std::uint32_t more = copies * length;

    longer.instructions.reserve(program.instructions.size() + more);
    longer.instructions.assign(program.instructions.begin(), program.instructions.begin() + end);
    const auto add = [&](const Instruction& in, std::int32_t by) {
        Instruction& added = longer.instructions.emplace_back(in);
        added.microbatch = later(in.microbatch, by);
        added.microbatch2 = later(in.microbatch2, by);
    };
    longer.wait_begin.resize(program.wait_begin.size() + more);
    longer.waits.resize(program.waits.size() + std::size_t{copies} * waits);
    std::copy_n(program.wait_begin.begin(), end, longer.wait_begin.begin());
    std::copy_n(program.waits.begin(), last_wait, longer.waits.begin());
    std::uint32_t* wait_begin = longer.wait_begin.data() + end;
    std::uint32_t* wait = longer.waits.data() + last_wait;
    std::int32_t by = 0;
    for (std::uint32_t copy = 1; copy <= copies; ++copy) {
        by += shift;
        for (std::size_t i = block.begin; i < block.begin + length; ++i)
            add(program.instructions[i], by);
        for (std::uint32_t i = 0; i < length; ++i)
            *wait_begin++ = program.wait_begin[block.begin + i] + copy * waits;
        for (std::uint32_t w = first_wait; w < last_wait; ++w)
            *wait++ = program.waits[w] + copy * length;
    }
    for (auto in = program.instructions.begin() + end; in != program.instructions.end(); ++in)
        add(*in, by);
    for (auto i = program.wait_begin.begin() + end; i != program.wait_begin.end(); ++i)
        *wait_begin++ = *i + copies * waits;
    // What the rest waits for stands beside the copies' end as it stood beside the block's.
    for (auto w = program.waits.begin() + last_wait; w != program.waits.end(); ++w)
        *wait++ = *w + more;
    program = std::move(longer);
}

}  // namespace

std::optional<ShortOrder> shorten(const ComputeOrder& order) {
    if (order.steps != 1 || order.boundary == StepBoundary::None || order.ranks.empty()) return std::nullopt;
    if (std::any_of(order.replicas_of_stage.begin(), order.replicas_of_stage.end(),
                    [](std::uint16_t replicas) { return replicas > 1; }))
        return std::nullopt;
    ShortOrder cut;
    std::size_t periods = static_cast<std::size_t>(order.microbatches);
    std::vector<Phase> phases;
    for (const std::vector<Action>& actions : order.ranks) {
        const auto [phase, shift] = find_phase(actions, cut.shift);
        if (phase.periods() < 2) return std::nullopt;
        cut.shift = shift;
        periods = std::min(periods, phase.periods());
        phases.push_back(phase);
    }
    // Ranks reach the drain one after the other; what is left has to show a few periods of all at once.
    const auto kept =
        static_cast<int>(order.ranks.size()) / (order.splits_backward ? cut.shift : 2 * cut.shift) + 6;
    cut.removed = static_cast<int>(periods) - kept;
    if (4 * cut.removed * cut.shift < order.microbatches) return std::nullopt;  // not worth it

    const std::int32_t shift = cut.removed * cut.shift;
    cut.order.stages = order.stages;
    cut.order.microbatches = order.microbatches - shift;
    cut.order.steps = order.steps;
    cut.order.boundary = order.boundary;
    cut.order.semantics = order.semantics;
    cut.order.splits_backward = order.splits_backward;
    cut.order.weight_versions = order.weight_versions;
    cut.order.versions_of_rank = order.versions_of_rank;
    cut.order.backwards_per_update = order.backwards_per_update;
    cut.order.rank_of_stage = order.rank_of_stage;
    cut.order.replicas_of_stage = order.replicas_of_stage;
    for (std::size_t r = 0; r < order.ranks.size(); ++r) {
        const auto& actions = order.ranks[r];
        const Phase& phase = phases[r];
        const auto from = actions.begin() + static_cast<std::ptrdiff_t>(phase.begin);
        std::vector<Action>& shorter = cut.order.ranks.emplace_back(actions.begin(), from);
        for (auto a =
                 from + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(cut.removed) * phase.period);
             a != actions.end(); ++a) {
            Action& action = shorter.emplace_back(*a);
            action.microbatch = later(a->microbatch, -shift);
            action.microbatch2 = later(a->microbatch2, -shift);
        }
        cut.ranks.push_back(
            {phase.begin, phase.period, phase.periods() - static_cast<std::size_t>(cut.removed)});
    }
    if (!is_sound(cut.order)) return std::nullopt;
    return cut;
}

namespace {

std::ptrdiff_t offset(std::size_t i) {
    return static_cast<std::ptrdiff_t>(i);
}

// Where a period of the senders begins that is behind a rank's block, and how many transfers it has; nothing
// where the ranks' blocks do not stand side by side.
std::optional<std::pair<std::size_t, std::size_t>> find_senders(const Schedule& schedule,
                                                                const std::vector<Block>& blocks) {
    const auto sends = [&](std::size_t r, std::size_t begin, std::size_t end) {
        const auto& instructions = schedule.programs[r].instructions;
        return std::count_if(instructions.begin() + offset(begin), instructions.begin() + offset(end),
                             [](const Instruction& in) { return is_send(in.opcode); });
    };
    std::ptrdiff_t period = 0;
    for (std::size_t r = 0; r < blocks.size(); ++r)
        period += sends(r, blocks[r].begin, blocks[r].begin + blocks[r].length);
    auto before = sends(0, 0, blocks[0].begin);
    auto from = schedule.senders.begin();
    for (; from != schedule.senders.end() && before > 0; ++from)
        before -= *from == 0 ? 1 : 0;
    if (period == 0 || schedule.senders.end() - from < 3 * period) return std::nullopt;
    if (!std::equal(from, from + 2 * period, from + period)) return std::nullopt;
    return std::pair(static_cast<std::size_t>(from - schedule.senders.begin()),
                     static_cast<std::size_t>(period));
}

}  // namespace

bool lengthen(const ShortOrder& cut, Schedule& schedule) {
    std::vector<Block> blocks;
    for (std::size_t r = 0; r < schedule.programs.size(); ++r) {
        const std::optional<Block> block = find_block(schedule.programs[r], cut.ranks[r], cut.shift);
        if (!block) return false;
        blocks.push_back(*block);
    }
    const auto found = find_senders(schedule, blocks);
    if (!found) return false;
    const auto [first, period] = *found;
    const auto copies = static_cast<std::uint32_t>(cut.removed);

    SteadyPhase& steady = schedule.steady;
    steady.first_sender = first;
    steady.senders = period;
    steady.periods = copies + std::size_t{3};
    for (std::size_t r = 0; r < blocks.size(); ++r) {
        insert_copies(schedule.programs[r], blocks[r], copies, cut.shift);
        const auto length = static_cast<std::uint32_t>(blocks[r].length);
        const auto begin = static_cast<std::uint32_t>(blocks[r].begin) - length;
        steady.programs.push_back({begin, begin + (4 + copies) * length, length});
    }
    std::vector<std::uint16_t> senders;
    senders.reserve(schedule.senders.size() + copies * period);
    const auto from = schedule.senders.begin() + offset(first);
    senders.assign(schedule.senders.begin(), from);
    for (std::uint32_t copy = 0; copy < copies; ++copy)
        senders.insert(senders.end(), from, from + offset(period));
    senders.insert(senders.end(), from, schedule.senders.end());
    schedule.senders = std::move(senders);
    schedule.microbatches += cut.removed * cut.shift;
    return true;
}

}  // namespace tw
