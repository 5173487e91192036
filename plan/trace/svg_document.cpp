#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "plan/trace/drawing.hpp"
#include "plan/trace/svg_panels.hpp"

namespace tw {
namespace {

struct LegendEntry {
    std::string fill;
    std::string text;
    Work work;
};

std::vector<LegendEntry> legend_of(const Trace& trace, const SvgFrame& frame) {
    std::array<bool, kWorkKinds> present{};
    std::array<bool, kWorkKinds> pale{};
    std::size_t chunks = 1;
    for (const std::size_t r : frame.rows) {
        const std::vector<std::uint16_t> stages = stages_of(trace.ranks[r]);
        chunks = std::max(chunks, stages.size());
        for (const TraceEvent& event : trace.ranks[r].events) {
            if (event.end <= event.start) continue;
            const auto work = static_cast<std::size_t>(work_of(event.instruction));
            present[work] = true;
            if (is_compute(event.instruction.opcode) && chunk_of(stages, event.instruction.stage) % 2 == 1)
                pale[work] = true;
        }
    }
    std::vector<LegendEntry> out;
    for (std::size_t k = 0; k < kWorkKinds; ++k) {
        const auto work = static_cast<Work>(k);
        if (present[k]) out.push_back({fill_of(work), std::string(title(work)), work});
        if (pale[k] && k < 3)
            out.push_back({fill_of(work, 1),
                           fmt::format("{}, {} chunk", title(work), chunks == 2 ? "second" : "odd"), work});
    }
    return out;
}

}  // namespace

void draw_axis(SvgCanvas& canvas, const SvgFrame& frame, double top, double bottom) {
    canvas.open_group(fmt::format("stroke=\"{}\" stroke-width=\"1\"", kGrid));
    for (const SimTime tick : frame.axis.ticks) {
        const double x = frame.x(tick);
        canvas.line(x, top, x, bottom, "");
    }
    canvas.close_group();
    canvas.open_group(fmt::format("font-size=\"11\" text-anchor=\"middle\" fill=\"{}\"", kFaintInk));
    for (std::size_t k = 0; k < frame.axis.ticks.size(); ++k) {
        const SimTime tick = frame.axis.ticks[k];
        std::string text = frame.axis.label(tick);
        if (k + 1 == frame.axis.ticks.size()) text += fmt::format(" {}", frame.axis.unit);
        canvas.text(frame.x(tick), top - 6, text);
    }
    canvas.close_group();
}

double draw_heading(SvgCanvas& canvas, const Trace& trace, const SvgOptions& options, const SvgFrame& frame,
                    const std::vector<StepAnalysis>& steps, double y) {
    const std::size_t last = options.step >= 0 && static_cast<std::size_t>(options.step) < steps.size()
                                 ? static_cast<std::size_t>(options.step)
                                 : steps.size() - 1;
    std::string facts =
        headline(trace, {steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(last) + 1});
    if (frame.rows.size() < trace.ranks.size()) {
        facts += fmt::format(" · {} of {} ranks shown", frame.rows.size(),
                             format_count(static_cast<std::int64_t>(trace.ranks.size())));
    }
    return draw_heading(canvas, trace, options, frame, facts, y);
}

double draw_heading(SvgCanvas& canvas, const Trace& trace, const SvgOptions& options, const SvgFrame& frame,
                    const std::string& facts, double y) {
    const std::string& heading = options.title.empty() ? trace.title : options.title;
    canvas.text(16, y + 32, heading.empty() ? "Timeline" : heading, "font-size=\"20\" font-weight=\"bold\"");
    canvas.text(16, y + 54, facts, fmt::format("font-size=\"13\" fill=\"{}\"", kFaintInk));
    double at = y + 66;
    if (options.timeline) {
        double x = 16;
        const auto entry = [&](double width) {
            if (x + width > canvas.width() - 16) {
                x = 16;
                at += 20;
            }
        };
        for (const LegendEntry& item : legend_of(trace, frame)) {
            const double width = 28 + text_width(item.text, 12) + 16;
            entry(width);
            if (item.work == Work::ForwardBackward) {
                canvas.rect(x, at, 20, 6, fmt::format("fill=\"{}\"", colour_of(Work::Forward)));
                canvas.rect(x, at + 6, 20, 6, fmt::format("fill=\"{}\"", colour_of(Work::Backward)));
            } else {
                canvas.rect(x, at, 20, 12, fmt::format("fill=\"{}\"", item.fill));
            }
            canvas.text(x + 27, at + 10, item.text);
            x += width;
        }
        if (options.critical_path) {
            entry(130);
            canvas.rect(x + 1, at + 1, 18, 10, "fill=\"none\" stroke=\"#111827\" stroke-width=\"1.8\"");
            canvas.text(x + 27, at + 10, "critical path");
        }
        at += 24;
    }
    return at;
}

std::string render_svg(const Trace& trace, const SvgOptions& options) {
    SvgCanvas canvas(std::max(400.0, options.width));
    const std::vector<StepAnalysis> steps = analyze_steps(trace);
    SvgFrame frame;
    frame.rows = shown_rows(trace.ranks.size(), static_cast<std::size_t>(std::max(1, options.max_ranks)));
    double gutter = 108;  // names and shares of idle time, or a node's name above them
    for (const std::size_t r : frame.rows) {
        const RankTrace& rank = trace.ranks[r];
        gutter =
            std::max({gutter, text_width(row_name(rank), 13) + 68, text_width(rank.node, 11) * 1.1 + 12});
    }
    frame.left = 16 + std::min(gutter, canvas.width() / 3);
    frame.right = canvas.width() - 30;
    const bool one = options.step != kAllSteps;
    const StepAnalysis& shown = options.step >= 0 && static_cast<std::size_t>(options.step) < steps.size()
                                    ? steps[static_cast<std::size_t>(options.step)]
                                    : steps.back();
    frame.axis = make_time_axis(one ? shown.begin : steps.front().begin, shown.end,
                                static_cast<int>((frame.right - frame.left) / 90));
    double y = draw_heading(canvas, trace, options, frame, steps, 0);
    if (options.timeline) y = draw_timeline(canvas, trace, options, frame, steps, y);
    if (options.memory) y = draw_memory(canvas, trace, frame, y);
    return canvas.finish(y + 8, options.title.empty() ? trace.title : options.title);
}

}  // namespace tw
