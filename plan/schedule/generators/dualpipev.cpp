#include <deque>

#include <fmt/format.h>

#include "plan/schedule/generators/generators.hpp"

namespace tw {
namespace {

// One rank of DualPipeV. Leg 0 is stage r (on the way down), leg 1 is stage 2p - 1 - r (on the way back up).
class RankOrder {
  public:
    RankOrder(int ranks, int rank, std::vector<Action>& actions)
        : stage_{rank, 2 * ranks - 1 - rank}, actions_(&actions) {}

    void forward(int leg) {
        actions_->push_back(make_action(Opcode::Forward, stage_[leg], forwards_[leg]++));
    }
    void backward(int leg) {
        actions_->push_back(make_action(Opcode::Backward, stage_[leg], backwards_[leg]++));
    }
    void backward_input(int leg) {
        owed_.push_back(make_action(Opcode::BackwardWeight, stage_[leg], backwards_[leg]));
        actions_->push_back(make_action(Opcode::BackwardInput, stage_[leg], backwards_[leg]++));
    }
    void backward_weight() {  // the oldest that is owed
        actions_->push_back(owed_.front());
        owed_.pop_front();
    }
    void overlap(int forward_leg, int backward_leg) {
        Action action =
            make_action(Opcode::OverlapForwardBackward, stage_[forward_leg], forwards_[forward_leg]++);
        action.stage2 = static_cast<std::uint16_t>(stage_[backward_leg]);
        action.microbatch2 = backwards_[backward_leg]++;
        actions_->push_back(action);
    }

  private:
    int stage_[2];
    std::vector<Action>* actions_;
    std::deque<Action> owed_;
    int forwards_[2] = {0, 0}, backwards_[2] = {0, 0};
};

class DualPipeV final : public ScheduleGenerator {
  public:
    [[nodiscard]] GeneratorInfo info() const override {
        GeneratorInfo info;
        info.name = "dualpipev";
        info.title = "DualPipeV";
        info.source =
            "DeepSeek-AI 2024, DeepSeek-V3 Technical Report (arXiv 2412.19437), section 3.2.1 (DualPipe), "
            "cut in half to "
            "a V; steps 1 to 8 as in deepseek-ai/DualPipe, dualpipev.py";
        info.fixed_virtual_stages = 2;
        info.splits_backward = true;
        info.overlaps_passes = true;
        return info;
    }

    [[nodiscard]] Errors check(const ScheduleShape& shape) const override {
        Errors errors = check_shape(shape, info());
        if (errors.empty() && shape.microbatches < 2 * shape.ranks) {
            errors.push_back({ErrorCode::Unreadable,
                              fmt::format("dualpipev needs at least 2 * {} microbatches, not {}", shape.ranks,
                                          shape.microbatches),
                              "microbatches", fmt::format("microbatches {}", 2 * shape.ranks)});
        }
        return errors;
    }

    [[nodiscard]] ComputeOrder generate(const ScheduleShape& shape,
                                        const StageCosts* /*costs*/) const override {
        ComputeOrder order = empty_order(shape, info());
        place_in_a_v(order);
        for (int rank = 0; rank < shape.ranks; ++rank) {
            auto& actions = order.ranks[static_cast<std::size_t>(rank)];
            actions.reserve(6 * static_cast<std::size_t>(shape.microbatches));
            fill(shape.ranks, rank, shape.microbatches, actions);
        }
        return order;
    }

  private:
    static void fill(int p, int rank, int m, std::vector<Action>& actions) {
        RankOrder r(p, rank, actions);
        const int below = p - rank - 1;  // ranks between this one and the turn of the V
        for (int i = 0; i < 2 * below; ++i)
            r.forward(0);                     // step 1
        for (int i = 0; i < rank + 1; ++i) {  // step 2
            r.forward(0);
            r.forward(1);
        }
        for (int i = 0; i < below; ++i) {  // step 3
            r.backward_input(1);
            r.backward_weight();
            r.forward(1);
        }
        for (int i = 0; i < m - 2 * p + rank + 1; ++i) {  // step 4, the main one
            if (i == 0 && below == 0) {
                // At the turn the first backward needs the first forward's output: nothing to overlap yet.
                r.forward(0);
                r.backward(1);
            } else {
                r.overlap(0, 1);
            }
            r.overlap(1, 0);
        }
        for (int i = 0; i < below; ++i) {  // step 5
            r.backward(1);
            r.overlap(1, 0);
        }
        // Step 6: the second half leaves its weight gradients for the gaps of steps 7 and 8.
        const int last = rank + 1;
        bool split = false;
        const auto back = [&](int leg) { split ? r.backward_input(leg) : r.backward(leg); };
        for (int i = 0; i < last; ++i) {
            if (i == last / 2 && rank % 2 == 1) split = true;
            back(1);
            if (i == last / 2 && rank % 2 == 0) split = true;
            back(0);
        }
        for (int i = 0; i < below; ++i) {  // step 7
            r.backward_weight();
            r.backward_input(0);
        }
        for (int i = 0; i < last; ++i)
            r.backward_weight();  // step 8
    }
};

}  // namespace

const ScheduleGenerator& dualpipev_schedule() {
    static const DualPipeV generator;
    return generator;
}

}  // namespace tw
