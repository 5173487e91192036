#include "plan/schedule/generators/generators.hpp"

namespace tw {
namespace {

// All forwards, then all backwards in the order of arrival.
class GPipe final : public ScheduleGenerator {
  public:
    [[nodiscard]] GeneratorInfo info() const override {
        GeneratorInfo info;
        info.name = "gpipe";
        info.title = "GPipe";
        info.source = "Huang et al. 2019, GPipe (arXiv 1811.06965), section 2.3 and figure 2c";
        return info;
    }
    [[nodiscard]] Errors check(const ScheduleShape& shape) const override {
        return check_shape(shape, info());
    }
    [[nodiscard]] ComputeOrder generate(const ScheduleShape& shape,
                                        const StageCosts* /*costs*/) const override {
        ComputeOrder order = empty_order(shape, info());
        for (int rank = 0; rank < shape.ranks; ++rank) {
            auto& actions = order.ranks[static_cast<std::size_t>(rank)];
            actions.reserve(2 * static_cast<std::size_t>(shape.microbatches));
            for (const Opcode opcode : {Opcode::Forward, Opcode::Backward}) {
                for (int b = 0; b < shape.microbatches; ++b)
                    actions.push_back(make_action(opcode, rank, b));
            }
        }
        return order;
    }
};

}  // namespace

const ScheduleGenerator& gpipe_schedule() {
    static const GPipe generator;
    return generator;
}

}  // namespace tw
