#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/nearest.hpp"
#include "plan/frameworks/framework.hpp"
#include "plan/rules/attention_kernel.hpp"
#include "plan/rules/keys.hpp"
#include "plan/rules/rule.hpp"
#include "plan/stage_partition.hpp"
#include "planner/request.hpp"
#include "planner/search.hpp"
#include "planner/why_nothing_fits.hpp"

namespace tw {
namespace {

// What finding out what would help may take, where the request has no limit of its own.
constexpr double kWhyLimit_s = 10;

// Why plans that are legal cannot be simulated, where none can.
std::vector<std::string> why_refused(const std::shared_ptr<const Environment>& environment,
                                     const SearchSpace& space) {
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
        if (!e) return {to_string(e.errors())};
    }
    return {};
}

// Why the model has not the modules that --fix names, or the framework runs none of the recomputations.
Errors refused_recomputation(const Environment& environment, const PlanRequest& request) {
    const PlanConstraints& fix = request.constraints;
    const auto check = [&](RecomputeMode mode, PlanRule rule) {
        ParallelPlan plan = request.base;
        plan.recompute = mode;
        if (mode == RecomputeMode::Modules)
            plan.recompute_modules = fix.modules.any() ? fix.modules : usual_modules(environment.graph);
        plan.stages = uniform_partition(environment.graph, 1, mode);
        PlanCheck found;
        rule({environment.graph, environment.cluster, plan, request.target}, found);
        return found.errors;
    };
    if (!fix.recompute.any() && fix.recompute.allows(RecomputeMode::Modules)) {
        Errors lacking = check(RecomputeMode::Modules, check_modules);
        if (!lacking.empty()) return lacking;
    }
    Errors refused;
    for (const RecomputeMode mode : fix.recompute.words) {
        Errors errors = check(mode, check_framework);
        std::erase_if(errors, [&](const Error& error) {
            return error.context != user_key(PlanKnob::Recompute, request.target);
        });
        if (errors.empty()) return {};
        refused.insert(refused.end(), errors.begin(), errors.end());
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

TargetFramework framework_of(const ParallelPlan& plan) {
    struct Family {
        std::string_view prefix;
        TargetFramework target;
    };
    static constexpr std::array kFamilies = {Family{"megatron-deepspeed", TargetFramework::DeepSpeed},
                                             Family{"bigscience", TargetFramework::DeepSpeed},
                                             Family{"deepspeed", TargetFramework::DeepSpeed},
                                             Family{"megatron", TargetFramework::Megatron},
                                             Family{"nemo", TargetFramework::Megatron},
                                             Family{"torchtitan", TargetFramework::Torchtitan},
                                             Family{"transformers", TargetFramework::Accelerate}};
    for (const Family& family : kFamilies) {
        if (plan.framework.starts_with(family.prefix)) return family.target;
    }
    return TargetFramework::Trainwright;
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
    base.attention = std::min(base.attention, fastest_attention(cluster, base.precision.compute, row));
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
    ParallelPlan sized = request.base;
    sized.seq_len = request.seq_len > 0 ? request.seq_len : environment->graph.default_seq_len;
    PlanCheck length;
    check_sequence_length({environment->graph, environment->cluster, sized, TargetFramework::Trainwright},
                          length);
    for (const Error& error : length.errors)
        errors.push_back({ErrorCode::Usage, error.message, "--seq-len", error.hint});
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
        const double limit_s = request.time_limit_s > 0
                                   ? std::min(kWhyLimit_s, request.time_limit_s - answer.search.wall_s)
                                   : kWhyLimit_s;
        if (limit_s > 0) answer.missing = why_nothing_fits(environment, request, limit_s);
        if (answer.missing.empty()) answer.missing = why_refused(environment, space);
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
