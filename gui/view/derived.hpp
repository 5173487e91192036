// What is derived from a trace and takes longer than a frame: who meets whom, where ranks idle, which chain
// of tasks decides the time. Made once by a worker; immutable.
#pragma once

#include <memory>
#include <vector>

#include "gui/view/flow.hpp"
#include "gui/view/trace_model.hpp"
#include "plan/trace/intervals.hpp"

namespace tw {

struct DerivedTrace {
    FlowIndex flows;
    // By rank of the model, disjoint and ascending: no device work between the first start and the last end.
    std::vector<Intervals> bubbles;     // and no communication either
    std::vector<Intervals> exposed;     // but communication
    std::vector<TaskId> critical_path;  // ascending in time
    std::vector<TaskId> on_path;        // the same, ascending by task
    SimTime path_length = 0;
    SimTime path_gaps = 0;
    [[nodiscard]] bool is_on_path(TaskId task) const;
};

// Foreign traces have bubbles and the arrows of their file. O(n log n).
std::shared_ptr<const DerivedTrace> derive(const TraceModel& model);

}  // namespace tw
