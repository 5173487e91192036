#include <numeric>

#include <fmt/format.h>

#include "base/counted.hpp"
#include "plan/schedule/generators/generators.hpp"

namespace tw {
namespace {

// Asynchronous 1F1B: no flush, an update after every backward, and each microbatch goes back through the
// weights that it came forward with. Stage s keeps in flight, on each of its R_s replicas, ceil(sum of R_j, j
// >= s, / R_s) microbatches (NUM_OPT_ACTIVE_MINIBATCHES for the input stage, p - s without replicas) and as
// many weight versions.
class PipeDream final : public ScheduleGenerator {
  public:
    [[nodiscard]] GeneratorInfo info() const override {
        GeneratorInfo info;
        info.name = "pipedream";
        info.title = "PipeDream (asynchronous 1F1B)";
        info.source =
            "Narayanan et al. 2019, PipeDream (SOSP'19), section 3.2 (1F1B-RR) and 3.3 (weight stashing, "
            "vertical sync)";
        info.semantics = Semantics::Asynchronous;
        info.boundary = StepBoundary::None;
        info.replicates = true;
        return info;
    }

    [[nodiscard]] Errors check(const ScheduleShape& shape) const override {
        Errors errors = check_shape(shape, info());
        if (!errors.empty()) return errors;
        const auto error = [&](std::string message, std::string context, std::string hint) {
            errors.push_back(
                {ErrorCode::Unreadable, std::move(message), std::move(context), std::move(hint)});
        };
        if (shape.replicas.empty()) return errors;
        if (shape.replicas.size() != static_cast<std::size_t>(shape.ranks)) {
            error(fmt::format("{} replica counts for {} stages", shape.replicas.size(), shape.ranks),
                  "replicas", "one count for each stage");
            return errors;
        }
        std::int64_t together = 1;
        for (const int replicas : shape.replicas) {
            if (replicas < 1) {
                error(fmt::format("a stage has {} replicas", replicas), "replicas", "replicas 1");
                return errors;
            }
            together = std::lcm(together, static_cast<std::int64_t>(replicas));
            if (together > shape.microbatches) break;
        }
        if (shape.microbatches % together != 0) {
            error(fmt::format("{} cannot be dealt evenly to the replicas of every stage",
                              counted(shape.microbatches, "microbatch")),
                  "microbatches",
                  fmt::format("microbatches {}",
                              std::max<std::int64_t>(1, shape.microbatches / together) * together));
        }
        if (shape.vertical_sync && together != 1) {
            error("vertical sync counts versions by stage 0, and replicas count them differently",
                  "vertical_sync", "vertical_sync false, or one replica a stage");
        }
        return errors;
    }

    [[nodiscard]] ComputeOrder generate(const ScheduleShape& shape,
                                        const StageCosts* /*costs*/) const override {
        ComputeOrder order = empty_order(shape, info());
        const auto stages = static_cast<std::size_t>(shape.ranks);
        std::vector<int> replicas(stages, 1);
        if (!shape.replicas.empty()) replicas = shape.replicas;
        const int workers = std::accumulate(replicas.begin(), replicas.end(), 0);
        order.steps = shape.steps > 0 ? shape.steps : steps_for_a_period(shape.microbatches, workers);
        order.backwards_per_update = 1;
        order.ranks.resize(static_cast<std::size_t>(workers));
        const int first_active = (workers + replicas[0] - 1) / replicas[0];
        order.weight_versions = 1;
        int first_rank = 0;
        for (std::size_t s = 0; s < stages; ++s) {
            order.rank_of_stage[s] = static_cast<std::uint16_t>(first_rank);
            order.replicas_of_stage[s] = static_cast<std::uint16_t>(replicas[s]);
            const int active = (workers - first_rank + replicas[s] - 1) / replicas[s];
            const int kept = shape.vertical_sync ? first_active : active;
            order.versions_of_rank.insert(order.versions_of_rank.end(), static_cast<std::size_t>(replicas[s]),
                                          static_cast<std::uint16_t>(kept));
            order.weight_versions = std::max(order.weight_versions, kept);
            first_rank += replicas[s];
        }
        for (std::size_t s = 0; s < stages; ++s) {
            const int active = (workers - order.rank_of_stage[s] + replicas[s] - 1) / replicas[s];
            for (int i = 0; i < replicas[s]; ++i) {
                fill(order, static_cast<int>(s), i, active - 1,
                     shape.vertical_sync ? first_active - 1 : active - 1);
            }
        }
        return order;
    }

  private:
    // Replica i of a stage: its j-th microbatch comes forward after j - warm_up updates of its own, and is
    // pinned to the version that `delay` updates lie behind.
    static void fill(ComputeOrder& order, int stage, int replica, int warm_up, int delay) {
        const int count = order.replicas_of_stage[static_cast<std::size_t>(stage)];
        const int own = order.total_microbatches() / count;
        const auto rank =
            static_cast<std::size_t>(order.rank_of_stage[static_cast<std::size_t>(stage)] + replica);
        auto& actions = order.ranks[rank];
        actions.reserve(2 * static_cast<std::size_t>(own));
        const auto push = [&](Opcode opcode, int j) {
            Action action = make_action(opcode, stage, j * count + replica);
            action.weight_version =
                static_cast<std::uint16_t>(std::max(0, j - delay) % order.kept_versions(rank));
            actions.push_back(action);
        };
        for (int j = 0; j < std::min(warm_up, own); ++j)
            push(Opcode::Forward, j);
        for (int j = 0; j < own; ++j) {
            if (j + warm_up < own) push(Opcode::Forward, j + warm_up);
            push(Opcode::Backward, j);
        }
    }
};

}  // namespace

const ScheduleGenerator& pipedream_schedule() {
    static const PipeDream generator;
    return generator;
}

}  // namespace tw
