#include "sim/scenario/slow_network.hpp"

#include <algorithm>
#include <map>
#include <memory>

namespace tw {
namespace {

// The plan's costs on a network of a share of its rate.
class SlowCosts {
  public:
    SlowCosts(const Environment& environment, const ParallelPlan& plan, const Schedule& schedule, double rate)
        : environment_(slowed(environment, rate)),
          costs_(environment_, plan, schedule.rank_of_stage, shapes_) {}

    [[nodiscard]] const StageCostSet& stage(int s) const { return costs_.stage(s); }

  private:
    static Environment slowed(Environment environment, double rate) {
        for (NodeGroup& group : environment.cluster.groups)
            group.type.nic_bandwidth.value *= rate;
        for (HardwareProfile& profile : environment.profiles) {
            for (CollectiveEntry& entry : profile.collectives) {
                for (AlphaBeta& line : entry.curve.lines)
                    line.rate *= entry.nodes > 1 ? rate : 1;
            }
        }
        return environment;
    }

    Environment environment_;
    ShapeCostCache shapes_;
    PlanCost costs_;
};

SimTime longer(const PhaseCost& slow, const PhaseCost& healthy) {
    return std::max<SimTime>(0, slow.device_time() - healthy.device_time());
}

// Of one compute instruction.
SimTime longer(const DurationKey& key, const SlowCosts& slow, const PlanCost& healthy, int chunks) {
    const StageCostSet &a = slow.stage(key.stage), &b = healthy.stage(key.stage);
    const int parts = key.part > 0 ? chunks : 1;
    switch (key.opcode) {
        case Opcode::Forward:
            return longer(a.forward, b.forward);
        case Opcode::Backward:
            return longer(a.backward, b.backward) / parts;
        case Opcode::BackwardInput:
            return longer(a.backward_input, b.backward_input);
        case Opcode::BackwardWeight:
            return longer(a.backward_weight, b.backward_weight) / parts;
        case Opcode::OverlapForwardBackward:
            return longer(a.forward, b.forward) +
                   longer(slow.stage(key.stage2).backward, healthy.stage(key.stage2).backward);
        case Opcode::OptimizerStep:  // local SGD's average is behind it
            return sim_time(std::max(0.0, a.average.seconds - b.average.seconds));
        default:
            return 0;
    }
}

}  // namespace

void slow_stage_collectives(const Environment& environment, const ParallelPlan& plan, const PlanCost& costs,
                            const Schedule& schedule, const CompiledSchedule& compiled, const NicTable& nics,
                            const Expansion& expansion, CostTable& table) {
    const std::vector<int> chunks = backward_chunks(schedule);
    std::map<double, std::unique_ptr<const SlowCosts>> known;
    for (int r = 0; r < compiled.ranks; ++r) {
        double rate = 1;
        for (int k = 0; k < expansion.members(); ++k)
            rate = std::min(rate, nics.share_of(expansion.member_of(r, k)));
        if (rate >= 1) continue;
        auto& slow = known[rate];
        if (!slow) slow = std::make_unique<const SlowCosts>(environment, plan, schedule, rate);
        for (int k = 0; k < compiled.classes; ++k) {
            const DurationKey& key = schedule.duration_classes[static_cast<std::size_t>(k)];
            const SimTime extra = longer(key, *slow, costs, chunks[key.stage]);
            const std::uint32_t slot = compiled.slot_of(r, k);
            table.duration[slot] += extra;
            if (!table.host_path.empty()) table.host_path[slot] += extra;
        }
    }
}

}  // namespace tw
