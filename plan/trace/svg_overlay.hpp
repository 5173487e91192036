// A prediction and a measurement in one picture: each rank's predicted row above its measured one, one time
// axis for both, both steps beginning at 0. Whatever part of the step is shown, it is the same for both.
#pragma once

#include <string>

#include "plan/trace/compare.hpp"
#include "plan/trace/svg_timeline.hpp"

namespace tw {

struct OverlayOptions {
    double width = 1600;            // pixels
    int max_ranks = 32;             // more are thinned out evenly, and the heading says so
    int measured_step = kLastStep;  // kLastStep: the one whose period is the median of those that count
    int first_measured_step = 0;    // the steps from here on count
    // Seconds after the step's begin that are shown; end 0: up to the longer step's end.
    double zoom_begin_s = 0, zoom_end_s = 0;
    bool tooltips = true;
    std::string title;  // empty: the measurement's
};

// How long the longer one of the two steps takes that are drawn.
double overlaid_seconds(const Trace& predicted, const Trace& measured, const OverlayOptions& options = {});

// Ranks that the prediction lacks are left out. Deterministic.
std::string render_overlay(const Trace& predicted, const Trace& measured, const OverlayOptions& options = {});

}  // namespace tw
