#include <initializer_list>

#include "plan/rules/rule.hpp"

namespace tw {
namespace {

constexpr std::int64_t kMaxDegree = kMaxClusterDevices;

// Above kMaxDegree where the product is; exact below it. Degrees are in [1, kMaxDegree].
std::int64_t product_of(std::initializer_list<int> degrees) {
    std::int64_t product = 1;
    for (const int degree : degrees) {
        product *= degree;
        if (product > kMaxDegree) break;
    }
    return product;
}

}  // namespace

void check_ranges(const RuleContext& context, PlanCheck& check) {
    const ParallelPlan& plan = context.plan;
    const auto within = [&](PlanKnob knob, std::int64_t value, std::int64_t low, std::int64_t high) {
        if (value >= low && value <= high) return;
        refuse(
            context, check, knob,
            std::to_string(value) + " is outside [" + std::to_string(low) + ", " + std::to_string(high) + "]",
            "use " + std::to_string(value < low ? low : high));
    };
    within(PlanKnob::Dp, plan.mesh.dp, 1, kMaxDegree);
    within(PlanKnob::Tp, plan.mesh.tp, 1, kMaxDegree);
    within(PlanKnob::Pp, plan.mesh.pp, 1, kMaxDegree);
    within(PlanKnob::Cp, plan.mesh.cp, 1, kMaxDegree);
    within(PlanKnob::Ep, plan.mesh.ep, 1, kMaxDegree);
    within(PlanKnob::Etp, plan.mesh.etp, 1, kMaxDegree);
    const DeviceMesh& mesh = plan.mesh;
    if (check.errors.empty()) {
        const auto together = [&](PlanKnob knob, const char* names, std::int64_t product) {
            if (product <= kMaxDegree) return;
            refuse(context, check, knob,
                   std::string(names) + " are more than the " + std::to_string(kMaxDegree) +
                       " devices that a cluster may have",
                   "smaller degrees");
        };
        together(PlanKnob::Dp, "dp * tp * pp * cp", product_of({mesh.dp, mesh.tp, mesh.pp, mesh.cp}));
        together(PlanKnob::Ep, "ep * etp * pp", product_of({mesh.ep, mesh.etp, mesh.pp}));
    }
    within(PlanKnob::Vpp, plan.virtual_stages, 1, kMaxDegree);
    within(PlanKnob::Mbs, plan.microbatch, 1, kMostOfAPlan);
    within(PlanKnob::Microbatches, plan.microbatches, 1, kMostOfAPlan);
    within(PlanKnob::GlobalBatch, plan.global_batch, 1, kMostOfAPlan * kMostOfAPlan);
    within(PlanKnob::SeqLen, plan.seq_len, 1, kLongestSequence);
    within(PlanKnob::VocabDivisor, plan.vocab_divisor, 1, kMostOfAPlan);
    within(PlanKnob::MicrobatchGroup, plan.microbatch_group, 0, kMostOfAPlan);
    within(PlanKnob::Zero, plan.zero_stage, 0, 3);
    within(PlanKnob::ZeroShard, plan.zero_shard, 0, kMaxDegree);
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
        const StageSpec& stage = plan.stages[s];
        const int groups = static_cast<int>(context.cluster.groups.size());
        if (stage.replicas < 1 || stage.replicas > kMaxDegree) {
            refuse(context, check, PlanKnob::Stages,
                   "stage " + std::to_string(s) + " has " + std::to_string(stage.replicas) + " replicas",
                   "use at least 1");
        }
        if (stage.node_group < 0 || stage.node_group >= groups) {
            refuse(context, check, PlanKnob::Stages,
                   "stage " + std::to_string(s) + " is placed on node group " +
                       std::to_string(stage.node_group) + ", the cluster has " + std::to_string(groups),
                   "use 0 to " + std::to_string(groups - 1));
        }
    }
    const auto fraction = [&](PlanKnob knob, double value, double low, double high) {
        if (value >= low && value <= high) return;
        refuse(context, check, knob, std::to_string(value) + " is outside [0, 1]",
               "use a share between 0 and 1");
    };
    fraction(PlanKnob::OffloadOptimizer, plan.offload_optimizer, 0.0, 1.0);
    if (!(plan.expert_imbalance >= 1.0)) {
        refuse(context, check, PlanKnob::ExpertImbalance,
               "expert_imbalance " + std::to_string(plan.expert_imbalance) +
                   " is below 1: the most loaded rank has at "
                   "least the mean",
               "use 1");
    }
}

}  // namespace tw
