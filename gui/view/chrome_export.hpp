// The trace of any timeline as Chrome trace events, which chrome://tracing and Perfetto read and
// load_trace_model opens again: our own by plan/trace/chrome.hpp, those of other tools by their tasks, arrows
// and memory.
#pragma once

#include <iosfwd>

#include "gui/view/trace_model.hpp"

namespace tw {

// Times are those of the model: they begin at 0, clocks aligned, exact to the picosecond. What a foreign file
// says of a task beyond its name, kind and time is not kept by the model and so not written.
void write_chrome(const TraceModel& model, std::ostream& out);

}  // namespace tw
