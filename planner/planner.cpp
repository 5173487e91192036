#include <array>

#include <fmt/format.h>

#include "base/nearest.hpp"
#include "base/si_format.hpp"
#include "plan/frameworks/framework.hpp"
#include "plan/rules/keys.hpp"
#include "plan/rules/rule.hpp"
#include "plan/stage_partition.hpp"
#include "planner/request.hpp"
#include "planner/search.hpp"

namespace tw {
namespace {

// What the cheapest plan in memory would need: the sentence a user can act on.
std::vector<std::string> why_nothing_fits(const std::shared_ptr<const Environment>& environment,
                                          const SearchSpace& space) {
    std::vector<std::string> missing;
    std::string refused;  // the first reason other than memory
    double least = 0;
    const Simulator simulator(environment);
    for (const MeshChoice& mesh : space.meshes()) {
        const auto chunks = space.chunks(mesh);
        const auto zeros = space.zeros(mesh);
        if (chunks.empty() || zeros.empty()) continue;
        const auto schedules = space.schedules(mesh, chunks.back().virtual_stages);
        if (schedules.empty()) continue;
        const auto e =
            simulator.evaluate(space.make_plan(mesh, chunks.back(), *schedules.front(), zeros.back()),
                               /*only_if_it_fits=*/true);
        if (e && (least == 0 || e->peak_device_bytes < least)) least = e->peak_device_bytes;
        if (!e && refused.empty()) refused = to_string(e.errors());
    }
    if (!refused.empty()) missing.push_back(refused);
    if (least > 0) {
        missing.push_back(fmt::format(
            "memory: the smallest plan needs {} a device, there are {}{}", format_bytes(least),
            format_bytes(environment->usable_memory()),
            environment->memory_headroom > 0
                ? fmt::format(" beside the {:.1f} % to be left free", 100 * environment->memory_headroom)
                : ""));
        missing.emplace_back(
            "more devices, a higher ZeRO stage, more recomputation or a smaller microbatch would need less");
    }
    return missing;
}

// Why the framework runs none of the recomputations that --fix names.
Errors refused_recomputation(const Environment& environment, const PlanRequest& request) {
    Errors refused;
    for (const RecomputeMode mode : request.constraints.recompute.words) {
        ParallelPlan plan = request.base;
        plan.recompute = mode;
        plan.stages = uniform_partition(environment.graph, 1, mode);
        PlanCheck check;
        check_framework({environment.graph, environment.cluster, plan, request.target}, check);
        std::erase_if(check.errors, [&](const Error& error) {
            return error.context != user_key(PlanKnob::Recompute, request.target);
        });
        if (check.errors.empty()) return {};
        refused.insert(refused.end(), check.errors.begin(), check.errors.end());
    }
    return refused;
}

}  // namespace

Result<Objective> parse_objective(std::string_view name) {
    static const std::vector<std::string> names = {"time", "memory", "money", "pareto"};
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (names[i] == name) return static_cast<Objective>(i);
    }
    return Error{ErrorCode::Usage, "unknown objective '" + std::string(name) + "'", "--objective",
                 unknown_name_hint(name, names)};
}

void plan_for(TargetFramework target, const Cluster& cluster, ParallelPlan& base) {
    // Rows of plan/frameworks; nanotron has none of its own.
    static constexpr std::array<std::string_view, 6> kRows = {"",          "megatron", "torchtitan",
                                                              "deepspeed", "",         "transformers"};
    const std::string_view row = kRows[static_cast<std::size_t>(target)];
    if (target == TargetFramework::DeepSpeed) base.cp_kind = WorkShape::Cp::AllToAll;
    if (row.empty()) return;
    const std::string& architecture = cluster.groups.front().device.architecture;
    const AttentionKernel fastest = base.attention;  // that the devices run
    apply_framework(framework_defaults(row), architecture == "hopper" || architecture == "blackwell", base);
    // torchtitan asks for cuDNN's kernel first (torchtitan/models/attention.py); its measured runs of 2024,
    // which its row describes, had FlashAttention-2.
    base.attention = target == TargetFramework::Torchtitan ? fastest : std::min(base.attention, fastest);
    base.overlap.grad_reduce = base.overlap.param_gather = true;
}

Result<PlanAnswer> find_plans(std::shared_ptr<const Environment> environment, const PlanRequest& request) {
    Errors errors;
    if (request.global_batch < 1) {
        errors.push_back({ErrorCode::Usage, fmt::format("{} sequences; at least 1", request.global_batch),
                          "--global-batch", ""});
    }
    if (request.top < 1)
        errors.push_back({ErrorCode::Usage, fmt::format("{} plans; at least 1", request.top), "--top", ""});
    PlanCheck hardware;  // one precision for all plans: what has no arithmetic for it has no plan
    check_hardware({environment->graph, environment->cluster, request.base, TargetFramework::Trainwright},
                   hardware);
    for (const Error& error : hardware.errors)
        errors.push_back({ErrorCode::Usage, error.message, "--precision", error.hint});
    PlanCheck framework;  // what no plan of this request can change
    check_framework({environment->graph, environment->cluster, request.base, request.target}, framework);
    for (const Error& error : framework.errors)
        errors.push_back({ErrorCode::Usage, error.message, error.context, error.hint});
    for (const Error& error : refused_recomputation(*environment, request))
        errors.push_back({ErrorCode::Usage, error.message, "--fix", error.hint});
    if (!errors.empty()) return errors;

    const SearchSpace space(*environment, request);
    PlanAnswer answer;
    const Simulator simulator(environment);
    if (!space.meshes().empty()) answer = best_first_search(simulator, space, request);
    answer.search.too_long = space.too_long();
    if (answer.search.configurations == 0) {
        answer.missing = space.why_empty();
    } else if (answer.plans.empty() && !answer.search.interrupted) {
        answer.missing = why_nothing_fits(environment, space);
    }
    if (answer.plans.empty() && space.too_long() > 0) {
        answer.missing.push_back(fmt::format(
            "length: {} choices of mesh and microbatch were not searched, whose microbatches x pipeline "
            "ranks "
            "are more than {}; a smaller --global-batch than {} or larger microbatches (--fix mbs=...) have "
            "fewer",
            space.too_long(), kMaxSearchedComputes, request.global_batch));
    }
    return answer;
}

}  // namespace tw
