#include "plan/trace/compare.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include <fmt/format.h>

#include "base/si_format.hpp"

namespace tw {
namespace {

// Whether both sides run the same instruction. Classes and lanes may differ: they are the compiler's own
// numbering.
bool same_work(const Instruction& a, const Instruction& b) {
    return std::tie(a.opcode, a.stage, a.microbatch, a.stage2, a.microbatch2, a.part) ==
           std::tie(b.opcode, b.stage, b.microbatch, b.stage2, b.microbatch2, b.part);
}

using Sorted = std::vector<const TraceEvent*>;

Sorted by_step_and_index(const RankTrace& rank) {
    Sorted out;
    for (const TraceEvent& event : rank.events) {
        if (!event.inside_another()) out.push_back(&event);
    }
    std::stable_sort(out.begin(), out.end(), [](const TraceEvent* a, const TraceEvent* b) {
        return std::tie(a->step, a->index) < std::tie(b->step, b->index);
    });
    return out;
}

struct Sums {
    std::int64_t count = 0;
    double predicted = 0, measured = 0, squares = 0;
};

class Comparison {
  public:
    Comparison(const CompareOptions& options, int last_predicted_step)
        : options_(options), last_step_(last_predicted_step) {}

    void join(int rank, const Sorted& predicted, const Sorted& measured) {
        // For each measured step, the predicted step that it is held against.
        auto begin = measured.begin();
        while (begin != measured.end()) {
            const int step = (*begin)->step;
            const auto end =
                std::find_if(begin, measured.end(), [&](const TraceEvent* e) { return e->step != step; });
            const int against = options_.steady ? last_step_ : step;
            if (!options_.steady || step >= options_.first_measured_step) {
                const auto [first, last] =
                    std::equal_range(predicted.begin(), predicted.end(), against, StepOrder{});
                join_step(rank, step, {first, last}, {begin, end});
            }
            begin = end;
        }
        if (options_.steady) return;
        // Steps that the measurement lacks altogether.
        for (const TraceEvent* event : predicted) {
            const bool there = std::binary_search(measured.begin(), measured.end(), event->step, StepOrder{});
            if (!there) missing(rank, event->step, *event, "not measured", out_.only_predicted);
        }
    }

    TraceComparison finish() {
        for (const auto& [key, sums] : sums_) {
            ErrorRow row;
            std::tie(row.opcode, row.stage) = key;
            row.count = sums.count;
            const auto n = static_cast<double>(sums.count);
            row.predicted_s = sums.predicted / n;
            row.measured_s = sums.measured / n;
            row.measured_sigma_s =
                std::sqrt(std::max(0.0, sums.squares / n - row.measured_s * row.measured_s));
            out_.rows.push_back(row);
        }
        return std::move(out_);
    }

  private:
    struct StepOrder {
        bool operator()(const TraceEvent* e, int step) const { return e->step < step; }
        bool operator()(int step, const TraceEvent* e) const { return step < e->step; }
    };

    void join_step(int rank, int step, const Sorted& predicted, const Sorted& measured) {
        std::size_t p = 0, m = 0;
        while (p < predicted.size() || m < measured.size()) {
            if (m == measured.size() || (p < predicted.size() && predicted[p]->index < measured[m]->index)) {
                missing(rank, step, *predicted[p++], "not measured", out_.only_predicted);
            } else if (p == predicted.size() || measured[m]->index < predicted[p]->index) {
                missing(rank, step, *measured[m++], "not predicted", out_.only_measured);
            } else {
                pair(rank, step, *predicted[p++], *measured[m++]);
            }
        }
    }

    void pair(int rank, int step, const TraceEvent& predicted, const TraceEvent& measured) {
        ++out_.joined;
        if (!same_work(predicted.instruction, measured.instruction)) {
            note(out_.order_divergence, order_at_, measured.start,
                 {Divergence::Kind::Instruction, rank, step, measured.index,
                  fmt::format("rank {}, step {}, {}: predicted {}, measured {}", rank, step, measured.index,
                              to_string(predicted.instruction), to_string(measured.instruction))});
            return;
        }
        const double p = to_seconds(predicted.end - predicted.start).value;
        const double m = to_seconds(measured.end - measured.start).value;
        Sums& sums = sums_[{predicted.instruction.opcode, predicted.instruction.stage}];
        ++sums.count;
        sums.predicted += p;
        sums.measured += m;
        sums.squares += m * m;
        if (std::abs(p - m) > options_.tolerance * m) {
            note(
                out_.duration_divergence, duration_at_, measured.start,
                {Divergence::Kind::Duration, rank, step, measured.index,
                 fmt::format("rank {}, step {}, {}: {} predicted {}, measured {}", rank, step, measured.index,
                             to_string(measured.instruction), format_duration(p), format_duration(m))});
        }
    }

    void missing(int rank, int step, const TraceEvent& event, std::string_view what, std::int64_t& count) {
        ++count;
        note(out_.order_divergence, order_at_, event.start,
             {Divergence::Kind::Missing, rank, step, event.index,
              fmt::format("rank {}, step {}, {}: {} {}", rank, step, event.index,
                          to_string(event.instruction), what)});
    }

    static void note(std::optional<Divergence>& first, SimTime& first_at, SimTime at, Divergence divergence) {
        if (first && first_at <= at) return;
        first = std::move(divergence);
        first_at = at;
    }

    CompareOptions options_;
    int last_step_;
    TraceComparison out_;
    SimTime order_at_ = 0, duration_at_ = 0;
    std::map<std::pair<Opcode, std::uint16_t>, Sums> sums_;
};

struct MeanSteps {
    double step_s = 0, bubble = 0, sigma_s = 0;
    int count = 0;
    std::vector<double> ranks;
};

MeanSteps mean_of(const std::vector<StepAnalysis>& steps, std::size_t first) {
    MeanSteps mean;
    first = std::min(first, steps.size() - 1);
    mean.count = static_cast<int>(steps.size() - first);
    const auto count = static_cast<double>(steps.size() - first);
    double squares = 0;
    mean.ranks.assign(steps.front().ranks.size(), 0);
    for (std::size_t s = first; s < steps.size(); ++s) {
        const double period = to_seconds(steps[s].period()).value;
        mean.step_s += period / count;
        squares += period * period / count;
        mean.bubble += steps[s].bubble_fraction / count;
        for (std::size_t r = 0; r < mean.ranks.size(); ++r)
            mean.ranks[r] += steps[s].ranks[r].bubble_fraction / count;
    }
    mean.sigma_s = std::sqrt(std::max(0.0, squares - mean.step_s * mean.step_s));
    return mean;
}

}  // namespace

std::vector<std::size_t> partners_of(const Trace& predicted, const Trace& measured) {
    std::map<std::pair<int, int>, std::size_t> by_replica;
    std::map<int, std::size_t> by_pipeline_rank;
    for (std::size_t r = 0; r < predicted.ranks.size(); ++r) {
        const RankTrace& rank = predicted.ranks[r];
        by_replica.emplace(std::pair(rank.schedule_rank(), rank.replica), r);
        by_pipeline_rank.emplace(rank.schedule_rank(), r);
    }
    std::vector<std::size_t> partners;
    for (const RankTrace& rank : measured.ranks) {
        const auto same = by_replica.find({rank.schedule_rank(), rank.replica});
        const auto alike = by_pipeline_rank.find(rank.schedule_rank());
        partners.push_back(same != by_replica.end()          ? same->second
                           : alike != by_pipeline_rank.end() ? alike->second
                                                             : kNoPartner);
    }
    return partners;
}

TraceComparison compare_traces(const Trace& predicted, const Trace& measured, const CompareOptions& options) {
    const std::vector<StepAnalysis> predicted_steps = analyze_steps(predicted),
                                    measured_steps = analyze_steps(measured);
    const MeanSteps p = mean_of(predicted_steps, predicted_steps.size() - 1);
    // Steady measurements: every step from the first asked for; else the last alone, as in the prediction.
    const std::size_t from = options.steady
                                 ? static_cast<std::size_t>(std::max(0, options.first_measured_step))
                                 : measured_steps.size() - 1;
    const MeanSteps m = mean_of(measured_steps, from);

    const std::vector<std::size_t> partners = partners_of(predicted, measured);
    std::vector<std::size_t> order(measured.ranks.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return measured.ranks[a].rank < measured.ranks[b].rank;
    });
    Comparison comparison(options, static_cast<int>(predicted_steps.size()) - 1);
    std::vector<int> ranks;
    std::vector<double> predicted_bubbles, measured_bubbles;
    std::vector<bool> joined(predicted.ranks.size(), false);
    std::int64_t ranks_only_predicted = 0, ranks_only_measured = 0;
    for (const std::size_t at : order) {
        const std::size_t partner = partners[at];
        if (partner == kNoPartner) {
            ranks_only_measured += static_cast<std::int64_t>(measured.ranks[at].events.size());
            continue;
        }
        joined[partner] = true;
        comparison.join(measured.ranks[at].rank, by_step_and_index(predicted.ranks[partner]),
                        by_step_and_index(measured.ranks[at]));
        ranks.push_back(measured.ranks[at].rank);
        predicted_bubbles.push_back(p.ranks[partner]);
        measured_bubbles.push_back(m.ranks[at]);
    }
    for (std::size_t r = 0; r < predicted.ranks.size(); ++r)
        if (!joined[r]) ranks_only_predicted += static_cast<std::int64_t>(predicted.ranks[r].events.size());
    TraceComparison out = comparison.finish();
    out.only_predicted += ranks_only_predicted;
    out.only_measured += ranks_only_measured;
    out.ranks = std::move(ranks);
    out.predicted_rank_bubble = std::move(predicted_bubbles);
    out.measured_rank_bubble = std::move(measured_bubbles);
    out.predicted_step_s = p.step_s;
    out.measured_step_s = m.step_s;
    out.measured_step_sigma_s = m.sigma_s;
    out.measured_steps = m.count;
    out.predicted_bubble = p.bubble;
    out.measured_bubble = m.bubble;
    return out;
}

TextTable error_table(const TraceComparison& comparison) {
    TextTable table({"instruction", "stage", "count", "predicted", "measured", "±", "error"});
    for (const ErrorRow& row : comparison.rows) {
        const double error = row.relative_error();
        table.add_row({to_string(row.opcode), std::to_string(row.stage), format_count(row.count),
                       format_duration(row.predicted_s), format_duration(row.measured_s),
                       format_duration(row.measured_sigma_s),
                       TableCell(fmt::format("{}{}", error > 0 ? "+" : "", format_percent(error)),
                                 std::abs(error) > 0.1 ? TextStyle::Red : TextStyle::Green)});
    }
    return table;
}

}  // namespace tw
