#include <string>

#include "plan/rules/rule.hpp"

namespace tw {
namespace {

std::string nearest_multiples(std::int64_t value, std::int64_t divisor) {
    const std::int64_t below = value / divisor * divisor;
    return "seq_len " + (below > 0 ? std::to_string(below) + " or " : std::string()) +
           std::to_string(below + divisor);
}

// Degrees of context parallelism that divide the devices and the sequence.
std::string nearest_cp(const RuleContext& context, bool ring) {
    std::vector<std::int64_t> legal;
    for (const std::int64_t cp : divisors(context.cluster.devices())) {
        if (context.plan.seq_len % (ring && cp > 1 ? 2 * cp : cp) == 0) legal.push_back(cp);
    }
    return ", or " + nearest_legal("cp", legal, context.plan.mesh.cp);
}

// Heads of keys and values on a tensor-parallel rank, replicated where there are fewer of them than ranks.
// Transformer Engine (dot_product_attention/context_parallel.py, AttnFuncWithCPAndQKVOA2A) asserts that both
// kinds of heads divide by cp; elsewhere all-to-all hands copies of a head to several ranks
// (DeepSpeed, runtime/sequence_parallel/ulysses_sp.py).
void check_kv_heads(const RuleContext& context, PlanCheck& check) {
    const std::int64_t kv = context.graph.kv_heads, tp = context.plan.mesh.tp, cp = context.plan.mesh.cp;
    if (kv <= 0 || kv == context.graph.heads || (kv % tp != 0 && tp % kv != 0)) return;
    const std::int64_t local = kv % tp == 0 ? kv / tp : 1;
    const bool copies = context.target != TargetFramework::Megatron;
    if (local % cp == 0 || (copies && cp % local == 0)) return;
    std::vector<std::int64_t> legal;
    for (const std::int64_t degree : divisors(context.cluster.devices())) {
        const bool keys = local % degree == 0 || (copies && degree % local == 0);
        if (keys && context.graph.heads % (tp * degree) == 0) legal.push_back(degree);
    }
    refuse(context, check, PlanKnob::Cp,
           "the " + std::to_string(local) + " key and value heads of a rank (of " + std::to_string(kv) +
               ", tp " + std::to_string(tp) + ") do not divide by cp " + std::to_string(cp) + " (all-to-all)",
           (legal.empty() ? std::string() : nearest_legal("cp", legal, cp) + ", or ") + "cp_kind ring");
}

void check_context_parallel(const RuleContext& context, PlanCheck& check) {
    const ParallelPlan& plan = context.plan;
    const std::int64_t cp = plan.mesh.cp;
    if (!context.graph.counts_tokens || !context.graph.measured_on.empty()) {
        refuse(context, check, PlanKnob::Cp,
               "the model has no sequence that cp " + std::to_string(cp) + " could split", "cp 1");
        return;
    }
    const bool ring = plan.cp_kind == WorkShape::Cp::Ring;
    // A causal ring gives each rank one chunk from the front and one from the back (Megatron-LM: seq % (2 *
    // cp) == 0).
    const std::int64_t chunks = ring ? 2 * cp : cp;
    if (plan.seq_len % chunks != 0) {
        refuse(context, check, PlanKnob::SeqLen,
               "seq_len " + std::to_string(plan.seq_len) + " is not a multiple of " +
                   (ring ? "2 * cp = " : "cp = ") + std::to_string(chunks),
               nearest_multiples(plan.seq_len, chunks) + nearest_cp(context, ring));
    }
    if (!ring) {
        // Ulysses (Jacobs 2023): the all-to-all hands each rank whole heads.
        const std::int64_t split = plan.mesh.tp * cp;
        if (context.graph.heads > 0 && context.graph.heads % split != 0) {
            std::vector<std::int64_t> legal;
            if (context.graph.heads % plan.mesh.tp == 0) legal = divisors(context.graph.heads / plan.mesh.tp);
            refuse(context, check, PlanKnob::Cp,
                   std::to_string(context.graph.heads) +
                       " heads are not a multiple of tp * cp = " + std::to_string(split) + " (all-to-all)",
                   legal.empty() ? "cp_kind ring" : nearest_legal("cp", legal, cp) + ", or cp_kind ring");
        }
        check_kv_heads(context, check);
    } else if (context.target == TargetFramework::DeepSpeed) {
        refuse(context, check, PlanKnob::CpKind,
               "DeepSpeed splits sequences by all-to-all (Ulysses), not in a ring", "cp_kind all-to-all");
    }
}

}  // namespace

void check_sequence_split(const RuleContext& context, PlanCheck& check) {
    const ParallelPlan& plan = context.plan;
    if (plan.mesh.cp > 1) check_context_parallel(context, check);
    // DeepSpeed has no other kind.
    const bool only_kind =
        context.target == TargetFramework::DeepSpeed || plan.framework.find("deepspeed") != std::string::npos;
    if (plan.mesh.cp == 1 && plan.cp_kind == WorkShape::Cp::AllToAll && !only_kind) {
        refuse(context, check, PlanKnob::CpKind, "cp_kind all-to-all, but cp is 1: no sequence is split",
               "cp 2 and more, or cp_kind ring");
    }
    if (!plan.sequence_parallel) return;
    if (plan.mesh.tp == 1) {
        refuse(context, check, PlanKnob::Sp, "sequence parallelism splits over tp, and tp is 1",
               "sp off, or tp 2 and more");
        return;
    }
    const std::int64_t split = static_cast<std::int64_t>(plan.mesh.tp) * plan.mesh.cp;
    if (plan.seq_len % split != 0) {
        refuse(context, check, PlanKnob::SeqLen,
               "seq_len " + std::to_string(plan.seq_len) +
                   " is not a multiple of tp * cp = " + std::to_string(split) + " (sequence parallel)",
               nearest_multiples(plan.seq_len, split) + ", or sp off");
    }
}

}  // namespace tw
