// Replays a compute order with fixed costs and free communication: the longest path over the orders of all
// ranks and the dependencies F(s-1) -> F(s), F(s) -> B(s), B(s+1) -> B(s), B(s) -> W(s), and replicas of a
// stage meeting at each update. Everything that needs a global order of a schedule (placing transfers,
// proving an order, the grid) uses this one replay.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/check.hpp"
#include "plan/schedule/schedule.hpp"

namespace tw {

struct UnitCosts {
    std::int64_t forward = 1, backward_input = 1, backward_weight = 1;
    [[nodiscard]] std::int64_t operator()(const Action& action) const {
        switch (action.opcode) {
            case Opcode::Forward:
                return forward;
            case Opcode::BackwardInput:
                return backward_input;
            case Opcode::BackwardWeight:
                return backward_weight;
            case Opcode::Backward:
                return backward_input + backward_weight;
            default:
                return forward + backward_input + backward_weight;
        }
    }
};

// Whether nothing of its microbatch's backward is left after it: what replicas count to meet at updates.
inline bool ends_backward(const Action& action) {
    return action.opcode == Opcode::Backward || action.opcode == Opcode::BackwardWeight;
}

struct ReplayResult {
    std::int64_t makespan = 0;
    // Actions done by each rank: all of them, unless the order deadlocks; then [done[r]] is what rank r is
    // stuck at.
    std::vector<std::size_t> done;
    bool complete = true;
};

// One rank's place in its order while it is replayed.
struct ReplayTurn {
    static constexpr std::int64_t kIdle = std::numeric_limits<std::int64_t>::max();
    std::int64_t busy_until = kIdle;
    const Action *begin = nullptr, *next = nullptr, *end = nullptr;
    [[nodiscard]] std::size_t index() const { return static_cast<std::size_t>(next - begin); }
};

// Calls on_start(rank, index, time) and on_finish(rank, index, time) in order of time; at equal times
// finishes come before starts and lower ranks first. Stages and microbatches must be in range. Costs must be
// positive.
template <class Cost, class OnStart, class OnFinish>
ReplayResult replay(const ComputeOrder& order, const Cost& cost, OnStart&& on_start, OnFinish&& on_finish) {
    constexpr std::int64_t kIdle = ReplayTurn::kIdle;
    const std::size_t ranks = order.ranks.size();
    const auto total = static_cast<std::size_t>(order.total_microbatches());
    const auto stages = static_cast<std::size_t>(order.stages);
    // By stage and microbatch. Row s of what went forward says whether stage s has its input, and row s + 1
    // whether it has computed; row s of what went backward whether stage s has, and row s + 1 whether it has
    // its gradient. So the ends of the pipeline are rows as well, done from the start.
    std::vector<char> forward((stages + 1) * total, 0), backward((stages + 1) * total, 0);
    std::fill_n(forward.begin(), total, char{1});
    std::fill_n(backward.end() - static_cast<std::ptrdiff_t>(total), total, char{1});
    char* const went_forward = forward.data();
    char* const went_backward = backward.data();
    const auto cell = [total](std::uint16_t stage, std::int32_t microbatch) {
        return stage * total + static_cast<std::size_t>(microbatch);
    };
    const auto ready = [=](const Action& a) {
        const std::size_t at = cell(a.stage, a.microbatch);
        switch (a.opcode) {
            case Opcode::Forward:
                return went_forward[at] != 0;
            case Opcode::Backward:
            case Opcode::BackwardInput:
                return (went_forward[at + total] & went_backward[at + total]) != 0;
            case Opcode::BackwardWeight:
                return went_backward[at] != 0;
            default: {
                const std::size_t at2 = cell(a.stage2, a.microbatch2) + total;
                return (went_forward[at] & went_forward[at2] & went_backward[at2]) != 0;
            }
        }
    };
    const auto done = [=](const Action& a) {
        if (a.opcode == Opcode::Forward) {
            went_forward[cell(a.stage, a.microbatch) + total] = 1;
        } else if (a.opcode == Opcode::OverlapForwardBackward) {
            went_forward[cell(a.stage, a.microbatch) + total] = 1;
            went_backward[cell(a.stage2, a.microbatch2)] = 1;
        } else if (a.opcode != Opcode::BackwardWeight) {
            went_backward[cell(a.stage, a.microbatch)] = 1;
        }
    };
    // Replicas reduce their gradients at every update: none goes on before all have done the same backwards.
    const bool replicated = std::any_of(order.replicas_of_stage.begin(), order.replicas_of_stage.end(),
                                        [](std::uint16_t replicas) { return replicas > 1; });
    const auto updates = static_cast<std::size_t>(std::max(order.backwards_per_update, 1));
    std::vector<std::size_t> backwards(ranks, 0);
    const auto replicas_met = [&](std::size_t rank, std::uint16_t stage) {
        const std::size_t replicas = order.replicas_of_stage[stage];
        if (replicas == 1 || backwards[rank] % updates != 0) return true;
        const auto first = backwards.begin() + order.rank_of_stage[stage];
        return *std::min_element(first, first + static_cast<std::ptrdiff_t>(replicas)) >= backwards[rank];
    };

    std::vector<ReplayTurn> all_turns(ranks);
    for (std::size_t r = 0; r < ranks; ++r) {
        all_turns[r].begin = all_turns[r].next = order.ranks[r].data();
        all_turns[r].end = all_turns[r].next + order.ranks[r].size();
    }
    ReplayTurn* const turns = all_turns.data();
    std::int64_t now = 0;
    while (true) {
        for (std::size_t r = 0; r < ranks; ++r) {
            ReplayTurn& turn = turns[r];
            if (turn.busy_until != now) continue;
            const Action& a = *turn.next;
            done(a);
            if (replicated && ends_backward(a)) ++backwards[r];
            on_finish(r, turn.index(), now);
            ++turn.next;
            turn.busy_until = kIdle;
        }
        std::int64_t next = kIdle;
        for (std::size_t r = 0; r < ranks; ++r) {
            ReplayTurn& turn = turns[r];
            if (turn.busy_until == kIdle && turn.next != turn.end) {
                const Action& a = *turn.next;
                if (ready(a) && (!replicated || replicas_met(r, a.stage))) {
                    turn.busy_until = now + cost(a);
                    on_start(r, turn.index(), now);
                }
            }
            next = std::min(next, turn.busy_until);
        }
        if (next == kIdle) break;
        now = next;
    }
    ReplayResult result;
    result.makespan = now;
    for (const ReplayTurn& turn : all_turns) {
        result.done.push_back(turn.index());
        result.complete &= turn.next == turn.end;
    }
    return result;
}

}  // namespace tw
