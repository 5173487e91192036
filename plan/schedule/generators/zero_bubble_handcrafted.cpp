#include "plan/schedule/generators/generators.hpp"

namespace tw {
namespace {

constexpr const char* kPaper = "Qi et al. 2024, Zero Bubble Pipeline Parallelism (arXiv 2401.10241), ";

// ZB-H1 keeps 1F1B's warm-up and delays the weight gradients of rank r by r microbatches: every rank then
// holds p microbatches. ZB-H2 runs enough forwards ahead to fill the time until the first gradient is back, 2
// (p - r) - 1, and delays weight gradients by 2 r: every rank holds 2 p - 1.
class ZeroBubbleHandcrafted final : public ScheduleGenerator {
  public:
    explicit ZeroBubbleHandcrafted(int depth) : depth_(depth) {}

    [[nodiscard]] GeneratorInfo info() const override {
        GeneratorInfo info;
        info.name = depth_ == 1 ? "zb-h1" : "zb-h2";
        info.title = depth_ == 1 ? "Zero bubble H1" : "Zero bubble H2";
        info.source = std::string(kPaper) +
                      (depth_ == 1 ? "section 2.1 and figure 3 top" : "section 2.2 and figure 3 bottom");
        info.boundary = StepBoundary::RankLocal;
        info.splits_backward = true;
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
            actions.reserve(3 * static_cast<std::size_t>(m));
            const int warm_up = std::min(m, depth_ * (shape.ranks - rank - 1));
            const int lag = depth_ * rank;
            for (int b = 0; b < warm_up; ++b)
                actions.push_back(make_action(Opcode::Forward, rank, b));
            for (int b = 0; b < m; ++b) {
                if (b + warm_up < m) actions.push_back(make_action(Opcode::Forward, rank, b + warm_up));
                actions.push_back(make_action(Opcode::BackwardInput, rank, b));
                if (b >= lag) actions.push_back(make_action(Opcode::BackwardWeight, rank, b - lag));
            }
            for (int b = std::max(0, m - lag); b < m; ++b) {
                actions.push_back(make_action(Opcode::BackwardWeight, rank, b));
            }
        }
        return order;
    }

  private:
    int depth_;  // 1: H1, 2: H2
};

}  // namespace

const ScheduleGenerator& zb_h1_schedule() {
    static const ZeroBubbleHandcrafted generator(1);
    return generator;
}

const ScheduleGenerator& zb_h2_schedule() {
    static const ZeroBubbleHandcrafted generator(2);
    return generator;
}

}  // namespace tw
