#include "plan/schedule/generators/generators.hpp"

namespace tw {
namespace {

// Breadth first: all microbatches through a rank's first stage, then its second, ...; backwards from its last
// stage to its first. Each stage's parameters are needed, and its gradients complete, once a step in one
// stretch.
class LoopedBfs final : public ScheduleGenerator {
  public:
    [[nodiscard]] GeneratorInfo info() const override {
        GeneratorInfo info;
        info.name = "looped-bfs";
        info.title = "Breadth-first pipeline";
        info.source = "Lamy-Poirier 2022, Breadth-First Pipeline Parallelism (arXiv 2211.05953), section 4";
        info.virtual_stages = true;
        return info;
    }
    [[nodiscard]] Errors check(const ScheduleShape& shape) const override {
        return check_shape(shape, info());
    }
    [[nodiscard]] ComputeOrder generate(const ScheduleShape& shape,
                                        const StageCosts* /*costs*/) const override {
        ComputeOrder order = empty_order(shape, info());
        const int p = shape.ranks;
        for (int rank = 0; rank < p; ++rank) {
            auto& actions = order.ranks[static_cast<std::size_t>(rank)];
            actions.reserve(2 * static_cast<std::size_t>(shape.microbatches) *
                            static_cast<std::size_t>(shape.virtual_stages));
            for (int chunk = 0; chunk < shape.virtual_stages; ++chunk) {
                for (int b = 0; b < shape.microbatches; ++b) {
                    actions.push_back(make_action(Opcode::Forward, chunk * p + rank, b));
                }
            }
            for (int chunk = shape.virtual_stages; chunk-- > 0;) {
                for (int b = 0; b < shape.microbatches; ++b) {
                    actions.push_back(make_action(Opcode::Backward, chunk * p + rank, b));
                }
            }
        }
        return order;
    }
};

}  // namespace

const ScheduleGenerator& looped_bfs_schedule() {
    static const LoopedBfs generator;
    return generator;
}

}  // namespace tw
