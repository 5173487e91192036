// The arrows of a foreign trace. Its file says where each begins, goes on and ends as an instant on a thread
// (the Trace Event Format document, "Flow Events"): the task around the instant is meant, the innermost where
// they nest; an end without "bp": "e" means the next task to begin.
#include <algorithm>
#include <numeric>
#include <tuple>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "gui/view/trace_model_builder.hpp"

namespace tw {

TaskId TraceModelBuilder::task_of(const TraceModel& model, const ForeignFlow& end) const {
    const Thread& thread = threads_[end.thread];
    TaskId best = kNoTask;
    for (std::uint32_t l = thread.lane_begin; l < thread.lane_end; ++l) {
        const Lane& lane = model.lanes()[l];
        if (end.part == ForeignFlow::Part::EndAtNext) {
            const auto next =
                model.detail().first_starting_at(model.starts(), lane.begin, lane.end, end.time);
            if (next < lane.end &&
                (best == kNoTask || model.start(static_cast<TaskId>(next)) < model.start(best)))
                best = static_cast<TaskId>(next);
            continue;
        }
        TaskId task = model.first_ending_after(lane, end.time);
        // An arrow may leave at the very end of its task.
        const bool around = task < lane.end && model.start(task) <= end.time;
        if (!around && task > lane.begin && model.finish(task - 1) == end.time) {
            --task;
        } else if (!around) {
            continue;
        }
        if (best == kNoTask || model.start(task) >= model.start(best)) best = task;
    }
    return best;
}

void TraceModelBuilder::bind_flows(TraceModel& model, SimTime shift) {
    using Part = ForeignFlow::Part;
    auto met = std::make_shared<Meetings>();
    std::vector<std::uint32_t> order(flows_.size());
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
        return std::tuple(flows_[a].key, flows_[a].time, flows_[a].part) <
               std::tuple(flows_[b].key, flows_[b].time, flows_[b].part);
    });
    std::vector<TaskId> way;  // of the arrow in hand
    std::int64_t lost = 0;
    const auto finish = [&] {
        if (way.size() > 1) {
            met->members.insert(met->members.end(), way.begin(), way.end());
            met->begin.push_back(static_cast<std::uint32_t>(met->members.size()));
        }
        way.clear();
    };
    for (std::size_t n = 0; n < order.size(); ++n) {
        ForeignFlow& end = flows_[order[n]];
        if (n == 0 || flows_[order[n - 1]].key != end.key || end.part == Part::Begin) finish();
        end.time -= shift;
        const TaskId task = task_of(model, end);
        if (task == kNoTask || (way.empty() && end.part >= Part::End)) {
            ++lost;
            continue;
        }
        if (!way.empty() && way.back() == task) continue;
        way.push_back(task);
        if (end.part < Part::End) continue;
        const TaskId from = way[way.size() - 2];
        finish();
        way = {from};  // a second end would leave from the same task
    }
    finish();
    flows_ = {};
    if (lost > 0)
        warnings_.push_back(
            fmt::format("{} ends of arrows, which lie on no task or have no beginning, were left out",
                        format_count(lost)));
    model.flows_ = std::move(met);
}

}  // namespace tw
