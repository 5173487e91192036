#include "plan/trace/stragglers.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "plan/trace/analyze.hpp"

namespace tw {
namespace {

double seconds(SimTime time) {
    return to_seconds(time).value;
}

// The median; of an even number the mean of the middle two.
double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    if (values.size() % 2 == 1) return *middle;
    return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

struct StepExtremes {
    double late_s = 0, waited_s = 0;
    bool any = false;
};

}  // namespace

Arrivals analyze_arrivals(const Trace& trace, const StragglerOptions& options) {
    Arrivals out;
    const std::vector<StepAnalysis> steps = analyze_steps(trace);
    const int first = static_cast<int>(steps.size()) > options.first_step ? options.first_step : 0;
    for (std::size_t s = static_cast<std::size_t>(first); s < steps.size(); ++s)
        out.step_s +=
            seconds(steps[s].period()) / static_cast<double>(steps.size() - static_cast<std::size_t>(first));

    std::vector<std::map<std::int32_t, StepExtremes>> extremes(trace.ranks.size());
    std::vector<std::int64_t> collectives(trace.ranks.size(), 0);
    const Rendezvous meetings = match_rendezvous(trace);
    for (std::size_t m = 0; m < meetings.size(); ++m) {
        const auto members = meetings.members_of(m);
        const auto event = [&](const EventRef& ref) -> const TraceEvent& {
            return trace.ranks[ref.rank].events[ref.event];
        };
        const TraceEvent& one = event(members.front());
        if (!is_collective(one.instruction.opcode) || one.instruction.group != 0 || one.step < first)
            continue;
        SimTime last = 0;
        for (const EventRef& member : members)
            last = std::max(last, event(member).arrival);
        for (const EventRef& member : members) {
            std::vector<double> others;
            for (const EventRef& other : members)
                if (!(other == member)) others.push_back(seconds(event(other).arrival));
            const double own = seconds(event(member).arrival), late = own - median(std::move(others));
            StepExtremes& step = extremes[member.rank][event(member).step];
            step.late_s = step.any ? std::max(step.late_s, late) : late;
            step.waited_s = std::max(step.waited_s, seconds(last) - own);
            step.any = true;
            ++collectives[member.rank];
        }
    }
    for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
        if (collectives[r] == 0) continue;
        RankArrivals rank{trace.ranks[r].rank, collectives[r], 0, 0};
        const auto count = static_cast<double>(extremes[r].size());
        for (const auto& [step, extreme] : extremes[r]) {
            rank.late_s += extreme.late_s / count;
            rank.waited_s += extreme.waited_s / count;
        }
        out.ranks.push_back(rank);
    }
    std::vector<RankArrivals> latest = out.ranks;
    std::stable_sort(latest.begin(), latest.end(),
                     [](const RankArrivals& a, const RankArrivals& b) { return a.late_s > b.late_s; });
    for (const RankArrivals& rank : latest)
        if (rank.late_s > options.threshold * out.step_s) out.stragglers.push_back(rank.rank);
    return out;
}

std::vector<std::string> describe(const Arrivals& arrivals) {
    std::vector<std::string> lines;
    for (const int straggler : arrivals.stragglers) {
        double late = 0;
        std::vector<double> waits;
        for (const RankArrivals& rank : arrivals.ranks) {
            if (rank.rank == straggler) late = rank.late_s;
            if (std::find(arrivals.stragglers.begin(), arrivals.stragglers.end(), rank.rank) ==
                arrivals.stragglers.end())
                waits.push_back(rank.waited_s);
        }
        std::string line =
            fmt::format("rank {} arrives {} after the others", straggler, format_duration(late));
        if (!waits.empty())
            line += fmt::format(", who wait {} for it", format_duration(median(std::move(waits))));
        lines.push_back(line + fmt::format(" (of a step of {})", format_duration(arrivals.step_s)));
    }
    return lines;
}

}  // namespace tw
