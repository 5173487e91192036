#include "plan/trace/svg_overlay.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "plan/trace/drawing.hpp"
#include "plan/trace/svg_panels.hpp"

namespace tw {
namespace {

// The step whose period is the median of steps [first, ...).
std::size_t typical_step(const std::vector<StepAnalysis>& steps, int first) {
    std::vector<std::size_t> order;
    for (std::size_t s = std::min(steps.size() - 1, static_cast<std::size_t>(std::max(0, first)));
         s < steps.size(); ++s)
        order.push_back(s);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return steps[a].period() < steps[b].period(); });
    return order[(order.size() - 1) / 2];
}

StepAnalysis predicted_step(const Trace& predicted) {
    return analyze_steps(predicted).back();
}

StepAnalysis measured_step(const Trace& measured, const OverlayOptions& options) {
    const std::vector<StepAnalysis> steps = analyze_steps(measured);
    const bool chosen =
        options.measured_step >= 0 && static_cast<std::size_t>(options.measured_step) < steps.size();
    return steps[chosen ? static_cast<std::size_t>(options.measured_step)
                        : typical_step(steps, options.first_measured_step)];
}

// What a rank does in [begin, end), with `begin` as time 0.
RankTrace window(const RankTrace& rank, SimTime begin, SimTime end) {
    RankTrace out = rank;
    out.events.clear();
    out.memory.clear();
    for (const TraceEvent& event : rank.events) {
        if (event.start >= end || event.end <= begin) continue;
        TraceEvent shifted = event;
        shifted.arrival = std::max<SimTime>(0, event.arrival - begin);
        shifted.start = std::max<SimTime>(0, event.start - begin);
        shifted.end = std::min(event.end, end) - begin;
        out.events.push_back(shifted);
    }
    return out;
}

// Both traces' steps in one: rank by rank the predicted row, then the measured one.
struct Overlaid {
    Trace trace;
    StepAnalysis step;
    std::size_t all_ranks = 0, shown_ranks = 0;
};

Overlaid overlay(const Trace& predicted, const StepAnalysis& p, const Trace& measured, const StepAnalysis& m,
                 int max_ranks) {
    const std::vector<std::size_t> partners = partners_of(predicted, measured);
    std::vector<std::size_t> joined;
    for (std::size_t r = 0; r < measured.ranks.size(); ++r)
        if (partners[r] != kNoPartner) joined.push_back(r);
    Overlaid out;
    out.all_ranks = joined.size();
    out.step.step = m.step;
    out.step.end = std::max(p.period(), m.period());
    if (joined.empty()) return out;
    for (const std::size_t row :
         shown_rows(joined.size(), static_cast<std::size_t>(std::max(1, max_ranks)))) {
        const std::size_t at = joined[row];
        RankTrace before = window(predicted.ranks[partners[at]], p.begin, p.end);
        RankTrace now = window(measured.ranks[at], m.begin, m.end);
        // A rank's two rows stand under its name.
        before.node = now.node = row_name(measured.ranks[at]);
        before.name = "predicted";
        now.name = "measured";
        out.trace.ranks.push_back(std::move(before));
        out.trace.ranks.push_back(std::move(now));
        out.step.ranks.push_back(p.ranks[partners[at]]);
        out.step.ranks.push_back(m.ranks[at]);
        ++out.shown_ranks;
    }
    return out;
}

std::string facts(const StepAnalysis& p, const StepAnalysis& m, const Overlaid& overlaid) {
    const double predicted = to_seconds(p.period()).value, measured = to_seconds(m.period()).value;
    const double error = measured > 0 ? (predicted - measured) / measured : 0;
    std::string text = fmt::format(
        "predicted {} · measured {} (step {}) · error {}{} · bubble {} predicted, {} measured",
        format_duration(predicted), format_duration(measured), m.step, error > 0 ? "+" : "",
        format_percent(error), format_percent(p.bubble_fraction), format_percent(m.bubble_fraction));
    if (overlaid.shown_ranks < overlaid.all_ranks)
        text += fmt::format(" · {} of {} ranks shown", overlaid.shown_ranks, overlaid.all_ranks);
    return text;
}

// Where each of the two steps ends, where the picture reaches that far.
void draw_end(SvgCanvas& canvas, const SvgFrame& frame, SimTime end, std::string_view name, double top,
              double bottom, double text_y) {
    if (end <= frame.axis.begin || end > frame.axis.end) return;
    const double x = frame.x(end);
    canvas.line(x, top, x, bottom, "stroke=\"#111827\" stroke-width=\"1.2\" stroke-dasharray=\"5 3\"");
    canvas.text(x - 4, text_y, fmt::format("{} step ends", name),
                fmt::format("font-size=\"11\" text-anchor=\"end\" fill=\"{}\"", kFaintInk));
}

}  // namespace

double overlaid_seconds(const Trace& predicted, const Trace& measured, const OverlayOptions& options) {
    const SimTime longer =
        std::max(predicted_step(predicted).period(), measured_step(measured, options).period());
    return to_seconds(longer).value;
}

std::string render_overlay(const Trace& predicted, const Trace& measured, const OverlayOptions& options) {
    const StepAnalysis p = predicted_step(predicted), m = measured_step(measured, options);
    Overlaid overlaid = overlay(predicted, p, measured, m, options.max_ranks);
    overlaid.trace.title = options.title.empty() ? measured.title : options.title;

    SvgCanvas canvas(std::max(400.0, options.width));
    SvgFrame frame;
    frame.rows = shown_rows(overlaid.trace.ranks.size(), overlaid.trace.ranks.size());
    frame.left = 160;
    frame.right = canvas.width() - 30;
    const SimTime begin = to_sim_time(Seconds{std::max(0.0, options.zoom_begin_s)});
    const SimTime end = options.zoom_end_s > 0 ? to_sim_time(Seconds{options.zoom_end_s}) : overlaid.step.end;
    frame.axis =
        make_time_axis(begin, std::max(end, begin + 1), static_cast<int>((frame.right - frame.left) / 90));

    SvgOptions drawing;
    drawing.tooltips = options.tooltips;
    drawing.title = overlaid.trace.title;
    // The legend is that of all rows; its line of facts is ours.
    double y = draw_heading(canvas, overlaid.trace, drawing, frame, facts(p, m, overlaid), 0);
    if (overlaid.trace.ranks.empty()) {
        canvas.text(16, y + 20, "no rank is in both traces",
                    fmt::format("font-size=\"13\" fill=\"{}\"", kAlarm));
        return canvas.finish(y + 40, overlaid.trace.title);
    }
    const double top = y + 20;
    y = draw_timeline(canvas, overlaid.trace, drawing, frame, {overlaid.step}, y);
    draw_end(canvas, frame, p.period(), "predicted", top, y - 14, y);
    draw_end(canvas, frame, m.period(), "measured", top, y - 14, y + 14);
    return canvas.finish(y + 24, overlaid.trace.title);
}

}  // namespace tw
