#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/check.hpp"
#include "plan/schedule/passes/passes.hpp"
#include "plan/schedule/passes/program_edit.hpp"
#include "plan/schedule/passes/prototypes.hpp"

namespace tw {
namespace {

// One rank's updates of one stage. Versions count the updates made; an instruction names its version modulo
// those kept, so the count behind it is the latest one that agrees.
class StageUpdater {
  public:
    StageUpdater(const ComputeOrder& order, const LoweringOptions& options, Schedule& schedule,
                 Prototypes& prototypes, ProgramEdit& edit, std::uint16_t stage, int kept)
        : options_(options), prototypes_(prototypes), edit_(edit), stage_(stage), kept_(kept) {
        period_ = std::max(order.backwards_per_update, 1);
        std::vector<std::uint16_t> replicas;
        for (int i = 0; i < order.replicas_of_stage[stage]; ++i) {
            replicas.push_back(static_cast<std::uint16_t>(order.rank_of_stage[stage] + i));
        }
        group_ = group_of_ranks(schedule, std::move(replicas));
    }

    void run() {
        const std::vector<std::size_t> last_use = last_uses();
        int latest = 0;
        int backwards = 0;
        for (std::size_t i = 0; i < edit_.size(); ++i) {
            const Instruction& compute = edit_.at(i);
            if (!is_compute(compute.opcode) || compute.stage != stage_) continue;
            if (pulled_) edit_.add_wait(static_cast<std::uint32_t>(i), *std::exchange(pulled_, std::nullopt));
            const int used = version_behind(compute.weight_version, latest);
            if (used < latest && last_use[static_cast<std::size_t>(used)] == i) {
                edit_.insert(i + 1, instruction(Opcode::Free, used));
            }
            if (!completes_backward(compute) || ++backwards % period_ != 0) continue;
            if (last_use[static_cast<std::size_t>(latest)] > i) {
                edit_.insert(i + 1, instruction(Opcode::StashWeights, latest));
            }
            update(i, ++latest);
        }
    }

  private:
    static bool completes_backward(const Instruction& compute) {
        return compute.opcode == Opcode::Backward || compute.opcode == Opcode::BackwardWeight;
    }

    [[nodiscard]] int version_behind(std::uint16_t modulo, int latest) const {
        const int behind = ((latest - modulo) % kept_ + kept_) % kept_;
        TW_CHECK_MSG(behind <= latest, "a weight version is used before it is made");
        return latest - behind;
    }

    // By version: the last instruction that uses it.
    [[nodiscard]] std::vector<std::size_t> last_uses() const {
        std::vector<std::size_t> last(1, 0);
        int backwards = 0;
        for (std::size_t i = 0; i < edit_.size(); ++i) {
            const Instruction& compute = edit_.at(i);
            if (!is_compute(compute.opcode) || compute.stage != stage_) continue;
            const int latest = static_cast<int>(last.size()) - 1;
            last[static_cast<std::size_t>(version_behind(compute.weight_version, latest))] = i;
            if (completes_backward(compute) && ++backwards % period_ == 0) last.push_back(0);
        }
        return last;
    }

    Instruction instruction(Opcode opcode, int version) {
        Instruction made = prototypes_.of(opcode, stage_);
        made.weight_version = static_cast<std::uint16_t>(version % kept_);
        return made;
    }

    // The step waits for the gradients of all replicas. With a server, gradients are pushed, the server's
    // shards take the step and the next compute waits for the parameters that come back.
    void update(std::size_t after, int version) {
        std::vector<ProgramEdit::Ref> ready;
        const bool replicated = options_.grad_sync != LoweringOptions::GradSync::None || group_ != 0;
        const bool server = options_.parameter_server && replicated;
        if (server) {
            ready.push_back(edit_.insert(after + 1, collective(Opcode::ReduceScatter), {as_ref(after)}));
        } else if (replicated) {
            const bool scatter =
                options_.grad_sync == LoweringOptions::GradSync::ReduceScatter && group_ == 0;
            ready.push_back(edit_.insert(
                after + 1, collective(scatter ? Opcode::ReduceScatter : Opcode::AllReduce), {as_ref(after)}));
        }
        const auto step = edit_.insert(after + 1, instruction(Opcode::OptimizerStep, version), ready);
        if (server) {
            pulled_ = edit_.insert(after + 1, collective(Opcode::Broadcast), {step});
        } else if (replicated && options_.gather_params_after_step) {
            pulled_ = edit_.insert(after + 1, collective(Opcode::AllGather), {step});
        }
    }

    const Instruction& collective(Opcode opcode) { return prototypes_.of(opcode, stage_, 0, group_); }
    static ProgramEdit::Ref as_ref(std::size_t index) { return static_cast<ProgramEdit::Ref>(index); }

    const LoweringOptions& options_;
    Prototypes& prototypes_;
    ProgramEdit& edit_;
    std::uint16_t stage_;
    std::uint16_t group_ = 0;
    int kept_;
    int period_ = 1;
    std::optional<ProgramEdit::Ref> pulled_;  // parameters on their way to the next compute
};

}  // namespace

void update_asynchronously(const ComputeOrder& order, const LoweringOptions& options, Schedule& schedule) {
    Prototypes prototypes(schedule);
    for (std::size_t r = 0; r < schedule.programs.size(); ++r) {
        ProgramEdit edit(schedule.programs[r]);
        for (std::size_t s = 0; s < order.rank_of_stage.size(); ++s) {
            const std::size_t first = order.rank_of_stage[s];
            if (r < first || r >= first + order.replicas_of_stage[s]) continue;
            StageUpdater(order, options, schedule, prototypes, edit, static_cast<std::uint16_t>(s),
                         order.kept_versions(r))
                .run();
        }
        edit.apply();
    }
}

}  // namespace tw
