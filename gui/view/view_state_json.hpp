// A ViewState as part of a session document. Tracks are written by their paths ("node0/PP3/dp 1"), so that a
// session fits a trace whose ranks come in another order; what the trace lacks is left out.
#pragma once

#include "base/json.hpp"
#include "base/result.hpp"
#include "gui/view/view_state.hpp"

namespace tw {

Json to_json(const ViewState& state, const TraceModel& model);
// All errors at once, with JSON pointers below `pointer`.
Result<ViewState> view_state_from_json(const Json& json, const TraceModel& model,
                                       const std::string& pointer = "");

}  // namespace tw
