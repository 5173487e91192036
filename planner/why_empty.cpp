#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "plan/rules/keys.hpp"
#include "plan/schedule/generator.hpp"
#include "plan/stage_partition.hpp"
#include "planner/space.hpp"

namespace tw {
namespace {

constexpr std::size_t kMostTried = 4096;  // plans that --fix describes; each is checked in microseconds

std::string listed(const std::vector<int>& values) {
    return fmt::format("{}", fmt::join(values, ", "));
}

// Why the search has no plan like a legal one (SearchSpace's own rules).
std::string why_left_out(const ParallelPlan& plan, const PlanConstraints& fix) {
    if (plan.mesh.pp == 1 && plan.schedule != "1f1b" && plan.schedule != "gpipe") {
        return fmt::format(
            "schedule: pp 1 has no pipeline, where every order is that of 1f1b or gpipe: {} is searched with "
            "pp "
            "2 and more (hint: schedule=1f1b, or pp=2)",
            plan.schedule);
    }
    if (plan.mesh.etp != 1 && plan.mesh.etp != plan.mesh.tp) {
        return fmt::format(
            "etp: experts are searched whole and split as tp splits the rest: etp 1 or {} beside tp {}, not "
            "{}",
            plan.mesh.tp, plan.mesh.tp, plan.mesh.etp);
    }
    if (!fix.zero_shard.any())
        return "zero: the ranks of a shard divide the replicas, dp x cp, and the experts' too (zero=3/8), or "
               "are "
               "all of them (zero=3/all)";
    if (!fix.full_blocks.any()) {
        return "recompute: full:K is searched for K below the blocks of a stage, full:all for all of them; a "
               "framework may recompute all alone";
    }
    return {};
}

// The plans that constraints describe, one after the other; keys that are not fixed have one value.
class Described {
  public:
    Described(const PlanConstraints& fix, const ParallelPlan& base)
        : axes_{fix.tp.some(1),  fix.pp.some(1),  fix.cp.some(1),   fix.ep.some(1), fix.dp.some(0),
                fix.vpp.some(0), fix.mbs.some(1), fix.zero.some(0), fix.sp.some(0), fix.etp.some(1)},
          schedules_(fix.schedule.any() ? std::vector<std::string>{base.schedule} : fix.schedule.words) {}

    [[nodiscard]] std::size_t count() const {
        std::size_t product = schedules_.size();
        for (const auto& axis : axes_)
            product = std::min(kMostTried, product * axis.size());
        return product;
    }

    // The index's digits choose a value of each key.
    [[nodiscard]] ParallelPlan plan(std::size_t index, const ParallelPlan& base, int world,
                                    std::int64_t global_batch) const {
        std::array<int, 10> value{};
        for (std::size_t a = 0; a < axes_.size(); ++a) {
            value[a] = axes_[a][index % axes_[a].size()];
            index /= axes_[a].size();
        }
        ParallelPlan plan = base;
        const std::int64_t others = std::int64_t{value[0]} * value[1] * value[2];
        plan.mesh.tp = value[0];
        plan.mesh.pp = value[1];
        plan.mesh.cp = value[2];
        plan.mesh.ep = value[3];
        plan.mesh.dp = value[4] > 0 ? value[4] : static_cast<int>(std::max<std::int64_t>(1, world / others));
        plan.microbatch = value[6];
        plan.zero_stage = value[7];
        plan.sequence_parallel = value[8] != 0;
        plan.mesh.etp = value[9];
        plan.schedule = schedules_[index % schedules_.size()];
        plan.virtual_stages =
            value[5] > 0 ? value[5] : own_virtual_stages((*find_schedule(plan.schedule))->info());
        plan.microbatches = std::max<std::int64_t>(1, global_batch / (plan.microbatch * plan.mesh.dp));
        plan.global_batch = global_batch;
        return plan;
    }

  private:
    std::array<std::vector<int>, 10> axes_;
    std::vector<std::string> schedules_;
};

// The rules speak of plan documents, where --fix's vpp is called virtual_stages.
std::string with_fix_keys(std::string text) {
    constexpr std::string_view kDocument = "virtual_stages ";
    for (std::size_t at = text.find(kDocument); at != std::string::npos; at = text.find(kDocument, at))
        text.replace(at, kDocument.size(), "vpp ");
    return text;
}

std::vector<std::string> violations(const Environment& environment, ParallelPlan plan,
                                    TargetFramework target) {
    const LayerGraph& graph = environment.graph;
    const std::int64_t stages = std::int64_t{plan.mesh.pp} * plan.virtual_stages;
    if (stages > graph.size()) {
        return {fmt::format("pp {} x vpp {} are more stages than the model's {} layers", plan.mesh.pp,
                            plan.virtual_stages, graph.blocks)};
    }
    plan.stages = uniform_partition(graph, static_cast<int>(stages), RecomputeMode::None);
    assign_node_groups(environment.cluster, plan);
    std::vector<std::string> found;
    // Where the degrees do not divide the devices there is no dp for a batch to be divided by.
    const std::int64_t model = std::int64_t{plan.mesh.tp} * plan.mesh.pp * plan.mesh.cp;
    const bool has_dp = environment.cluster.devices() % model == 0;
    for (const Error& error : check_plan(graph, environment.cluster, plan, target).errors) {
        if (!has_dp && error.context == user_key(PlanKnob::GlobalBatch, target)) continue;
        found.push_back(with_fix_keys(to_string(error)));
    }
    return found;
}

}  // namespace

std::vector<std::string> SearchSpace::why_empty() const {
    if (too_long_ > 0) return {};  // find_plans says it
    const LayerGraph& graph = environment_.graph;
    const int world = environment_.cluster.devices();
    std::vector<std::string> reasons = {
        fmt::format("tensor parallel degrees that divide the model's {} heads: {}", graph.heads,
                    listed(legal_tp(graph, world, request_.target))),
        fmt::format("pipeline degrees must divide {} devices and not exceed {} layers", world, graph.blocks),
        fmt::format("--global-batch {} must be a multiple of dp = {} / (tp * pp * cp); its divisors: {}",
                    request_.global_batch, world, listed(divisors_of(request_.global_batch)))};
    if (to_string(request_.constraints).empty()) return reasons;
    ParallelPlan base = request_.base;
    base.seq_len = seq_len_;
    const Described described(request_.constraints, base);
    std::vector<std::string> fewest;
    std::string left_out;
    for (std::size_t i = 0; i < described.count(); ++i) {
        std::vector<std::string> found =
            violations(environment_, described.plan(i, base, world, request_.global_batch), request_.target);
        // A legal plan is one that the space leaves out.
        if (found.empty()) {
            if (left_out.empty())
                left_out =
                    why_left_out(described.plan(i, base, world, request_.global_batch), request_.constraints);
            continue;
        }
        if (fewest.empty() || found.size() < fewest.size()) fewest = std::move(found);
    }
    if (!left_out.empty()) {
        reasons = {left_out};
    } else if (!fewest.empty()) {
        reasons = std::move(fewest);
    }
    return reasons;
}

}  // namespace tw
