#include "plan/schedule/generators/generators.hpp"

namespace tw {
namespace {

// One microbatch at a time goes forward and back through all stages: model parallelism without a pipeline.
class Naive final : public ScheduleGenerator {
  public:
    [[nodiscard]] GeneratorInfo info() const override {
        GeneratorInfo info;
        info.name = "naive";
        info.title = "Model parallelism without a pipeline";
        info.source = "Huang et al. 2019, GPipe (arXiv 1811.06965), figure 2b";
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
            for (int b = 0; b < shape.microbatches; ++b) {
                actions.push_back(make_action(Opcode::Forward, rank, b));
                actions.push_back(make_action(Opcode::Backward, rank, b));
            }
        }
        return order;
    }
};

}  // namespace

const ScheduleGenerator& naive_schedule() {
    static const Naive generator;
    return generator;
}

}  // namespace tw
