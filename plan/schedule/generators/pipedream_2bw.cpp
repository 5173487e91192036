#include <fmt/format.h>

#include "plan/schedule/generators/generators.hpp"

namespace tw {
namespace {

// 1F1B without a flush, an update every m microbatches, two weight versions: batch t goes both ways through
// the weights of update t - 1 (W(t+1) = W(t) - lr * grad f(W(t-1))).
class PipeDream2bw final : public ScheduleGenerator {
  public:
    [[nodiscard]] GeneratorInfo info() const override {
        GeneratorInfo info;
        info.name = "pipedream-2bw";
        info.title = "PipeDream-2BW (double-buffered weights)";
        info.source =
            "Narayanan et al. 2021, Memory-Efficient Pipeline-Parallel DNN Training (arXiv 2006.09503), "
            "section 3.1";
        info.semantics = Semantics::BoundedStaleness;
        info.boundary = StepBoundary::None;
        return info;
    }

    [[nodiscard]] Errors check(const ScheduleShape& shape) const override {
        Errors errors = check_shape(shape, info());
        if (errors.empty() && shape.microbatches < shape.ranks) {
            errors.push_back(
                {ErrorCode::Unreadable,
                 fmt::format(
                     "two weight versions need at least as many microbatches as pipeline ranks: {} < {}",
                     shape.microbatches, shape.ranks),
                 "microbatches", fmt::format("microbatches {}", shape.ranks)});
        }
        return errors;
    }

    [[nodiscard]] ComputeOrder generate(const ScheduleShape& shape,
                                        const StageCosts* /*costs*/) const override {
        ComputeOrder order = empty_order(shape, info());
        order.steps = shape.steps > 0 ? shape.steps : steps_for_a_period(shape.microbatches, shape.ranks);
        order.backwards_per_update = shape.microbatches;
        order.weight_versions = 2;
        order.versions_of_rank.assign(order.ranks.size(), 2);
        const int total = order.total_microbatches();
        for (int rank = 0; rank < shape.ranks; ++rank) {
            auto& actions = order.ranks[static_cast<std::size_t>(rank)];
            actions.reserve(2 * static_cast<std::size_t>(total));
            const auto push = [&](Opcode opcode, int b) {
                Action action = make_action(opcode, rank, b);
                action.weight_version =
                    static_cast<std::uint16_t>(std::max(0, b / shape.microbatches - 1) % 2);
                actions.push_back(action);
            };
            const int warm_up = one_f_one_b_warm_up(shape.ranks, rank, total);
            for (int b = 0; b < warm_up; ++b)
                push(Opcode::Forward, b);
            for (int b = 0; b < total; ++b) {
                if (b + warm_up < total) push(Opcode::Forward, b + warm_up);
                push(Opcode::Backward, b);
            }
        }
        return order;
    }
};

}  // namespace

const ScheduleGenerator& pipedream_2bw_schedule() {
    static const PipeDream2bw generator;
    return generator;
}

}  // namespace tw
