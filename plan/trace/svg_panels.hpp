// The panels of render_svg, drawn below each other on one canvas.
#pragma once

#include "plan/trace/analyze.hpp"
#include "plan/trace/svg_canvas.hpp"
#include "plan/trace/svg_timeline.hpp"
#include "plan/trace/time_axis.hpp"

namespace tw {

struct SvgFrame {
    TimeAxis axis;
    double left = 150, right = 1570;  // of the plot, in pixels
    std::vector<std::size_t> rows;    // ranks shown

    [[nodiscard]] double x(SimTime time) const { return left + axis.share(time) * (right - left); }
};

// Each returns the y below what it drew.
double draw_heading(SvgCanvas& canvas, const Trace& trace, const SvgOptions& options, const SvgFrame& frame,
                    const std::vector<StepAnalysis>& steps, double y);
// The same with another line of facts below the title.
double draw_heading(SvgCanvas& canvas, const Trace& trace, const SvgOptions& options, const SvgFrame& frame,
                    const std::string& facts, double y);
double draw_timeline(SvgCanvas& canvas, const Trace& trace, const SvgOptions& options, const SvgFrame& frame,
                     const std::vector<StepAnalysis>& steps, double y);
double draw_memory(SvgCanvas& canvas, const Trace& trace, const SvgFrame& frame, double y);

// Vertical grid lines and tick labels above `top`.
void draw_axis(SvgCanvas& canvas, const SvgFrame& frame, double top, double bottom);

}  // namespace tw
