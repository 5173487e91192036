#include "plan/trace/stragglers.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "models/hardware/sample_statistics.hpp"
#include "plan/trace/analyze.hpp"
#include "plan/trace/compare.hpp"
#include "plan/trace/own_time.hpp"

namespace tw {
namespace {

double seconds(SimTime time) {
    return to_seconds(time).value;
}

// value(i) less the median of the others'; `count` is at least 2.
template <class Value>
double beyond_others(std::size_t count, std::size_t i, Value value) {
    std::vector<double> others;
    for (std::size_t j = 0; j < count; ++j)
        if (j != i) others.push_back(value(j));
    return value(i) - median_of(std::move(others));
}

SimTime begin_of(const Trace& trace) {
    SimTime begin = kNever;
    for (const RankTrace& rank : trace.ranks) {
        for (const TraceEvent& event : rank.events)
            begin = std::min(begin, event.arrival);
    }
    return begin == kNever ? 0 : begin;
}

struct StepExtremes {
    std::optional<double> late_s, own_s;
    double waited_s = 0;
};

void take_larger(std::optional<double>& most, double value) {
    most = most ? std::max(*most, value) : value;
}

double least_of(const StragglerOptions& options, double step_s) {
    return std::max(options.least_s, options.threshold * step_s);
}

// Names whose own time is above its least, which stands beside it.
class Slow {
  public:
    void add(const RankArrivals& rank, double least) {
        if (rank.own_s > least) slow_.emplace_back(rank.own_s, rank.rank);
    }
    // Slowest first.
    [[nodiscard]] std::vector<int> named(const StragglerOptions& options) {
        std::stable_sort(slow_.begin(), slow_.end(),
                         [](const auto& a, const auto& b) { return a.first > b.first; });
        std::vector<int> ranks;
        for (const auto& [own, rank] : slow_)
            if (own >= options.beside_slowest * slow_.front().first) ranks.push_back(rank);
        return ranks;
    }

  private:
    std::vector<std::pair<double, int>> slow_;
};

class Judge {
  public:
    Judge(const Trace& trace, const StragglerOptions& options) : trace_(trace), options_(options) {
        const std::vector<StepAnalysis> steps = analyze_steps(trace);
        steps_ = static_cast<int>(steps.size());
        first_ = steps_ > options.first_step ? options.first_step : 0;
        for (auto s = static_cast<std::size_t>(first_); s < steps.size(); ++s)
            step_s_ += seconds(steps[s].period()) / static_cast<double>(steps_ - first_);
        const SimTime begin = begin_of(trace);
        for (const RankTrace& rank : trace.ranks)
            own_.emplace_back(rank, begin);
        extremes_.resize(trace.ranks.size());
        collectives_.resize(trace.ranks.size());
    }

    Arrivals judge(const Trace* predicted) {
        at_collectives();
        beside_replicas();
        Arrivals out;
        out.step_s = step_s_;
        const std::map<std::size_t, double> expected =
            predicted != nullptr ? beside_prediction(*predicted) : std::map<std::size_t, double>{};
        Slow slow;
        for (std::size_t r = 0; r < trace_.ranks.size(); ++r) {
            RankArrivals rank;
            rank.rank = trace_.ranks[r].rank;
            double least = least_of(options_, step_s_);
            if (const auto found = expected.find(r); found != expected.end()) {
                rank.own_s = own_step_s(r) - found->second;
                rank.by_prediction = true;
                least = std::max(least, options_.threshold_of_prediction * found->second);
            } else if (!extremes_[r].empty()) {
                rank.collectives = collectives_[r];
                const auto count = static_cast<double>(extremes_[r].size());
                std::vector<double> own;
                for (const auto& [step, extreme] : extremes_[r]) {
                    rank.late_s += extreme.late_s.value_or(0) / count;
                    rank.waited_s += extreme.waited_s / count;
                    own.push_back(extreme.own_s.value_or(0));
                }
                rank.own_s = median_of(std::move(own));
            } else {
                continue;
            }
            out.ranks.push_back(rank);
            slow.add(rank, least);
        }
        out.stragglers = slow.named(options_);
        return out;
    }

  private:
    // Replicas at the collectives of their pipeline rank.
    void at_collectives() {
        const Rendezvous meetings = match_rendezvous(trace_);
        for (std::size_t m = 0; m < meetings.size(); ++m) {
            const auto members = meetings.members_of(m);
            const auto event = [&](std::size_t i) -> const TraceEvent& {
                return trace_.ranks[members[i].rank].events[members[i].event];
            };
            const TraceEvent& one = event(0);
            if (!is_collective(one.instruction.opcode) || one.instruction.group != 0 || one.step < first_)
                continue;
            SimTime last = 0;
            for (std::size_t i = 0; i < members.size(); ++i)
                last = std::max(last, event(i).arrival);
            for (std::size_t i = 0; i < members.size(); ++i) {
                const std::uint32_t rank = members[i].rank;
                StepExtremes& step = extremes_[rank][event(i).step];
                take_larger(step.late_s, beyond_others(members.size(), i, [&](std::size_t j) {
                                return seconds(event(j).arrival);
                            }));
                take_larger(step.own_s, beyond_others(members.size(), i, [&](std::size_t j) {
                                return seconds(own_[members[j].rank].until(event(j).step, event(j).arrival));
                            }));
                step.waited_s = std::max(step.waited_s, seconds(last - event(i).arrival));
                ++collectives_[rank];
            }
        }
    }

    // Replicas that meet inside of their layers, or not at all.
    void beside_replicas() {
        std::map<int, std::vector<std::size_t>> replicas;
        for (std::size_t r = 0; r < trace_.ranks.size(); ++r)
            replicas[trace_.ranks[r].schedule_rank()].push_back(r);
        for (const auto& of_pipeline_rank : replicas) {
            const std::vector<std::size_t>& ranks = of_pipeline_rank.second;
            if (ranks.size() < 2) continue;
            for (int step = first_; step < steps_; ++step) {
                for (std::size_t i = 0; i < ranks.size(); ++i) {
                    StepExtremes& extremes = extremes_[ranks[i]][step];
                    if (extremes.own_s) continue;
                    extremes.own_s = beyond_others(ranks.size(), i, [&](std::size_t j) {
                        return seconds(own_[ranks[j]].of_step(step));
                    });
                }
            }
        }
    }

    [[nodiscard]] double own_step_s(std::size_t rank) const {
        std::vector<double> steps;
        for (int step = first_; step < steps_; ++step)
            steps.push_back(seconds(own_[rank].of_step(step)));
        return steps.empty() ? 0 : median_of(std::move(steps));
    }

    // How long a step of each rank without replicas should take it: as predicted, by as much slower or faster
    // as the median of the others is.
    [[nodiscard]] std::map<std::size_t, double> beside_prediction(const Trace& predicted) const {
        const std::vector<std::size_t> partner = partners_of(predicted, trace_);
        const int last = std::max(0, predicted.steps - 1);
        const SimTime begin = begin_of(predicted);
        std::map<std::size_t, double> wanted;
        for (std::size_t r = 0; r < trace_.ranks.size(); ++r) {
            if (!extremes_[r].empty() || partner[r] == kNoPartner) continue;
            const double own = seconds(OwnTime(predicted.ranks[partner[r]], begin).of_step(last));
            if (own > 0) wanted[r] = own;
        }
        std::map<std::size_t, double> expected;
        if (wanted.size() < 2) return expected;
        for (const auto& [r, own] : wanted) {
            std::vector<double> pace;
            for (const auto& [other, own_of_other] : wanted)
                if (other != r) pace.push_back(own_step_s(other) / own_of_other);
            expected[r] = own * median_of(std::move(pace));
        }
        return expected;
    }

    const Trace& trace_;
    const StragglerOptions& options_;
    int steps_ = 0, first_ = 0;
    double step_s_ = 0;
    std::vector<OwnTime> own_;                                    // by index of rank
    std::vector<std::map<std::int32_t, StepExtremes>> extremes_;  // by index of rank, then step
    std::vector<std::int64_t> collectives_;
};

}  // namespace

Arrivals analyze_arrivals(const Trace& trace, const StragglerOptions& options, const Trace* predicted) {
    return Judge(trace, options).judge(predicted);
}

Arrivals analyze_pace(const std::vector<RankPace>& ranks, double step_s, const StragglerOptions& options) {
    Arrivals out;
    out.step_s = step_s;
    std::map<int, std::vector<const RankPace*>> replicas;
    for (const RankPace& rank : ranks)
        replicas[rank.pipeline_rank].push_back(&rank);
    Slow slow;
    for (const RankPace& rank : ranks) {
        const std::vector<const RankPace*>& group = replicas.at(rank.pipeline_rank);
        if (group.size() < 2 || rank.own_s.empty()) continue;
        const auto place =
            static_cast<std::size_t>(std::find(group.begin(), group.end(), &rank) - group.begin());
        std::vector<double> beyond;
        for (std::size_t step = 0; step < rank.own_s.size(); ++step)
            beyond.push_back(
                beyond_others(group.size(), place, [&](std::size_t j) { return group[j]->own_s[step]; }));
        RankArrivals judged;
        judged.rank = rank.rank;
        judged.own_s = median_of(std::move(beyond));
        slow.add(judged, least_of(options, step_s));
        out.ranks.push_back(judged);
    }
    out.stragglers = slow.named(options);
    return out;
}

std::vector<std::string> describe(const Arrivals& arrivals) {
    std::vector<std::string> lines;
    const auto is_straggler = [&](int rank) {
        return std::find(arrivals.stragglers.begin(), arrivals.stragglers.end(), rank) !=
               arrivals.stragglers.end();
    };
    for (const int straggler : arrivals.stragglers) {
        const auto found = std::find_if(arrivals.ranks.begin(), arrivals.ranks.end(),
                                        [&](const RankArrivals& rank) { return rank.rank == straggler; });
        std::vector<double> waits;
        for (const RankArrivals& rank : arrivals.ranks)
            if (rank.collectives > 0 && !is_straggler(rank.rank)) waits.push_back(rank.waited_s);
        std::string line;
        if (found->by_prediction) {
            line = fmt::format("rank {} takes {} longer than predicted at the pace of the others", straggler,
                               format_duration(found->own_s));
        } else if (2 * found->late_s < found->own_s) {
            line = fmt::format("rank {} takes {} longer than the others with the same work", straggler,
                               format_duration(found->own_s));
        } else {
            line =
                fmt::format("rank {} arrives {} after the others", straggler, format_duration(found->late_s));
            if (!waits.empty())
                line += fmt::format(", who wait {} for it", format_duration(median_of(std::move(waits))));
        }
        lines.push_back(line + fmt::format(" (of a step of {})", format_duration(arrivals.step_s)));
    }
    return lines;
}

}  // namespace tw
