#include "planner/explain/plan_changes.hpp"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "plan/check_plan.hpp"
#include "plan/frameworks/framework.hpp"
#include "plan/schedule/generator.hpp"
#include "plan/stage_partition.hpp"

namespace tw {
namespace {

class ChangeList {
  public:
    ChangeList(const Environment& environment, const ParallelPlan& plan)
        : environment_(environment), plan_(plan) {
        plan_.order.clear();
    }

    // Keeps the change where it is a legal plan that differs.
    void add(std::string what, ParallelPlan changed) {
        changed.order.clear();  // of another shape
        if (!settle(changed) || changed == plan_) return;
        if (!check_plan(environment_.graph, environment_.cluster, changed).errors.empty()) return;
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
                add(fmt::format("{} {} -> {}, {} {} -> {}", more.name, to, to * 2, less.name, from, from / 2),
                    std::move(changed));
            }
        }
    }

    void recompute() {
        const bool by_op = framework_defaults(plan_.framework).selective_by_op;
        const RecomputeMode selective = by_op ? RecomputeMode::SelectiveOps : RecomputeMode::Selective;
        for (const RecomputeMode mode : {RecomputeMode::None, selective, RecomputeMode::Full}) {
            ParallelPlan changed = plan_;
            changed.recompute = mode;
            for (StageSpec& stage : changed.stages) {
                stage.recompute = mode;
                stage.recompute_layers = -1;
            }
            add(fmt::format("recompute {} -> {}", recompute_text(), to_string(mode)), std::move(changed));
        }
    }

    void zero() {
        for (int stage = 0; stage <= 3; ++stage) {
            ParallelPlan changed = plan_;
            changed.zero_stage = stage;
            add(fmt::format("zero {} -> {}", plan_.zero_stage, stage), std::move(changed));
        }
    }

    void schedule() {
        for (const ScheduleGenerator* generator : schedule_generators()) {
            const GeneratorInfo info = generator->info();
            if (info.semantics != plan_.semantics || info.name == plan_.schedule) continue;
            ParallelPlan changed = plan_;
            changed.schedule = info.name;
            changed.microbatch_group = 0;
            if (info.fixed_virtual_stages > 0) {
                changed.virtual_stages = info.fixed_virtual_stages;
            } else if (!info.virtual_stages) {
                changed.virtual_stages = 1;
            } else if (changed.virtual_stages == 1) {
                changed.virtual_stages = 2;
            }
            std::string what = fmt::format("schedule {} -> {}", plan_.schedule, info.name);
            if (changed.virtual_stages != plan_.virtual_stages)
                what += fmt::format(", vpp {} -> {}", plan_.virtual_stages, changed.virtual_stages);
            add(std::move(what), std::move(changed));
        }
    }

    void virtual_stages() {
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

    [[nodiscard]] std::string recompute_text() const {
        const bool mixed = std::any_of(plan_.stages.begin(), plan_.stages.end(), [&](const StageSpec& stage) {
            return stage.recompute != plan_.recompute || stage.recompute_layers >= 0;
        });
        return mixed ? "mixed" : std::string(to_string(plan_.recompute));
    }

    // Microbatches follow from the batch, stages from the mesh; false where they cannot.
    bool settle(ParallelPlan& plan) const {
        const std::int64_t together = plan.microbatch * plan.mesh.dp;
        if (plan.global_batch % together != 0) return false;
        plan.microbatches = plan.global_batch / together;
        const int stages = plan.mesh.pp * plan.virtual_stages;
        if (stages == plan.stage_count()) return true;
        if (stages > environment_.graph.blocks) return false;
        plan.stages = uniform_partition(environment_.graph, stages, plan.recompute);
        return true;
    }

    const Environment& environment_;
    ParallelPlan plan_;  // without its order, which is of this shape alone
    std::vector<PlanChange> changes_;
};

}  // namespace

std::vector<PlanChange> single_changes(const Environment& environment, const ParallelPlan& plan) {
    ChangeList list(environment, plan);
    list.microbatch();
    list.mesh();
    list.recompute();
    list.zero();
    list.schedule();
    list.virtual_stages();
    list.switches();
    return list.take();
}

std::vector<JudgedChange> judge_changes(const Simulator& simulator, const ParallelPlan& plan) {
    std::vector<JudgedChange> judged;
    for (PlanChange& change : single_changes(simulator.environment(), plan)) {
        const Result<Evaluation> evaluation = simulator.evaluate(change.plan);
        if (evaluation) judged.push_back({std::move(change), *evaluation});
    }
    std::stable_sort(judged.begin(), judged.end(), [](const JudgedChange& a, const JudgedChange& b) {
        return std::tuple(!a.evaluation.fits, a.evaluation.step_time, a.evaluation.peak_device_bytes,
                          a.change.what) < std::tuple(!b.evaluation.fits, b.evaluation.step_time,
                                                      b.evaluation.peak_device_bytes, b.change.what);
    });
    return judged;
}

}  // namespace tw
