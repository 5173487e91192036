#include <algorithm>

#include <fmt/format.h>

#include "plan/schedule/check.hpp"
#include "plan/schedule/replay.hpp"

namespace tw {
namespace {

std::string token(const Action& action) {
    Instruction instruction;
    instruction.opcode = action.opcode;
    instruction.stage = action.stage;
    instruction.microbatch = action.microbatch;
    instruction.stage2 = action.stage2;
    instruction.microbatch2 = action.microbatch2;
    return to_string(instruction);
}

std::string token(Opcode opcode, int stage, int microbatch) {
    Instruction instruction;
    instruction.opcode = opcode;
    instruction.stage = static_cast<std::uint16_t>(stage);
    instruction.microbatch = microbatch;
    return to_string(instruction);
}

class OrderChecker {
  public:
    explicit OrderChecker(const ComputeOrder& order) : order_(order) {}

    Errors run() {
        if (!check_sizes()) return errors_;
        cells_.resize(static_cast<std::size_t>(order_.stages) * total());
        for (std::size_t r = 0; r < order_.ranks.size(); ++r) {
            for (const Action& action : order_.ranks[r])
                visit(r, action);
        }
        check_complete();
        if (errors_.empty()) check_versions();
        if (errors_.empty()) check_progress();
        return errors_;
    }

  private:
    struct Cell {
        bool forward = false, backward = false, input = false, weight = false;
        std::uint16_t version = 0;
    };

    [[nodiscard]] std::size_t total() const { return static_cast<std::size_t>(order_.total_microbatches()); }
    Cell& cell(int stage, int microbatch) {
        return cells_[static_cast<std::size_t>(stage) * total() + static_cast<std::size_t>(microbatch)];
    }
    void error(std::string message, std::string context) {
        errors_.push_back({ErrorCode::Unreadable, std::move(message), std::move(context), {}});
    }

    bool check_sizes() {
        const auto stages = static_cast<std::size_t>(std::max(order_.stages, 0));
        // Every stage and microbatch needs an action: sizes far beyond that come from a damaged document.
        std::size_t actions = 0;
        for (const auto& rank : order_.ranks)
            actions += rank.size();
        const double cells = static_cast<double>(order_.stages) * order_.microbatches * order_.steps;
        if (order_.stages < 1 || order_.microbatches < 1 || order_.steps < 1 || order_.weight_versions < 1) {
            error(fmt::format(
                      "{} stages, {} microbatches, {} steps, {} weight versions: each must be at least 1",
                      order_.stages, order_.microbatches, order_.steps, order_.weight_versions),
                  "order");
        } else if (cells > 4.0 * static_cast<double>(actions) + 65536.0) {
            error(fmt::format("{} stages, {} microbatches and {} steps, but only {} actions", order_.stages,
                              order_.microbatches, order_.steps, actions),
                  "order");
        } else if (!order_.versions_of_rank.empty() &&
                   order_.versions_of_rank.size() != order_.ranks.size()) {
            error(fmt::format("{} version counts for {} ranks", order_.versions_of_rank.size(),
                              order_.ranks.size()),
                  "order");
        } else if (order_.rank_of_stage.size() != stages || order_.replicas_of_stage.size() != stages) {
            error(fmt::format("{} stages are placed, the order has {}", order_.rank_of_stage.size(), stages),
                  "order");
        } else {
            for (std::size_t s = 0; s < stages; ++s) {
                const std::size_t replicas = order_.replicas_of_stage[s];
                if (replicas >= 1 && order_.rank_of_stage[s] + replicas <= order_.ranks.size()) continue;
                error(fmt::format("stage {} is on ranks {} to {} of {}", s, order_.rank_of_stage[s],
                                  order_.rank_of_stage[s] + replicas - 1, order_.ranks.size()),
                      fmt::format("stage {}", s));
            }
        }
        return errors_.empty();
    }

    void visit(std::size_t rank, const Action& action) {
        const std::string context = fmt::format("rank {}, {}", rank, token(action));
        if (!is_compute(action.opcode)) return error("an order holds computes only", context);
        const bool overlap = action.opcode == Opcode::OverlapForwardBackward;
        if (!in_place(rank, action.stage, action.microbatch, context)) return;
        if (overlap && !in_place(rank, action.stage2, action.microbatch2, context)) return;
        if (action.weight_version >= order_.kept_versions(rank)) {
            return error(fmt::format("weight version {} of {} kept", action.weight_version,
                                     order_.kept_versions(rank)),
                         context);
        }
        Cell& own = cell(action.stage, action.microbatch);
        switch (action.opcode) {
            case Opcode::Forward:
                return forward(own, action, context);
            case Opcode::Backward:
                once(own.backward, context);
                return after_forward(own, action, context);
            case Opcode::BackwardInput:
                once(own.input, context);
                return after_forward(own, action, context);
            case Opcode::BackwardWeight:
                once(own.weight, context);
                if (!own.input) error("a weight gradient before its input gradient", context);
                return after_forward(own, action, context);
            default: {
                forward(own, action, context);
                Cell& other = cell(action.stage2, action.microbatch2);
                once(other.backward, context);
                return after_forward(other, action, context);
            }
        }
    }

    bool in_place(std::size_t rank, int stage, int microbatch, const std::string& context) {
        if (stage >= order_.stages) {
            error(fmt::format("stage {} of {}", stage, order_.stages), context);
        } else if (microbatch < 0 || microbatch >= order_.total_microbatches()) {
            error(fmt::format("microbatch {} of {}", microbatch, order_.total_microbatches()), context);
        } else if (order_.rank_of(stage, microbatch) != static_cast<int>(rank)) {
            error(fmt::format("stage {} computes microbatch {} on rank {}", stage, microbatch,
                              order_.rank_of(stage, microbatch)),
                  context);
        } else {
            return true;
        }
        return false;
    }
    void once(bool& done, const std::string& context) {
        if (done) error("computed twice", context);
        done = true;
    }
    void forward(Cell& cell, const Action& action, const std::string& context) {
        once(cell.forward, context);
        cell.version = action.weight_version;
    }
    void after_forward(const Cell& cell, const Action& action, const std::string& context) {
        if (!cell.forward) error("a backward before its forward", context);
        if (cell.forward && cell.version != action.weight_version) {
            error(fmt::format("the backward uses weight version {}, its forward used {}",
                              action.weight_version, cell.version),
                  context);
        }
    }

    void check_complete() {
        for (int s = 0; s < order_.stages; ++s) {
            for (int b = 0; b < order_.total_microbatches(); ++b) {
                const Cell& c = cell(s, b);
                const std::string where = fmt::format("rank {}", order_.rank_of(s, b));
                const auto missing = [&](Opcode opcode) {
                    error("never computed", fmt::format("{}, {}", where, token(opcode, s, b)));
                };
                if (!c.forward) missing(Opcode::Forward);
                if (c.backward && (c.input || c.weight)) {
                    error("a whole backward beside a split one",
                          fmt::format("{}, {}", where, token(Opcode::Backward, s, b)));
                } else if (!c.backward && !c.input && !c.weight) {
                    missing(Opcode::Backward);
                } else if (!c.backward && !c.input) {
                    missing(Opcode::BackwardInput);
                } else if (!c.backward && !c.weight) {
                    missing(Opcode::BackwardWeight);
                }
            }
        }
    }

    // A forward may use the versions made so far by its rank, as far back as they are kept. Named modulo
    // those kept, a version that is not made yet would read as one that is too old: both are the same number
    // early in the order only.
    void check_versions() {
        if (order_.weight_versions == 1) return;
        const int period = std::max(order_.backwards_per_update, 1);
        for (std::size_t r = 0; r < order_.ranks.size(); ++r) {
            std::vector<int> backwards(static_cast<std::size_t>(order_.stages), 0);
            for (const Action& action : order_.ranks[r]) {
                const int latest = backwards[action.stage] / period;
                const int kept = order_.kept_versions(r);
                const int behind = ((latest - action.weight_version) % kept + kept) % kept;
                if (behind > latest) {
                    error(fmt::format("weight version {} is used before it is made", action.weight_version),
                          fmt::format("rank {}, {}", r, token(action)));
                }
                if (ends_backward(action)) ++backwards[action.stage];
            }
        }
    }

    // What an action that cannot start waits for: (stage, microbatch) and the opcode, on which rank.
    struct Need {
        int rank = 0;
        Opcode opcode = Opcode::Forward;
        int stage = 0, microbatch = 0;
    };

    void check_progress() {
        std::vector<char> forward(cells_.size(), 0), backward(cells_.size(), 0);
        const auto mark = [&](std::vector<char>& done, int stage, int microbatch) {
            done[static_cast<std::size_t>(stage) * total() + static_cast<std::size_t>(microbatch)] = 1;
        };
        const ReplayResult result = replay(
            order_, UnitCosts{}, [](std::size_t, std::size_t, std::int64_t) {},
            [&](std::size_t rank, std::size_t index, std::int64_t) {
                const Action& a = order_.ranks[rank][index];
                const bool overlap = a.opcode == Opcode::OverlapForwardBackward;
                if (overlap || a.opcode == Opcode::Forward) mark(forward, a.stage, a.microbatch);
                if (overlap) mark(backward, a.stage2, a.microbatch2);
                if (a.opcode == Opcode::Backward || a.opcode == Opcode::BackwardInput) {
                    mark(backward, a.stage, a.microbatch);
                }
            });
        if (result.complete) return;
        const auto backwards_done = [&](std::size_t rank) {
            return std::count_if(order_.ranks[rank].begin(),
                                 order_.ranks[rank].begin() + static_cast<std::ptrdiff_t>(result.done[rank]),
                                 ends_backward);
        };
        const auto finished = [&](std::size_t rank) {
            return result.done[rank] == order_.ranks[rank].size();
        };
        // Replicas meet at each update: the one that has not got as far.
        const auto replica_behind = [&](std::size_t rank, const Action& a) {
            const std::size_t first = order_.rank_of_stage[a.stage];
            std::size_t behind = first;
            for (std::size_t other = first; other < first + order_.replicas_of_stage[a.stage]; ++other) {
                if (backwards_done(other) < backwards_done(behind)) behind = other;
            }
            TW_CHECK(behind != rank);
            if (finished(behind)) return Need{static_cast<int>(behind)};
            const Action& missing = order_.ranks[behind][result.done[behind]];
            return Need{static_cast<int>(behind), missing.opcode, missing.stage, missing.microbatch};
        };
        // Follow what each rank waits for until a rank comes again: that is a cycle.
        const auto need_of = [&](std::size_t rank) {
            const Action& a = order_.ranks[rank][result.done[rank]];
            const auto is_done = [&](const std::vector<char>& done, int stage, int microbatch) {
                return done[static_cast<std::size_t>(stage) * total() +
                            static_cast<std::size_t>(microbatch)] != 0;
            };
            const bool overlap = a.opcode == Opcode::OverlapForwardBackward;
            if ((overlap || a.opcode == Opcode::Forward) && a.stage > 0 &&
                !is_done(forward, a.stage - 1, a.microbatch)) {
                return Need{order_.rank_of(a.stage - 1, a.microbatch), Opcode::Forward, a.stage - 1,
                            a.microbatch};
            }
            const int stage = overlap ? a.stage2 : a.stage;
            const int microbatch = overlap ? a.microbatch2 : a.microbatch;
            if (a.opcode != Opcode::Forward &&
                !is_done(forward, stage, microbatch)) {  // an overlap's own forward
                return Need{order_.rank_of(stage, microbatch), Opcode::Forward, stage, microbatch};
            }
            if (a.opcode != Opcode::Forward && stage + 1 < order_.stages &&
                !is_done(backward, stage + 1, microbatch)) {
                return Need{order_.rank_of(stage + 1, microbatch), Opcode::Backward, stage + 1, microbatch};
            }
            return replica_behind(rank, a);
        };
        std::vector<char> seen(order_.ranks.size(), 0);
        std::size_t rank = 0;
        while (finished(rank))
            ++rank;
        while (seen[rank] == 0) {
            seen[rank] = 1;
            const auto next = static_cast<std::size_t>(need_of(rank).rank);
            if (finished(next)) {  // a replica with fewer backwards
                const std::string stuck =
                    fmt::format("rank {}, {}", rank, token(order_.ranks[rank][result.done[rank]]));
                return error(fmt::format("deadlock: {} waits for backwards of its replica on rank {}, which "
                                         "has done all of its own",
                                         stuck, next),
                             stuck);
            }
            rank = next;
        }
        const std::size_t start = rank;
        const std::string context =
            fmt::format("rank {}, {}", start, token(order_.ranks[start][result.done[start]]));
        std::string cycle;
        do {
            const Action& stuck = order_.ranks[rank][result.done[rank]];
            const Need need = need_of(rank);
            cycle += fmt::format("{}rank {}, {} waits for {}", cycle.empty() ? "" : " -> ", rank,
                                 token(stuck), token(need.opcode, need.stage, need.microbatch));
            rank = static_cast<std::size_t>(need.rank);
        } while (rank != start);
        error("deadlock: " + cycle, context);
    }

    const ComputeOrder& order_;
    std::vector<Cell> cells_;
    Errors errors_;
};

}  // namespace

Errors check_order(const ComputeOrder& order) {
    return OrderChecker(order).run();
}

}  // namespace tw
