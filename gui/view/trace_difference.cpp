#include "gui/view/trace_difference.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>

#include "base/prng.hpp"

namespace tw {
namespace {

// A piece of work in its step, whatever its place in the order and the class of its duration: plans with
// different schedules do the same work. `seen` counts equals.
class WorkKeys {
  public:
    explicit WorkKeys(const TraceModel& model) : model_(model) {}
    std::uint64_t operator()(std::uint32_t rank, std::uint32_t event, int step) {
        const Instruction& i = model_.source()->ranks[rank].events[event].instruction;
        const std::uint64_t place = std::uint64_t{i.stage} << 48U ^
                                    std::uint64_t{static_cast<std::uint32_t>(i.microbatch)} << 8U ^
                                    static_cast<std::uint64_t>(i.opcode);
        const std::uint64_t work =
            mix64(mix64(place) + (std::uint64_t{i.part} << 32U) + static_cast<std::uint32_t>(step));
        return mix64(work + seen_[work]++);
    }

  private:
    const TraceModel& model_;
    std::unordered_map<std::uint64_t, std::uint32_t> seen_;  // asked, never walked
};

float relative(SimTime own, SimTime other) {
    if (other == 0) return own == 0 ? 0.0F : 1.0F;
    return static_cast<float>(static_cast<double>(own - other) / static_cast<double>(other));
}

bool has_inside(const RankTrace& rank) {
    return std::ranges::any_of(rank.events, [](const TraceEvent& e) { return e.inside_another(); });
}

// What is drawn inside other instructions (a prediction's collectives of layers) is no work that a trace
// without such events lacks.
void leave_out_inside(const TraceModel& model, std::uint32_t rank, const RankTrace& other,
                      std::vector<float>& differences) {
    if (has_inside(other)) return;
    const RankTrace& own = model.source()->ranks[rank];
    for (std::uint32_t e = 0; e < own.events.size(); ++e) {
        if (!own.events[e].inside_another()) continue;
        if (const TaskId task = model.task_of({rank, e}); task != kNoTask) differences[task] = 0;
    }
}

}  // namespace

TraceDifference difference(const TraceModel& first, const TraceModel& second, int shift) {
    TraceDifference out;
    if (first.source() == nullptr || second.source() == nullptr) return out;
    constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
    out.first.assign(first.size(), kNone);
    out.second.assign(second.size(), kNone);
    out.partner_of_first.assign(first.size(), kNoTask);
    out.partner_of_second.assign(second.size(), kNoTask);
    // One predicted rank may stand for all replicas: the pipeline rank alone is the second choice.
    std::map<std::pair<int, int>, std::uint32_t> by_place;
    std::map<int, std::uint32_t> by_pipeline_rank;
    const auto& ranks = first.source()->ranks;
    for (std::uint32_t r = 0; r < ranks.size(); ++r) {
        by_place.emplace(std::pair(ranks[r].schedule_rank(), ranks[r].replica), r);
        by_pipeline_rank.emplace(ranks[r].schedule_rank(), r);
    }
    std::unordered_map<std::uint64_t, std::uint32_t> events;  // asked, never walked
    for (std::uint32_t r = 0; r < second.source()->ranks.size(); ++r) {
        const RankTrace& measured = second.source()->ranks[r];
        std::uint32_t partner = 0;
        if (const auto at = by_place.find({measured.schedule_rank(), measured.replica});
            at != by_place.end()) {
            partner = at->second;
        } else if (const auto by_rank = by_pipeline_rank.find(measured.schedule_rank());
                   by_rank != by_pipeline_rank.end()) {
            partner = by_rank->second;
        } else {
            continue;
        }
        const RankTrace& predicted = ranks[partner];
        events.clear();
        leave_out_inside(first, partner, measured, out.first);
        leave_out_inside(second, r, predicted, out.second);
        WorkKeys predicted_keys(first);
        for (std::uint32_t e = 0; e < predicted.events.size(); ++e)
            events.emplace(predicted_keys(partner, e, predicted.events[e].step + shift), e);
        WorkKeys measured_keys(second);
        for (std::uint32_t e = 0; e < measured.events.size(); ++e) {
            const auto at = events.find(measured_keys(r, e, measured.events[e].step));
            if (at == events.end()) continue;
            const TraceEvent& a = predicted.events[at->second];
            const TraceEvent& b = measured.events[e];
            const TaskId ta = first.task_of({partner, at->second});
            const TaskId tb = second.task_of({r, e});
            if (ta == kNoTask || tb == kNoTask) continue;
            out.first[ta] = relative(a.end - a.start, b.end - b.start);
            out.second[tb] = relative(b.end - b.start, a.end - a.start);
            out.partner_of_first[ta] = tb;
            out.partner_of_second[tb] = ta;
        }
    }
    return out;
}

}  // namespace tw
