#include "plan/schedule/generators/generators.hpp"

namespace tw {
namespace {

// A rank of the V: stage `down` on the way to the last rank, `up` on the way back.
class RankOrder {
  public:
    RankOrder(int ranks, int rank, int microbatches, std::vector<Action>& actions)
        : stage_{rank, 2 * ranks - 1 - rank}, microbatches_(microbatches), actions_(&actions) {}

    enum Leg { Down = 0, Up = 1 };
    void forward(Leg leg) { push(Opcode::Forward, leg, forwards_[leg]++); }
    void backward_input(Leg leg) { push(Opcode::BackwardInput, leg, inputs_[leg]++); }
    void backward_weight(Leg leg) { push(Opcode::BackwardWeight, leg, weights_[leg]++); }
    [[nodiscard]] int forwards(Leg leg) const { return forwards_[leg]; }
    [[nodiscard]] bool owes_weight(Leg leg) const { return weights_[leg] < inputs_[leg]; }

  private:
    // The pattern needs 2p - 1 microbatches; where there are fewer, those that do not exist are left out of
    // it.
    void push(Opcode opcode, Leg leg, int microbatch) {
        if (microbatch < microbatches_) actions_->push_back(make_action(opcode, stage_[leg], microbatch));
    }

    int stage_[2];
    int microbatches_;
    std::vector<Action>* actions_;
    int forwards_[2] = {0, 0}, inputs_[2] = {0, 0}, weights_[2] = {0, 0};
};

// Zero bubble in a V: rank r owns stages r and 2p - 1 - r, so the loss is on rank 0 and every rank holds at
// most p microbatches (2p halves).
class ZeroBubbleV final : public ScheduleGenerator {
  public:
    [[nodiscard]] GeneratorInfo info() const override {
        GeneratorInfo info;
        info.name = "zb-v";
        info.title = "Zero bubble V";
        info.source =
            "Qi et al. 2024, Pipeline Parallelism with Controllable Memory (arXiv 2405.15362), section 3 "
            "(V-ZB); Qi et "
            "al. 2024, Zero Bubble Pipeline Parallelism (arXiv 2401.10241), section 6; phases as in "
            "torch.distributed.pipelining ScheduleZBVZeroBubble";
        info.boundary = StepBoundary::RankLocal;
        info.fixed_virtual_stages = 2;
        info.splits_backward = true;
        return info;
    }
    [[nodiscard]] Errors check(const ScheduleShape& shape) const override {
        return check_shape(shape, info());
    }
    [[nodiscard]] ComputeOrder generate(const ScheduleShape& shape,
                                        const StageCosts* /*costs*/) const override {
        ComputeOrder order = empty_order(shape, info());
        place_in_a_v(order);
        const int p = shape.ranks;
        const int pattern = std::max(shape.microbatches, 2 * p - 1);
        for (int rank = 0; rank < p; ++rank) {
            auto& actions = order.ranks[static_cast<std::size_t>(rank)];
            actions.reserve(6 * static_cast<std::size_t>(shape.microbatches));
            RankOrder r(p, rank, shape.microbatches, actions);
            // Warm-up: fill the way down, then both ways, then start to go back.
            for (int i = 0; i < 2 * (p - rank) - 1; ++i)
                r.forward(RankOrder::Down);
            for (int i = 0; i < rank; ++i) {
                r.forward(RankOrder::Up);
                r.forward(RankOrder::Down);
            }
            for (int i = 0; i < p - rank; ++i) {
                r.forward(RankOrder::Up);
                r.backward_input(RankOrder::Up);
                r.backward_weight(RankOrder::Up);
            }
            while (r.forwards(RankOrder::Up) < r.forwards(RankOrder::Down) ||
                   r.forwards(RankOrder::Down) < pattern) {
                if (r.forwards(RankOrder::Down) < pattern) r.forward(RankOrder::Down);
                r.backward_input(RankOrder::Down);
                r.backward_weight(RankOrder::Down);
                r.forward(RankOrder::Up);
                r.backward_input(RankOrder::Up);
                r.backward_weight(RankOrder::Up);
            }
            // Cool-down: input gradients first, which other ranks wait for; weights fill what is left.
            for (int i = 0; i < rank; ++i) {
                r.backward_input(RankOrder::Down);
                r.backward_input(RankOrder::Up);
            }
            for (int i = 0; i < p - rank; ++i) {
                r.backward_input(RankOrder::Down);
                r.backward_weight(RankOrder::Down);
            }
            while (r.owes_weight(RankOrder::Up))
                r.backward_weight(RankOrder::Up);
            while (r.owes_weight(RankOrder::Down))
                r.backward_weight(RankOrder::Down);
        }
        return order;
    }
};

}  // namespace

const ScheduleGenerator& zb_v_schedule() {
    static const ZeroBubbleV generator;
    return generator;
}

}  // namespace tw
