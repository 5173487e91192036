// A timeline for the terminal: one row a rank, time from left to right.
//
//   PP0 │F0─F1─F2─F3─··········B0════B1════B2════B3════│ 27.3 %
//
// A column shows what filled most of it: device work by its letter and microbatch, "~" exposed communication,
// "·" nothing.
#pragma once

#include <string>

#include "plan/trace/trace.hpp"

namespace tw {

inline constexpr int kLastStep = -1;
inline constexpr int kAllSteps = -2;

struct AsciiTimelineOptions {
    int width = 100;  // columns of the whole line, at least 40
    bool colour =
        false;  // backgrounds in the SVG timeline's colours (256-colour codes); letters are dropped then
    bool unicode = true;   // else 7-bit ASCII alone
    int max_ranks = 64;    // more ranks are thinned out evenly, and the heading says so
    int step = kLastStep;  // the step whose period is shown
};

// Heading, rows with their bubble in the step shown last, axis and legend; ends with a newline. O(n log n).
std::string ascii_timeline(const Trace& trace, const AsciiTimelineOptions& options = {});

}  // namespace tw
