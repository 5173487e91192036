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
    const Action* next = nullptr;
    const Action* end = nullptr;
};

// Calls on_start(rank, index, time) and on_finish(rank, index, time) in order of time; at equal times
// finishes come before starts and lower ranks first. Stages and microbatches must be in range. Costs must be
// positive.
template <class Cost, class OnStart, class OnFinish>
ReplayResult replay(const ComputeOrder& order, const Cost& cost, OnStart&& on_start, OnFinish&& on_finish) {
    const std::size_t ranks = order.ranks.size();
    const auto total = static_cast<std::size_t>(order.total_microbatches());
    const auto stages = static_cast<std::size_t>(order.stages);
    std::vector<char> forward_done(stages * total, 0), backward_done(stages * total, 0);
    const auto cell = [&](std::uint16_t stage, std::int32_t microbatch) {
        return stage * total + static_cast<std::size_t>(microbatch);
    };
    const auto forward_ready = [&](std::uint16_t stage, std::int32_t microbatch) {
        return stage == 0 || forward_done[cell(stage, microbatch) - total] != 0;
    };
    const auto backward_ready = [&](std::uint16_t stage, std::int32_t microbatch) {
        const std::size_t at = cell(stage, microbatch);
        return forward_done[at] != 0 && (stage + 1U == stages || backward_done[at + total] != 0);
    };
    // Replicas reduce their gradients at every update: none goes on before all have done the same backwards.
    const auto updates = static_cast<std::size_t>(std::max(order.backwards_per_update, 1));
    std::vector<std::size_t> backwards(ranks, 0);
    const auto replicas_met = [&](std::size_t rank, std::uint16_t stage) {
        const std::size_t replicas = order.replicas_of_stage[stage];
        if (replicas == 1 || backwards[rank] % updates != 0) return true;
        const auto first = backwards.begin() + order.rank_of_stage[stage];
        return *std::min_element(first, first + static_cast<std::ptrdiff_t>(replicas)) >= backwards[rank];
    };
    const auto ready = [&](const Action& a) {
        switch (a.opcode) {
            case Opcode::Forward:
                return forward_ready(a.stage, a.microbatch);
            case Opcode::Backward:
            case Opcode::BackwardInput:
                return backward_ready(a.stage, a.microbatch);
            case Opcode::BackwardWeight:
                return backward_done[cell(a.stage, a.microbatch)] != 0;
            default:
                return forward_ready(a.stage, a.microbatch) && backward_ready(a.stage2, a.microbatch2);
        }
    };

    ReplayResult result;
    result.done.assign(ranks, 0);
    std::vector<ReplayTurn> turns(ranks);
    for (std::size_t r = 0; r < ranks; ++r) {
        turns[r].next = order.ranks[r].data();
        turns[r].end = turns[r].next + order.ranks[r].size();
    }
    std::int64_t now = 0;
    std::size_t running = 0;
    while (true) {
        for (std::size_t r = 0; r < ranks; ++r) {
            ReplayTurn& turn = turns[r];
            if (turn.busy_until != now) continue;
            const std::size_t index = result.done[r]++;
            const Action& a = *turn.next++;
            turn.busy_until = ReplayTurn::kIdle;
            --running;
            if (a.opcode == Opcode::Forward) {
                forward_done[cell(a.stage, a.microbatch)] = 1;
            } else if (a.opcode == Opcode::OverlapForwardBackward) {
                forward_done[cell(a.stage, a.microbatch)] = 1;
                backward_done[cell(a.stage2, a.microbatch2)] = 1;
            } else if (a.opcode != Opcode::BackwardWeight) {
                backward_done[cell(a.stage, a.microbatch)] = 1;
            }
            if (a.opcode == Opcode::Backward || a.opcode == Opcode::BackwardWeight) ++backwards[r];
            on_finish(r, index, now);
        }
        std::int64_t next = ReplayTurn::kIdle;
        for (std::size_t r = 0; r < ranks; ++r) {
            ReplayTurn& turn = turns[r];
            if (turn.busy_until == ReplayTurn::kIdle && turn.next != turn.end) {
                const Action& a = *turn.next;
                if (ready(a) && replicas_met(r, a.stage)) {
                    on_start(r, result.done[r], now);
                    turn.busy_until = now + cost(a);
                    ++running;
                }
            }
            next = std::min(next, turn.busy_until);
        }
        if (running == 0) break;
        now = next;
    }
    result.makespan = now;
    for (const ReplayTurn& turn : turns)
        result.complete &= turn.next == turn.end;
    return result;
}

}  // namespace tw
