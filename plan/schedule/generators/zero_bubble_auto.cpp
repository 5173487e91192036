#include <limits>
#include <optional>

#include "plan/schedule/generators/generators.hpp"

namespace tw {
namespace {

constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();
// Room for rounding where limits are sums of activation sizes.
constexpr double kSlack = 1e-9;

// Costs of rank r's only stage; unit costs where the caller gives none.
struct RankCosts {
    std::int64_t forward = 1, input = 1, weight = 1;
    double activation = 1, kept_for_weight = 1;  // of the activation, what is held from B to W
    double limit = std::numeric_limits<double>::infinity();
};

struct Problem {
    int ranks = 1, microbatches = 1;
    std::int64_t transfer = 0;
    std::vector<RankCosts> costs;
};

std::int64_t duration(const RankCosts& costs, Opcode opcode) {
    if (opcode == Opcode::Forward) return costs.forward;
    return opcode == Opcode::BackwardInput ? costs.input : costs.weight;
}

// The choices that the paper's heuristic searches over.
struct Policy {
    bool forward_may_delay_backward = false;  // start an F although a B arrives before it ends
    bool fill_any_gap = false;                // start a W although something arrives before it ends
    bool forward_first = false;               // of an F and a B that are both ready, take the F
    int depth = 0;  // forwards ahead of backwards on rank r: at most depth * (p - r - 1) + 1, as H1 (1) and
                    // H2 (2); 0: any
};

using Orders = std::vector<std::vector<Action>>;

// List scheduling in simulated time: each rank takes the best action whenever it is free.
class Greedy {
  public:
    Greedy(const Problem& problem, Policy policy) : problem_(problem), policy_(policy) {
        const auto p = static_cast<std::size_t>(problem.ranks);
        const auto m = static_cast<std::size_t>(problem.microbatches);
        ranks_.resize(p);
        for (Rank& rank : ranks_) {
            rank.forward_arrival.assign(m, kUnknown);
            rank.input_arrival.assign(m, kUnknown);
        }
        ranks_.front().forward_arrival.assign(m, 0);
        orders_.resize(p);
    }

    Orders run() {
        std::int64_t now = 0;
        while (now != kUnknown) {
            std::int64_t next = kUnknown;
            for (std::size_t r = 0; r < ranks_.size(); ++r) {
                if (ranks_[r].busy_until <= now) {
                    if (const auto opcode = choose(r, now)) start(r, *opcode, now);
                }
            }
            for (const Rank& rank : ranks_) {
                if (rank.busy_until > now) {
                    next = std::min(next, rank.busy_until);
                    continue;
                }
                for (const std::int64_t at : {forward_at(rank), input_at(rank)}) {
                    if (at > now) next = std::min(next, at);
                }
            }
            now = next;
        }
        return std::move(orders_);
    }

  private:
    struct Rank {
        std::vector<std::int64_t> forward_arrival, input_arrival;
        int forwards = 0, inputs = 0, weights = 0;
        double held = 0;
        std::int64_t busy_until = 0;
    };

    [[nodiscard]] std::int64_t forward_at(const Rank& rank) const {
        return rank.forwards < problem_.microbatches
                   ? rank.forward_arrival[static_cast<std::size_t>(rank.forwards)]
                   : kUnknown;
    }
    [[nodiscard]] std::int64_t input_at(const Rank& rank) const {
        return rank.inputs < rank.forwards ? rank.input_arrival[static_cast<std::size_t>(rank.inputs)]
                                           : kUnknown;
    }

    [[nodiscard]] std::optional<Opcode> choose(std::size_t r, std::int64_t now) const {
        const Rank& rank = ranks_[r];
        const RankCosts& costs = problem_.costs[r];
        const bool owes_weight = rank.weights < rank.inputs;
        const bool fits =
            rank.weights == rank.forwards || rank.held + costs.activation <= costs.limit * (1 + kSlack);
        const std::int64_t forward = forward_at(rank);
        const std::int64_t input = input_at(rank);
        const int window = policy_.depth == 0
                               ? problem_.microbatches
                               : policy_.depth * (problem_.ranks - static_cast<int>(r) - 1) + 1;
        const bool ahead = rank.forwards - rank.inputs >= window;
        const bool forward_ready = forward <= now && !ahead;
        const bool input_ready = input <= now;
        if (forward_ready && fits && input_ready && policy_.forward_first) return Opcode::Forward;
        if (input_ready) return Opcode::BackwardInput;
        if (forward_ready && fits) {
            const bool delays = input != kUnknown && input < now + costs.forward;
            if (!delays || policy_.forward_may_delay_backward) return Opcode::Forward;
        }
        if (!owes_weight) return std::nullopt;
        if (forward_ready && !fits) return Opcode::BackwardWeight;  // makes room
        const std::int64_t arrival = std::min(fits && !ahead ? forward : kUnknown, input);
        const bool gap_fits = arrival == kUnknown || std::max(arrival, now) >= now + costs.weight;
        if (gap_fits || policy_.fill_any_gap) return Opcode::BackwardWeight;
        return std::nullopt;
    }

    void start(std::size_t r, Opcode opcode, std::int64_t now) {
        Rank& rank = ranks_[r];
        const RankCosts& costs = problem_.costs[r];
        int& count = opcode == Opcode::Forward         ? rank.forwards
                     : opcode == Opcode::BackwardInput ? rank.inputs
                                                       : rank.weights;
        const int microbatch = count++;
        const auto b = static_cast<std::size_t>(microbatch);
        rank.busy_until = now + duration(costs, opcode);
        const std::int64_t arrival = rank.busy_until + problem_.transfer;
        if (opcode == Opcode::Forward) {
            rank.held += costs.activation;
            if (r + 1 < ranks_.size()) {
                ranks_[r + 1].forward_arrival[b] = arrival;
            } else {
                rank.input_arrival[b] = rank.busy_until;
            }
        } else if (opcode == Opcode::BackwardInput) {
            rank.held -= costs.activation - costs.kept_for_weight;
            if (r > 0) ranks_[r - 1].input_arrival[b] = arrival;
        } else {
            rank.held -= costs.kept_for_weight;
        }
        orders_[r].push_back(make_action(opcode, static_cast<int>(r), microbatch));
    }

    const Problem& problem_;
    Policy policy_;
    std::vector<Rank> ranks_;
    Orders orders_;
};

bool within_limits(const Problem& problem, const Orders& orders) {
    for (std::size_t r = 0; r < orders.size(); ++r) {
        const RankCosts& costs = problem.costs[r];
        double held = 0;
        for (const Action& action : orders[r]) {
            if (action.opcode == Opcode::Forward) held += costs.activation;
            if (action.opcode == Opcode::BackwardInput) held -= costs.activation - costs.kept_for_weight;
            if (action.opcode == Opcode::BackwardWeight) held -= costs.kept_for_weight;
            if (held > costs.limit * (1 + kSlack)) return false;
        }
    }
    return true;
}

// (longest stretch from a rank's first action to its last, end of the last): the first bounds the period
// where ranks go on by themselves (StepBoundary::RankLocal).
std::pair<std::int64_t, std::int64_t> score(const Problem& problem, const Orders& orders) {
    const std::size_t p = orders.size();
    const auto m = static_cast<std::size_t>(problem.microbatches);
    std::vector<std::int64_t> forward(p * m, kUnknown), input(p * m, kUnknown);  // when each is done
    std::vector<std::size_t> next(p, 0);
    std::vector<std::int64_t> begin(p, kUnknown), end(p, 0);
    bool moved = true;
    while (moved) {
        moved = false;
        for (std::size_t r = 0; r < p; ++r) {
            for (; next[r] < orders[r].size(); ++next[r], moved = true) {
                const Action& action = orders[r][next[r]];
                const std::size_t cell = r * m + static_cast<std::size_t>(action.microbatch);
                std::int64_t ready = 0;
                if (action.opcode == Opcode::Forward && r > 0) ready = forward[cell - m];
                if (action.opcode == Opcode::BackwardInput && r + 1 < p) ready = input[cell + m];
                if (ready == kUnknown) break;
                if (ready > 0) ready += problem.transfer;
                const std::int64_t start = std::max(end[r], ready);
                if (begin[r] == kUnknown) begin[r] = start;
                end[r] = start + duration(problem.costs[r], action.opcode);
                if (action.opcode == Opcode::Forward) forward[cell] = end[r];
                if (action.opcode == Opcode::BackwardInput) input[cell] = end[r];
            }
        }
    }
    std::int64_t stretch = 0;
    for (std::size_t r = 0; r < p; ++r)
        stretch = std::max(stretch, end[r] - begin[r]);
    return {stretch, *std::max_element(end.begin(), end.end())};
}

class ZeroBubbleAuto final : public ScheduleGenerator {
  public:
    // `activations_per_rank`: the limit in multiples of p activations of a rank; 0:
    // StageCosts::memory_limit_bytes.
    ZeroBubbleAuto(const char* name, const char* title, int activations_per_rank)
        : name_(name), title_(title), multiple_(activations_per_rank) {}

    [[nodiscard]] GeneratorInfo info() const override {
        GeneratorInfo info;
        info.name = name_;
        info.title = title_;
        info.source =
            "Qi et al. 2024, Zero Bubble Pipeline Parallelism (arXiv 2401.10241), section 3.1 (heuristic: "
            "fill the "
            "warm-up with forwards up to the memory limit, then one F and one B, W into gaps or to free "
            "memory)";
        info.boundary = StepBoundary::RankLocal;
        info.splits_backward = true;
        info.uses_costs = true;
        info.uses_memory_limit = multiple_ == 0;
        return info;
    }
    [[nodiscard]] Errors check(const ScheduleShape& shape) const override {
        return check_shape(shape, info());
    }

    // The best by score of all policies, and of H1 and H2 where they fit. At least one microbatch is always
    // in flight, also where the limit is below one activation.
    [[nodiscard]] ComputeOrder generate(const ScheduleShape& shape, const StageCosts* costs) const override {
        const Problem problem = problem_of(shape, costs);
        std::vector<Orders> candidates;
        for (const ScheduleGenerator* handcrafted : {&zb_h2_schedule(), &zb_h1_schedule()}) {
            Orders orders = handcrafted->generate(shape, nullptr).ranks;
            if (within_limits(problem, orders)) candidates.push_back(std::move(orders));
        }
        for (const int depth : {0, 1, 2}) {
            for (const int choice : {0, 1, 2, 3, 4, 5, 6, 7}) {
                const Policy policy{(choice & 4) != 0, (choice & 2) != 0, (choice & 1) != 0, depth};
                candidates.push_back(Greedy(problem, policy).run());
            }
        }
        std::size_t best = 0;
        auto best_score = score(problem, candidates[0]);
        for (std::size_t i = 1; i < candidates.size(); ++i) {
            const auto candidate = score(problem, candidates[i]);
            if (candidate < best_score) {
                best = i;
                best_score = candidate;
            }
        }
        ComputeOrder order = empty_order(shape, info());
        order.ranks = std::move(candidates[best]);
        return order;
    }

  private:
    [[nodiscard]] Problem problem_of(const ScheduleShape& shape, const StageCosts* costs) const {
        Problem problem;
        problem.ranks = shape.ranks;
        problem.microbatches = shape.microbatches;
        problem.costs.resize(static_cast<std::size_t>(shape.ranks));
        if (costs != nullptr) problem.transfer = costs->transfer;
        for (std::size_t r = 0; r < problem.costs.size(); ++r) {
            RankCosts& own = problem.costs[r];
            if (costs != nullptr && r < costs->forward.size())
                own.forward = std::max<SimTime>(1, costs->forward[r]);
            if (costs != nullptr && r < costs->backward_input.size()) {
                own.input = std::max<SimTime>(1, costs->backward_input[r]);
            }
            if (costs != nullptr && r < costs->backward_weight.size()) {
                own.weight = std::max<SimTime>(1, costs->backward_weight[r]);
            }
            if (costs != nullptr && r < costs->activation_bytes.size()) {
                own.activation = own.kept_for_weight = costs->activation_bytes[r];
            }
            if (costs != nullptr && r < costs->weight_grad_bytes.size()) {
                own.kept_for_weight = std::min(own.activation, costs->weight_grad_bytes[r]);
            }
            if (multiple_ > 0) {
                own.limit =
                    own.activation * static_cast<double>(multiple_) * static_cast<double>(shape.ranks);
            } else if (costs != nullptr && r < costs->memory_limit_bytes.size()) {
                own.limit = costs->memory_limit_bytes[r];
            }
        }
        return problem;
    }

    const char* name_;
    const char* title_;
    int multiple_;
};

}  // namespace

const ScheduleGenerator& zb_1p_schedule() {
    static const ZeroBubbleAuto generator("zb-1p", "Zero bubble, automatic, p activations", 1);
    return generator;
}

const ScheduleGenerator& zb_2p_schedule() {
    static const ZeroBubbleAuto generator("zb-2p", "Zero bubble, automatic, 2p activations", 2);
    return generator;
}

const ScheduleGenerator& zb_auto_schedule() {
    static const ZeroBubbleAuto generator("zb-auto", "Zero bubble, automatic, memory limits given", 0);
    return generator;
}

}  // namespace tw
