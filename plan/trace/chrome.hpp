// Chrome trace events (JSON), as chrome://tracing, Perfetto and PyTorch's tools read them. Format: "Trace
// Event Format", Google 2016: complete events X, metadata M, flows s/f, counters C; times are microseconds.
#pragma once

#include <iosfwd>

#include "plan/trace/trace.hpp"

namespace tw {

// One process a rank, one thread a lane (stream and communicator); names like "F mb3 s1" with stage,
// microbatch, bytes and the wait before a rendezvous as arguments; a flow from every send to its receive; a
// counter of memory by category; a marker at each step's end. Clocks are aligned and start at 0. Writes event
// by event: memory does not grow with the trace. Deterministic; times are exact to the picosecond.
void write_chrome_trace(const Trace& trace, std::ostream& out);

}  // namespace tw
