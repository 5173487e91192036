#include "plan/schedule/generators/generators.hpp"

namespace tw {
namespace {

// PipeDream-flush: rank r runs p - r - 1 forwards, then one forward and one backward in turn, then drains.
class OneFOneB final : public ScheduleGenerator {
  public:
    [[nodiscard]] GeneratorInfo info() const override {
        GeneratorInfo info;
        info.name = "1f1b";
        info.title = "1F1B (PipeDream-flush)";
        info.source =
            "Narayanan et al. 2021, Memory-Efficient Pipeline-Parallel DNN Training (arXiv 2006.09503), "
            "section 3.2; "
            "Narayanan et al. 2021, Megatron-LM (arXiv 2104.04473), figure 4 top";
        return info;
    }
    [[nodiscard]] Errors check(const ScheduleShape& shape) const override {
        return check_shape(shape, info());
    }
    [[nodiscard]] ComputeOrder generate(const ScheduleShape& shape,
                                        const StageCosts* /*costs*/) const override {
        ComputeOrder order = empty_order(shape, info());
        const int m = shape.microbatches;
        for (int rank = 0; rank < shape.ranks; ++rank) {
            auto& actions = order.ranks[static_cast<std::size_t>(rank)];
            actions.reserve(2 * static_cast<std::size_t>(m));
            const int warm_up = one_f_one_b_warm_up(shape.ranks, rank, m);
            for (int b = 0; b < warm_up; ++b)
                actions.push_back(make_action(Opcode::Forward, rank, b));
            for (int b = 0; b < m; ++b) {
                if (b + warm_up < m) actions.push_back(make_action(Opcode::Forward, rank, b + warm_up));
                actions.push_back(make_action(Opcode::Backward, rank, b));
            }
        }
        return order;
    }
};

}  // namespace

const ScheduleGenerator& one_f_one_b_schedule() {
    static const OneFOneB generator;
    return generator;
}

}  // namespace tw
