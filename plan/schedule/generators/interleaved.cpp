#include <fmt/format.h>

#include "base/counted.hpp"
#include "plan/schedule/generators/generators.hpp"

namespace tw {
namespace {

// Megatron-LM's interleaved 1F1B. A rank counts virtual microbatches: groups of N microbatches pass through
// chunk 0, then chunk 1, ...; backwards do the same with the chunks reversed. Rank r runs (p - r - 1) * 2 +
// (v - 1) * N forwards ahead: twice the distance to the last rank, so that a gradient is back when the first
// backward is due, and N for each chunk below the last. With combined passes it runs one more ahead, so that
// each backward has a forward of another microbatch beside it, whose exchanges of experts it hides and by
// which its own are hidden.
class Interleaved final : public ScheduleGenerator {
  public:
    explicit Interleaved(bool combined) : combined_(combined) {}

    [[nodiscard]] GeneratorInfo info() const override {
        GeneratorInfo info;
        info.virtual_stages = true;
        info.interleaved = true;
        if (combined_) {
            info.name = "interleaved-overlap";
            info.title = "Interleaved 1F1B, passes combined";
            info.source =
                "Megatron-LM core/pipeline_parallel/combined_1f1b.py (2025): interleaved 1F1B with one "
                "forward "
                "more ahead, its expert parallel exchanges beside the other pass's kernels "
                "(--overlap-moe-expert-parallel-comm)";
            info.overlaps_passes = info.combines_passes = true;
            return info;
        }
        info.name = "interleaved";
        info.title = "Interleaved 1F1B";
        info.source =
            "Narayanan et al. 2021, Megatron-LM (arXiv 2104.04473), section 2.2 and figure 4 bottom; order "
            "and warm-up "
            "as in Megatron-LM core/pipeline_parallel/schedules.py (get_pp_rank_microbatches, "
            "get_schedule_table)";
        return info;
    }

    [[nodiscard]] Errors check(const ScheduleShape& shape) const override {
        Errors errors = check_shape(shape, info());
        if (!errors.empty()) return errors;
        const auto error = [&](std::string message, std::string context, std::string hint) {
            errors.push_back(
                {ErrorCode::Unreadable, std::move(message), std::move(context), std::move(hint)});
        };
        const int p = shape.ranks;
        const int m = shape.microbatches;
        const int n = group_size(shape);
        if (shape.virtual_stages < 2) {
            error(info().name + " needs at least 2 stages on a rank, not 1", "virtual_stages",
                  "virtual_stages 2, or the schedule 1f1b");
        }
        if (n < p) {
            error(fmt::format("a microbatch group of {} is smaller than the {} pipeline ranks", n, p),
                  "microbatch_group", fmt::format("microbatch_group {}", p));
        } else if (n > m) {
            error(fmt::format("a microbatch group of {} is larger than the {}", n, counted(m, "microbatch")),
                  shape.microbatch_group > 0 ? "microbatch_group" : "microbatches",
                  m >= p ? fmt::format("microbatch_group {}", p) : fmt::format("microbatches {}", p));
        } else if (m % n != 0 && m % n < p) {
            const int below = m / n * n;
            error(fmt::format("{} in groups of {} leave {}, fewer than the {} pipeline ranks",
                              counted(m, "microbatch"), n, m % n, p),
                  "microbatches", fmt::format("microbatches {} or {}", below, below + n));
        }
        return errors;
    }

    [[nodiscard]] ComputeOrder generate(const ScheduleShape& shape,
                                        const StageCosts* /*costs*/) const override {
        ComputeOrder order = empty_order(shape, info());
        const int p = shape.ranks;
        const int v = shape.virtual_stages;
        const int m = shape.microbatches;
        const int n = group_size(shape);
        struct Virtual {
            int chunk, microbatch;
        };
        std::vector<Virtual> table;
        table.reserve(static_cast<std::size_t>(m) * static_cast<std::size_t>(v));
        for (int first = 0; first < m; first += n) {
            for (int chunk = 0; chunk < v; ++chunk) {
                for (int b = first; b < std::min(first + n, m); ++b)
                    table.push_back({chunk, b});
            }
        }
        const std::size_t total = table.size();
        for (int rank = 0; rank < p; ++rank) {
            auto& actions = order.ranks[static_cast<std::size_t>(rank)];
            actions.reserve(2 * total);
            const auto forward = [&](std::size_t k) {
                actions.push_back(
                    make_action(Opcode::Forward, table[k].chunk * p + rank, table[k].microbatch));
            };
            const auto backward = [&](std::size_t k) {
                actions.push_back(
                    make_action(Opcode::Backward, (v - 1 - table[k].chunk) * p + rank, table[k].microbatch));
            };
            const auto both = [&](std::size_t f, std::size_t b) {
                forward(f);
                backward(b);
                if (!combined_) return;
                const Action back = actions.back();
                actions.pop_back();
                Action& action = actions.back();
                action.opcode = Opcode::OverlapForwardBackward;
                action.stage2 = back.stage;
                action.microbatch2 = back.microbatch;
            };
            const std::size_t warm_up = std::min(
                total, static_cast<std::size_t>((p - rank - 1) * 2 + (v - 1) * n + (combined_ ? 1 : 0)));
            for (std::size_t k = 0; k < warm_up; ++k)
                forward(k);
            for (std::size_t k = 0; k + warm_up < total; ++k)
                both(k + warm_up, k);
            for (std::size_t k = total - warm_up; k < total; ++k)
                backward(k);
        }
        return order;
    }

  private:
    bool combined_;

    static int group_size(const ScheduleShape& shape) {
        return shape.microbatch_group > 0 ? shape.microbatch_group : shape.ranks;
    }
};

}  // namespace

const ScheduleGenerator& interleaved_schedule() {
    static const Interleaved generator(false);
    return generator;
}

const ScheduleGenerator& interleaved_overlap_schedule() {
    static const Interleaved generator(true);
    return generator;
}

}  // namespace tw
