#include <algorithm>

#include "plan/schedule/generators/generators.hpp"
#include "plan/schedule/generators/zero_bubble_greedy.hpp"

namespace tw {
namespace {

std::vector<ZeroBubblePolicy> all_policies() {
    std::vector<ZeroBubblePolicy> policies;
    for (const int depth : {0, 1, 2}) {
        for (const int choice : {0, 1, 2, 3, 4, 5, 6, 7})
            policies.push_back({(choice & 4) != 0, (choice & 2) != 0, (choice & 1) != 0, depth});
    }
    return policies;
}

// Steps of more microbatches than this are alike in their middle: policies are compared on the first so many,
// and only the best few order all.
constexpr int kTrialMicrobatchesPerRank = 4, kTrialMicrobatchesPerDeepRank = 2, kDeep = 16;
constexpr std::size_t kFinalists = 3;
// Of such long steps an order that idles no more than this share of its work ends the search for a better
// one.
constexpr double kGoodEnough = 1e-3;

int trial_microbatches(const ZeroBubbleProblem& problem) {
    const int ranks = static_cast<int>(problem.ranks.size());
    return ranks * (ranks < kDeep ? kTrialMicrobatchesPerRank : kTrialMicrobatchesPerDeepRank);
}

bool is_long(const ZeroBubbleProblem& problem) {
    return problem.microbatches > trial_microbatches(problem);
}

bool good_enough(const ZeroBubbleProblem& problem, const ZeroBubbleScore& score) {
    std::int64_t work = 0;  // of the busiest rank: no stretch is shorter
    for (const ZeroBubbleRank& rank : problem.ranks)
        work = std::max(work, rank.step() * problem.microbatches);
    return static_cast<double>(score.stretch - work) <= kGoodEnough * static_cast<double>(work);
}

std::vector<ZeroBubblePolicy> finalists(ZeroBubbleProblem problem, std::vector<ZeroBubblePolicy> policies) {
    if (!is_long(problem)) return policies;
    problem.microbatches = trial_microbatches(problem);
    ZeroBubbleGreedy greedy(problem);
    std::vector<std::pair<ZeroBubbleScore, ZeroBubblePolicy>> best;  // ascending
    for (const ZeroBubblePolicy& policy : policies) {
        const ZeroBubbleScore worst = best.size() < kFinalists ? ZeroBubbleScore{} : best.back().first;
        if (!greedy.run(policy, worst)) continue;
        const auto at = std::upper_bound(
            best.begin(), best.end(), greedy.score(),
            [](const ZeroBubbleScore& score, const auto& entry) { return score < entry.first; });
        best.insert(at, {greedy.score(), policy});
        if (best.size() > kFinalists) best.pop_back();
        if (good_enough(problem, best.front().first)) break;
    }
    policies.clear();
    for (const auto& [score, policy] : best)
        policies.push_back(policy);
    return policies;
}

ZeroBubbleRows rows_of(const ComputeOrder& order) {
    ZeroBubbleRows rows;
    for (const std::vector<Action>& actions : order.ranks) {
        std::vector<Opcode>& row = rows.emplace_back();
        row.reserve(actions.size());
        for (const Action& action : actions)
            row.push_back(action.opcode);
    }
    return rows;
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
        const ZeroBubbleProblem problem = problem_of(shape, costs);
        ZeroBubbleRows best;
        ZeroBubbleScore best_score;
        for (const ScheduleGenerator* handcrafted : {&zb_h2_schedule(), &zb_h1_schedule()}) {
            ZeroBubbleRows rows = rows_of(handcrafted->generate(shape, nullptr));
            if (!within_limits(problem, rows)) continue;
            const ZeroBubbleScore score = score_of(problem, rows);
            if (!(score < best_score)) continue;
            best = std::move(rows);
            best_score = score;
        }
        const bool done = is_long(problem) && !best.empty() && good_enough(problem, best_score);
        ZeroBubbleGreedy greedy(problem);
        for (const ZeroBubblePolicy& policy :
             done ? std::vector<ZeroBubblePolicy>{} : finalists(problem, all_policies())) {
            if (!greedy.run(policy, best_score) || !(greedy.score() < best_score)) continue;
            std::swap(best, greedy.rows());
            best_score = greedy.score();
        }
        ComputeOrder order = empty_order(shape, info());
        for (std::size_t r = 0; r < best.size(); ++r) {
            std::vector<Action>& actions = order.ranks[r];
            actions.reserve(best[r].size());
            int forwards = 0, inputs = 0, weights = 0;
            for (const Opcode opcode : best[r]) {
                int& count = opcode == Opcode::Forward         ? forwards
                             : opcode == Opcode::BackwardInput ? inputs
                                                               : weights;
                actions.push_back(make_action(opcode, static_cast<int>(r), count++));
            }
        }
        return order;
    }

  private:
    [[nodiscard]] ZeroBubbleProblem problem_of(const ScheduleShape& shape, const StageCosts* costs) const {
        ZeroBubbleProblem problem;
        problem.microbatches = shape.microbatches;
        problem.ranks.resize(static_cast<std::size_t>(shape.ranks));
        if (costs != nullptr) problem.transfer = costs->transfer;
        for (std::size_t r = 0; r < problem.ranks.size(); ++r) {
            ZeroBubbleRank& own = problem.ranks[r];
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
