#include "gui/view/derived.hpp"

#include <algorithm>

#include "plan/trace/analyze.hpp"

namespace tw {
namespace {

// Where tasks of a rank that `counts` picks run.
template <class Predicate>
Intervals busy(const TraceModel& model, const ModelRank& rank, const Predicate& counts) {
    Intervals out;
    for (std::uint32_t l = rank.lane_begin; l < rank.lane_end; ++l) {
        const Lane& lane = model.lanes()[l];
        for (TaskId t = lane.begin; t < lane.end; ++t) {
            if (!counts(model.kind(t)) || model.start(t) == model.finish(t)) continue;
            // A lane is sorted: what touches grows.
            if (!out.empty() && out.back().begin <= model.start(t) && out.back().end >= model.start(t)) {
                out.back().end = std::max(out.back().end, model.finish(t));
            } else {
                out.push_back({model.start(t), model.finish(t)});
            }
        }
    }
    return merged(std::move(out));
}

}  // namespace

bool DerivedTrace::is_on_path(TaskId task) const {
    return std::binary_search(on_path.begin(), on_path.end(), task);
}

std::shared_ptr<const DerivedTrace> derive(const TraceModel& model) {
    auto out = std::make_shared<DerivedTrace>();
    for (const ModelRank& rank : model.ranks()) {
        const Intervals device = busy(model, rank, [](TaskKind k) { return is_device_work(k); });
        Intervals idle;
        Intervals exposed;
        if (!device.empty()) {  // a process without a device has no bubbles
            idle = difference({{model.begin(), model.end()}}, device);
            const Intervals communication = busy(model, rank, [](TaskKind k) { return is_communication(k); });
            const Intervals quiet = difference(idle, communication);
            exposed = difference(idle, quiet);
            idle = quiet;
        }
        out->bubbles.push_back(std::move(idle));
        out->exposed.push_back(std::move(exposed));
    }
    out->flows = FlowIndex(model);
    if (model.source() == nullptr) return out;
    const Rendezvous met = match_rendezvous(*model.source());
    const CriticalPath path = critical_path(*model.source(), met);
    out->path_length = path.length;
    out->path_gaps = path.gaps;
    for (const PathSegment& segment : path.segments) {
        if (const TaskId task = model.task_of(segment.event); task != kNoTask)
            out->critical_path.push_back(task);
    }
    out->on_path = out->critical_path;
    std::sort(out->on_path.begin(), out->on_path.end());
    return out;
}

}  // namespace tw
