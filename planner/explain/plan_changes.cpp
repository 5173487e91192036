#include "planner/explain/plan_changes.hpp"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "plan/frameworks/framework.hpp"
#include "plan/plan_order.hpp"
#include "plan/schedule/generator.hpp"
#include "plan/stage_partition.hpp"
#include "planner/space.hpp"

namespace tw {
namespace {

bool same_recompute(const std::vector<StageSpec>& stages) {
    return std::all_of(stages.begin(), stages.end(), [&](const StageSpec& stage) {
        return stage.recompute == stages.front().recompute &&
               stage.recompute_layers == stages.front().recompute_layers;
    });
}

std::string recompute_text(const ParallelPlan& plan) {
    if (!same_recompute(plan.stages)) return "mixed";
    const StageSpec& first = plan.stages.front();
    return recompute_text(first.recompute, first.recompute_layers, plan.recompute_modules);
}

// Of `blocks` blocks as large a share as `recomputed` are of `before`, rounded up; -1: all.
int same_share(int recomputed, int before, int blocks) {
    if (recomputed < 0 || before == 0) return recomputed;
    const int share = (recomputed * blocks + before - 1) / before;
    return share >= blocks ? -1 : share;
}

// Gives stages of another number what those that held their layers recomputed.
void carry_recompute(const LayerGraph& graph, const std::vector<StageSpec>& from,
                     std::vector<StageSpec>& to) {
    const std::vector<int> before = blocks_per_stage(graph, from), after = blocks_per_stage(graph, to);
    if (same_recompute(from)) {  // and stays the same in every stage, as most frameworks want it
        const int layers =
            same_share(from.front().recompute_layers, *std::max_element(before.begin(), before.end()),
                       *std::max_element(after.begin(), after.end()));
        for (StageSpec& stage : to) {
            stage.recompute = from.front().recompute;
            stage.recompute_layers = layers;
        }
        return;
    }
    for (std::size_t s = 0; s < to.size(); ++s) {
        const int middle = (to[s].first_layer + to[s].last_layer) / 2;
        std::size_t of = 0;
        while (of + 1 < from.size() && from[of].last_layer <= middle)
            ++of;
        to[s].recompute = from[of].recompute;
        to[s].recompute_layers = same_share(from[of].recompute_layers, before[of], after[s]);
    }
}

class ChangeList {
  public:
    ChangeList(const Simulator& simulator, const ParallelPlan& plan, TargetFramework target)
        : simulator_(simulator), environment_(simulator.environment()), plan_(plan), target_(target) {
        plan_.order.clear();
        errors_ = errors_of(plan_);
    }

    // Keeps the change where it is a plan that differs and is legal, or breaks no rule that the plan itself
    // keeps. What else had to change with it is said.
    void add(std::string what, ParallelPlan changed) {
        changed.order.clear();  // of another shape
        const bool split = changed.mesh.pp * changed.virtual_stages != plan_.stage_count();
        if (!settle(changed) || changed == plan_) return;
        for (const std::string& error : errors_of(changed)) {
            if (std::find(errors_.begin(), errors_.end(), error) == errors_.end()) return;
        }
        if (split) {
            const std::string before = recompute_text(plan_), after = recompute_text(changed);
            if (before != after) what += fmt::format(", recompute {} -> {}", before, after);
            if (before == "mixed") what += ", recompute by share of each stage";
        }
        changes_.push_back({std::move(what), std::move(changed)});
    }

    void microbatch() {
        for (const std::int64_t mbs : {plan_.microbatch * 2, plan_.microbatch / 2}) {
            if (mbs < 1) continue;
            ParallelPlan changed = plan_;
            changed.microbatch = mbs;
            add(fmt::format("mbs {} -> {}", plan_.microbatch, mbs), std::move(changed));
        }
    }

    void mesh() {
        struct Axis {
            const char* name;
            int DeviceMesh::*degree;
        };
        constexpr std::array kAxes = {Axis{"tp", &DeviceMesh::tp}, Axis{"pp", &DeviceMesh::pp},
                                      Axis{"dp", &DeviceMesh::dp}, Axis{"cp", &DeviceMesh::cp}};
        for (const Axis& more : kAxes) {
            for (const Axis& less : kAxes) {
                const int from = plan_.mesh.*less.degree, to = plan_.mesh.*more.degree;
                if (more.degree == less.degree || from % 2 != 0) continue;
                ParallelPlan changed = plan_;
                changed.mesh.*less.degree = from / 2;
                changed.mesh.*more.degree = to * 2;
                if (changed.mesh.tp == 1) changed.sequence_parallel = false;
                if (plan_.mesh.tp == 1 && changed.mesh.tp > 1) changed.sequence_parallel = true;
                std::string what =
                    fmt::format("{} {} -> {}, {} {} -> {}", more.name, to, to * 2, less.name, from, from / 2);
                if (changed.sequence_parallel != plan_.sequence_parallel)
                    what += changed.sequence_parallel ? ", sp off -> on" : ", sp on -> off";
                add(std::move(what), std::move(changed));
            }
        }
    }

    void recompute() {
        const bool by_op = framework_defaults(plan_.framework).selective_by_op;
        const RecomputeMode selective = by_op ? RecomputeMode::SelectiveOps : RecomputeMode::Selective;
        const RecomputeModules usual = has_modules(environment_, plan_.framework)
                                           ? usual_modules(environment_.graph)
                                           : RecomputeModules{};
        for (const RecomputeMode mode :
             {RecomputeMode::None, selective, RecomputeMode::Modules, RecomputeMode::Full}) {
            ParallelPlan changed = plan_;
            changed.recompute = mode;
            changed.recompute_modules = mode == RecomputeMode::Modules ? usual : RecomputeModules{};
            if (mode == RecomputeMode::Modules && !usual.any()) continue;
            for (StageSpec& stage : changed.stages) {
                stage.recompute = mode;
                stage.recompute_layers = -1;
            }
            add(fmt::format("recompute {} -> {}", recompute_text(plan_), recompute_text(mode, -1, usual)),
                std::move(changed));
        }
    }

    void zero() {
        for (int stage = 0; stage <= 3; ++stage) {
            ParallelPlan changed = plan_;
            changed.zero_stage = stage;
            add(fmt::format("zero {} -> {}", plan_.zero_stage, stage), std::move(changed));
        }
    }

    // Without a pipeline there is one order, and schedules that make the same order are one.
    void schedule() {
        if (plan_.mesh.pp == 1) return;
        std::vector<std::string> digests{digest(plan_)};
        for (const ScheduleGenerator* generator : schedule_generators()) {
            const GeneratorInfo info = generator->info();
            if (info.semantics != plan_.semantics || info.name == plan_.schedule) continue;
            if (info.combines_passes && plan_.mesh.ep == 1) continue;  // hides nothing, and holds more
            ParallelPlan changed = plan_;
            changed.schedule = info.name;
            changed.microbatch_group = 0;
            const bool keeps =
                info.fixed_virtual_stages == 0 && info.virtual_stages && plan_.virtual_stages > 1;
            if (!keeps) changed.virtual_stages = own_virtual_stages(info);
            std::string what = fmt::format("schedule {} -> {}", plan_.schedule, info.name);
            if (changed.virtual_stages != plan_.virtual_stages)
                what += fmt::format(", vpp {} -> {}", plan_.virtual_stages, changed.virtual_stages);
            const std::size_t before = changes_.size();
            add(std::move(what), std::move(changed));
            if (changes_.size() == before) continue;
            std::string made = digest(changes_.back().plan);
            const bool known = std::find(digests.begin(), digests.end(), made) != digests.end();
            if (made.empty() || known) {
                changes_.pop_back();
            } else {
                digests.push_back(std::move(made));
            }
        }
    }

    void virtual_stages() {
        if (plan_.mesh.pp == 1) return;
        for (const int v : {plan_.virtual_stages * 2, plan_.virtual_stages / 2}) {
            if (v < 1) continue;
            ParallelPlan changed = plan_;
            changed.virtual_stages = v;
            add(fmt::format("vpp {} -> {}", plan_.virtual_stages, v), std::move(changed));
        }
    }

    void switches() {
        toggle("sp", [](ParallelPlan& plan) -> bool& { return plan.sequence_parallel; });
        toggle("overlap of gradient reduction",
               [](ParallelPlan& plan) -> bool& { return plan.overlap.grad_reduce; });
        if (plan_.zero_stage == 1 || plan_.zero_stage == 2)
            toggle("overlap of parameter gathering",
                   [](ParallelPlan& plan) -> bool& { return plan.overlap.param_gather; });
        if (plan_.mesh.pp > 1)
            toggle("overlap of pipeline transfers",
                   [](ParallelPlan& plan) -> bool& { return plan.overlap.p2p; });
        if (plan_.mesh.tp > 1)
            toggle("overlap of tensor parallel collectives",
                   [](ParallelPlan& plan) -> bool& { return plan.overlap.tp; });
    }

    void expert_dispatch() {
        if (plan_.mesh.ep == 1) return;
        using Dispatch = WorkShape::ExpertDispatch;
        ParallelPlan changed = plan_;
        changed.expert_dispatch =
            plan_.expert_dispatch == Dispatch::AllToAll ? Dispatch::PerNode : Dispatch::AllToAll;
        add(fmt::format("expert_dispatch {} -> {}", to_string(plan_.expert_dispatch),
                        to_string(changed.expert_dispatch)),
            std::move(changed));
    }

    std::vector<PlanChange> take() { return std::move(changes_); }

  private:
    void toggle(const char* name, bool& (*member)(ParallelPlan&)) {
        ParallelPlan changed = plan_;
        bool& value = member(changed);
        const bool before = value;
        value = !before;
        add(fmt::format("{} {} -> {}", name, before ? "on" : "off", before ? "off" : "on"),
            std::move(changed));
    }

    [[nodiscard]] std::vector<std::string> errors_of(const ParallelPlan& plan) const {
        std::vector<std::string> texts;
        for (const Error& error : check_plan(environment_.graph, environment_.cluster, plan, target_).errors)
            texts.push_back(to_string(error));
        return texts;
    }

    // The order that a plan's schedule makes of it; "" where none can be made.
    [[nodiscard]] std::string digest(const ParallelPlan& plan) const {
        const auto prepared = simulator_.order(plan);
        return prepared ? order_digest(prepared->ordered->order) : "";
    }

    // Microbatches follow from the batch, stages from the mesh; false where they cannot.
    bool settle(ParallelPlan& plan) const {
        const std::int64_t together = plan.microbatch * plan.mesh.dp;
        if (plan.global_batch % together != 0) return false;
        plan.microbatches = plan.global_batch / together;
        // Where nothing is split any more there is no way of splitting (DeepSpeed has but one).
        if (plan.mesh.cp == 1 && plan_.mesh.cp > 1 && target_ != TargetFramework::DeepSpeed)
            plan.cp_kind = WorkShape::Cp::Ring;
        if (!split(plan)) return false;
        assign_node_groups(environment_.cluster, plan);
        return true;
    }

    bool split(ParallelPlan& plan) const {
        const int stages = plan.mesh.pp * plan.virtual_stages;
        if (stages == plan.stage_count()) return true;
        if (stages > environment_.graph.blocks) return false;
        plan.stages = uniform_partition(environment_.graph, stages, plan.recompute);
        if (const auto own = own_split(environment_.graph, target_, stages)) {
            auto split = explicit_partition(environment_.graph, *own, plan.recompute);
            if (!split) return false;
            plan.stages = std::move(*split);
        }
        carry_recompute(environment_.graph, plan_.stages, plan.stages);
        return true;
    }

    const Simulator& simulator_;
    const Environment& environment_;
    ParallelPlan plan_;  // without its order, which is of this shape alone
    TargetFramework target_;
    std::vector<std::string> errors_;  // rules that the plan itself breaks
    std::vector<PlanChange> changes_;
};

}  // namespace

std::vector<PlanChange> single_changes(const Simulator& simulator, const ParallelPlan& plan,
                                       TargetFramework target) {
    ChangeList list(simulator, plan, target);
    list.microbatch();
    list.mesh();
    list.recompute();
    list.zero();
    list.schedule();
    list.virtual_stages();
    list.switches();
    list.expert_dispatch();
    return list.take();
}

std::vector<JudgedChange> judge_changes(const Simulator& simulator, const ParallelPlan& plan,
                                        TargetFramework target) {
    std::vector<JudgedChange> judged;
    const Result<Evaluation> own = simulator.evaluate(plan);
    const auto same = [&](const Evaluation& e) {
        return own && e.fits == own->fits && e.step_time == own->step_time &&
               e.peak_device_bytes == own->peak_device_bytes;
    };
    for (PlanChange& change : single_changes(simulator, plan, target)) {
        const Result<Evaluation> evaluation = simulator.evaluate(change.plan);
        if (evaluation && !same(*evaluation)) judged.push_back({std::move(change), *evaluation});
    }
    std::stable_sort(judged.begin(), judged.end(), [](const JudgedChange& a, const JudgedChange& b) {
        return std::tuple(!a.evaluation.fits, a.evaluation.step_time, a.evaluation.peak_device_bytes,
                          a.change.what) < std::tuple(!b.evaluation.fits, b.evaluation.step_time,
                                                      b.evaluation.peak_device_bytes, b.change.what);
    });
    return judged;
}

}  // namespace tw
