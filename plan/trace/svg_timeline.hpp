// The picture of a trace: ranks as rows, streams as thin rows below them, time to the right; memory of each
// rank as stacked areas below, on the same time axis.
#pragma once

#include <string>

#include "plan/trace/ascii_timeline.hpp"
#include "plan/trace/svg_canvas.hpp"
#include "plan/trace/trace.hpp"

namespace tw {

struct SvgOptions {
    double width = 1600;   // pixels
    int step = kAllSteps;  // or one step's period
    bool timeline = true;
    bool memory = false;         // needs memory samples in the trace; ranks without are left out
    bool critical_path = false;  // outlined
    bool tooltips = true;        // a <title> in every event
    int max_ranks = 64;          // more are thinned out evenly, and the heading says so
    std::string title;           // empty: the trace's
};

// A whole document. Events narrower than a pixel are merged with their neighbours of the same kind into one
// bar whose tooltip (and label, where it fits) says how many; nothing that took time vanishes. O(n log n);
// deterministic.
std::string render_svg(const Trace& trace, const SvgOptions& options = {});

}  // namespace tw
