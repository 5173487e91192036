#include "plan/trace/svg_timeline.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "plan/trace/drawing.hpp"
#include "plan/trace/svg_panels.hpp"

namespace tw {
namespace {

constexpr double kNarrow = 0.9;  // pixels: events below are merged
constexpr double kStriped = 6;   // pixels: below, a pattern would leave holes
// Above so many events, transfers, and above so many, single kernels, carry no tooltips: the document stays
// small.
constexpr std::size_t kManyEvents = 10'000, kHugeEvents = 40'000;

std::string tooltip(std::string_view text) {
    return fmt::format("<title>{}</title>", svg_escape(text));
}

// One horizontal band of a rank: a stream, or the sending or receiving half of the transfers.
struct Band {
    std::string name;
    double y = 0, height = 0;
    std::vector<const TraceEvent*> events;  // by start
};

struct Bar {
    double x = 0, width = 0;
    Work work = Work::Forward;
    std::size_t chunk = 0;
    std::vector<const TraceEvent*> events;
};

class BandDrawer {
  public:
    BandDrawer(SvgCanvas& canvas, const SvgOptions& options, const SvgFrame& frame,
               std::vector<std::uint16_t> stages, std::size_t drawn)
        : canvas_(canvas), options_(options), frame_(frame), stages_(std::move(stages)), drawn_(drawn) {}

    void draw(const Band& band) const {
        const std::vector<Bar> bars = bars_of(band);
        // One group a fill keeps the document small.
        for (int k = 0; k < kWorkKinds; ++k) {
            for (std::size_t pale = 0; pale < 2; ++pale)
                draw_fill(band, bars, static_cast<Work>(k), pale);
        }
        draw_labels(band, bars);
    }

  private:
    std::vector<Bar> bars_of(const Band& band) const {
        std::vector<Bar> bars;
        for (const TraceEvent* event : band.events) {
            const double from = std::max(frame_.left, frame_.x(event->start));
            const double to = std::min(frame_.right, frame_.x(event->end));
            const Work work = work_of(event->instruction);
            const std::size_t chunk =
                is_compute(event->instruction.opcode) ? chunk_of(stages_, event->instruction.stage) % 2 : 0;
            const bool narrow = to - from < kNarrow;
            if (narrow && !bars.empty()) {
                Bar& last = bars.back();
                if (last.width < 2 * kNarrow && last.work == work && from - (last.x + last.width) < kNarrow) {
                    last.width = std::max(last.width, to - last.x);
                    last.events.push_back(event);
                    continue;
                }
            }
            bars.push_back({from, narrow ? kNarrow : to - from, work, chunk, {event}});
        }
        return bars;
    }

    void draw_fill(const Band& band, const std::vector<Bar>& bars, Work work, std::size_t pale) const {
        bool open = false;
        std::string untold, untold_thin;  // bars without tooltips, as one path each: striped, and plain
        for (const Bar& bar : bars) {
            if (bar.work != work || bar.chunk != pale) continue;
            if (!open) canvas_.open_group(fmt::format("fill=\"{}\"", fill_of(work, pale)));
            open = true;
            // A hair of background between neighbours.
            const double width = bar.width > 3 ? bar.width - 0.7 : bar.width;
            const bool crowded = drawn_ > (is_device_work(work) ? kHugeEvents : kManyEvents);
            const bool told = options_.tooltips && (!crowded || bar.events.size() > 1);
            const bool plain = is_communication(work) && width < kStriped;
            if (!told && work != Work::ForwardBackward) {
                (plain ? untold_thin : untold) +=
                    fmt::format("M{} {}h{}v{}h-{}z", svg_number(bar.x), svg_number(band.y), svg_number(width),
                                svg_number(band.height), svg_number(width));
                continue;
            }
            const std::string inner = told ? tooltip(describe(bar)) : "";
            const std::string own_fill = plain ? fmt::format("fill=\"{}\"", colour_of(work)) : "";
            if (work == Work::ForwardBackward) {
                canvas_.rect(bar.x, band.y, width, band.height / 2, {}, inner);
                canvas_.rect(bar.x, band.y + band.height / 2, width, band.height / 2,
                             fmt::format("fill=\"{}\"", colour_of(Work::Backward)), inner);
            } else {
                canvas_.rect(bar.x, band.y, width, band.height, own_fill, inner);
            }
        }
        if (!untold.empty()) canvas_.raw(fmt::format("<path d=\"{}\"/>\n", untold));
        if (!untold_thin.empty()) {
            canvas_.raw(fmt::format("<path d=\"{}\" fill=\"{}\"/>\n", untold_thin, colour_of(work)));
        }
        if (open) canvas_.close_group();
    }

    static std::string describe(const Bar& bar) {
        const TraceEvent& first = *bar.events.front();
        if (bar.events.size() == 1) {
            std::string text =
                fmt::format("{}: {} from {}", event_name(first.instruction),
                            format_sim_time(first.end - first.start), format_sim_time(first.start, 5));
            if (first.start > first.arrival)
                text += fmt::format(", waited {}", format_sim_time(first.start - first.arrival));
            return text;
        }
        SimTime total = 0;
        for (const TraceEvent* event : bar.events)
            total += event->end - event->start;
        return fmt::format("{} events, {}: {} from {}", bar.events.size(), title(bar.work),
                           format_sim_time(total), format_sim_time(first.start, 5));
    }

    static std::string label(const Bar& bar) {
        const Instruction& i = bar.events.front()->instruction;
        if (bar.events.size() > 1) return fmt::format("×{}", bar.events.size());
        if (bar.work == Work::Optimizer) return "opt";
        return i.microbatch == kNoMicrobatch ? "" : std::to_string(i.microbatch);
    }

    void draw_labels(const Band& band, const std::vector<Bar>& bars) const {
        if (band.height < 11) return;
        const double size = std::min(13.0, band.height * 0.5);
        bool open = false;
        for (const Bar& bar : bars) {
            if (!is_device_work(bar.work)) continue;
            const std::string text = label(bar);
            if (text.empty() || text_width(text, size) + 3 > bar.width) continue;
            if (!open)
                canvas_.open_group(fmt::format("font-size=\"{}\" text-anchor=\"middle\"", svg_number(size)));
            open = true;
            const double x = bar.x + bar.width / 2, middle = band.y + band.height / 2;
            if (bar.work == Work::ForwardBackward) {
                const Instruction& i = bar.events.front()->instruction;
                const double small = band.height * 0.36;
                const std::string attributes = fmt::format("font-size=\"{}\"", svg_number(small));
                if (small < 7) continue;
                canvas_.text(x, middle - band.height * 0.12, text, attributes);
                canvas_.text(x, middle + band.height * 0.38, std::to_string(i.microbatch2),
                             attributes + " fill=\"#ffffff\"");
                continue;
            }
            const std::string_view ink = bar.chunk > 0 ? "#10202c" : text_colour_on(bar.work);
            canvas_.text(x, middle + size * 0.36, text, fmt::format("fill=\"{}\"", ink));
        }
        if (open) canvas_.close_group();
    }

    SvgCanvas& canvas_;
    const SvgOptions& options_;
    const SvgFrame& frame_;
    std::vector<std::uint16_t> stages_;
    std::size_t drawn_;  // events in the whole picture
};

// Heights of a rank's rows for so many ranks: readable for a few, compact for many.
double row_height(std::size_t ranks) {
    return std::clamp(620.0 / static_cast<double>(std::max<std::size_t>(1, ranks)), 9.0, 34.0);
}

bool is_receive_half(const Instruction& i) {
    return i.stream == Stream::P2p && is_receive(i.opcode);
}

std::vector<Band> bands_of(const RankTrace& rank, const SvgFrame& frame, double y, double height) {
    std::array<std::vector<const TraceEvent*>, 8> by_stream;  // the last: receives
    for (const TraceEvent& event : rank.events) {
        if (event.end <= event.start || event.end <= frame.axis.begin || event.start >= frame.axis.end)
            continue;
        const std::size_t at =
            is_receive_half(event.instruction) ? 7 : static_cast<std::size_t>(event.instruction.stream);
        by_stream[at].push_back(&event);
    }
    std::vector<Band> bands;
    double at = y;
    const double thin = std::clamp(height * 0.22, 3.0, 7.0);
    // Transfers first: sends, then receives, then the other streams in their order.
    for (const std::size_t s : {std::size_t{0}, std::size_t{3}, std::size_t{7}, std::size_t{1},
                                std::size_t{2}, std::size_t{4}, std::size_t{5}, std::size_t{6}}) {
        if (s != 0 && by_stream[s].empty()) continue;
        Band band;
        band.name = s == 7 ? "receive" : s == 3 ? "send" : std::string(to_string(static_cast<Stream>(s)));
        band.y = at;
        band.height = s == 0 ? height : thin;
        band.events = std::move(by_stream[s]);
        std::stable_sort(band.events.begin(), band.events.end(),
                         [](const TraceEvent* a, const TraceEvent* b) { return a->start < b->start; });
        at += band.height + (s == 0 ? 1.5 : 1.0);
        bands.push_back(std::move(band));
    }
    return bands;
}

void draw_path(SvgCanvas& canvas, const Trace& trace, const SvgFrame& frame,
               const std::vector<std::vector<Band>>& bands) {
    // Position of each drawn event: (rank, event) to its band.
    const auto band_of = [&](EventRef ref) -> const Band* {
        const auto row = std::lower_bound(frame.rows.begin(), frame.rows.end(), ref.rank);
        if (row == frame.rows.end() || *row != ref.rank) return nullptr;
        const TraceEvent* event = &trace.ranks[ref.rank].events[ref.event];
        for (const Band& band : bands[static_cast<std::size_t>(row - frame.rows.begin())]) {
            const auto range = std::equal_range(
                band.events.begin(), band.events.end(), event,
                [](const TraceEvent* a, const TraceEvent* b) { return a->start < b->start; });
            if (std::find(range.first, range.second, event) != range.second) return &band;
        }
        return nullptr;
    };
    canvas.open_group("fill=\"none\" stroke=\"#111827\" stroke-width=\"1.8\" stroke-linejoin=\"round\"");
    double last_x = -1, last_y = -1;
    for (const PathSegment& segment : critical_path(trace, match_rendezvous(trace)).segments) {
        const Band* band = band_of(segment.event);
        if (band == nullptr) continue;
        const double x = frame.x(segment.start), width = std::max(kNarrow, frame.x(segment.end) - x);
        const double middle = band->y + band->height / 2;
        if (last_x >= 0 && middle != last_y) canvas.line(last_x, last_y, x, middle, "stroke-width=\"1.2\"");
        canvas.rect(x + 0.3, band->y, std::max(0.4, width - 1.2), band->height);
        last_x = x + width;
        last_y = middle;
    }
    canvas.close_group();
}

void draw_step_boundaries(SvgCanvas& canvas, const SvgFrame& frame, const std::vector<StepAnalysis>& steps,
                          double top, double bottom) {
    if (steps.size() < 2) return;
    for (const StepAnalysis& step : steps) {
        if (step.end > frame.axis.begin && step.end < frame.axis.end) {
            const double x = frame.x(step.end);
            canvas.line(x, top, x, bottom,
                        "stroke=\"#111827\" stroke-width=\"1.2\" stroke-dasharray=\"5 3\"");
        }
        const SimTime from = std::max(step.begin, frame.axis.begin), to = std::min(step.end, frame.axis.end);
        if (to <= from) continue;
        const double x = (frame.x(from) + frame.x(to)) / 2;
        const std::string text = fmt::format("step {}: {}", step.step, format_sim_time(step.period()));
        if (text_width(text, 11) < frame.x(to) - frame.x(from)) {
            canvas.text(x, bottom + 14, text,
                        fmt::format("text-anchor=\"middle\" font-size=\"11\" fill=\"{}\"", kFaintInk));
        }
    }
}

}  // namespace

double draw_timeline(SvgCanvas& canvas, const Trace& trace, const SvgOptions& options, const SvgFrame& frame,
                     const std::vector<StepAnalysis>& steps, double y) {
    const double height = row_height(frame.rows.size());
    const double gap = height < 14 ? 3 : 8;
    const StepAnalysis& shown = options.step >= 0 && static_cast<std::size_t>(options.step) < steps.size()
                                    ? steps[static_cast<std::size_t>(options.step)]
                                    : steps.back();
    std::vector<std::vector<Band>> bands;
    std::vector<double> node_at(frame.rows.size(), -1);
    double at = y + 24;  // room for tick labels
    const double top = at;
    std::string node;
    for (std::size_t k = 0; k < frame.rows.size(); ++k) {
        const RankTrace& rank = trace.ranks[frame.rows[k]];
        if (!rank.node.empty() && rank.node != node) {
            node = rank.node;
            node_at[k] = at + 11;
            at += 17;
        }
        bands.push_back(bands_of(rank, frame, at, height));
        at = bands.back().back().y + bands.back().back().height + gap;
    }
    const double bottom = at - gap + 2;
    draw_axis(canvas, frame, top - 4, bottom);
    std::size_t events = 0;
    for (const auto& rank_bands : bands) {
        for (const Band& band : rank_bands)
            events += band.events.size();
    }
    for (std::size_t k = 0; k < frame.rows.size(); ++k) {
        const RankTrace& rank = trace.ranks[frame.rows[k]];
        const Band& main = bands[k].front();
        if (node_at[k] >= 0) {
            canvas.text(16, node_at[k], rank.node,
                        fmt::format("font-size=\"11\" font-weight=\"bold\" fill=\"{}\"", kFaintInk));
        }
        canvas.open_group(fmt::format("fill=\"{}\"", kTrack));
        for (const Band& band : bands[k])
            canvas.rect(frame.left, band.y, frame.right - frame.left, band.height);
        canvas.close_group();
        const double size = std::clamp(height * 0.42, 8.0, 13.0);
        const double text_y = main.y + height / 2 + size * 0.36;
        canvas.text(16, text_y, row_name(rank),
                    fmt::format("font-size=\"{}\" font-weight=\"bold\"", svg_number(size)));
        canvas.text(
            frame.left - 10, text_y, format_percent(shown.ranks[frame.rows[k]].bubble_fraction),
            fmt::format("font-size=\"{}\" text-anchor=\"end\" fill=\"{}\"", svg_number(size - 1), kFaintInk));
        const BandDrawer drawer(canvas, options, frame, stages_of(rank), events);
        for (const Band& band : bands[k])
            drawer.draw(band);
    }
    if (options.critical_path) draw_path(canvas, trace, frame, bands);
    draw_step_boundaries(canvas, frame, steps, top - 4, bottom);
    canvas.text(frame.left - 10, top - 10, "idle",
                fmt::format("font-size=\"11\" text-anchor=\"end\" fill=\"{}\"", kFaintInk));
    return bottom + (steps.size() > 1 ? 30 : 16);
}

}  // namespace tw
