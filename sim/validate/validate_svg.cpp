#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "plan/trace/svg_canvas.hpp"
#include "sim/validate/validate_text.hpp"

namespace tw {
namespace {

constexpr double kPanel = 420, kLeft = 70, kTop = 46, kGap = 90, kLegend = 250;
constexpr std::size_t kColours = 8;  // of category_colour

struct Point {
    double measured, predicted;
    std::size_t source;
};

struct Axis {
    double low, high;  // log10
    [[nodiscard]] double at(double value) const { return (std::log10(value) - low) / (high - low); }
};

Axis axis_over(const std::vector<Point>& points) {
    double low = 1e300, high = 0;
    for (const Point& p : points) {
        low = std::min({low, p.measured, p.predicted});
        high = std::max({high, p.measured, p.predicted});
    }
    const Axis half = {std::floor(std::log10(low) * 2) / 2, std::ceil(std::log10(high) * 2) / 2};
    if (std::floor(half.high) > std::ceil(half.low)) return half;
    // Two labels at least: whole powers of ten.
    const double below = std::floor(half.low);
    return {below, std::max(below + 1, std::ceil(half.high))};
}

// Sources beyond the palette's size take the next shape.
void marker(SvgCanvas& canvas, double x, double y, std::size_t source, std::string_view title) {
    const std::string fill =
        fmt::format("fill=\"{}\" fill-opacity=\"0.75\"", category_colour(source % kColours));
    const std::string inner = title.empty() ? "" : fmt::format("<title>{}</title>", svg_escape(title));
    if (source < kColours) {
        canvas.raw(fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"3\" {}>{}</circle>\n", svg_number(x),
                               svg_number(y), fill, inner));
    } else if (source < 2 * kColours) {
        canvas.rect(x - 2.8, y - 2.8, 5.6, 5.6, fill, inner);
    } else {
        canvas.raw(fmt::format("<path d=\"M{} {}l3.6 6.4h-7.2z\" {}>{}</path>\n", svg_number(x),
                               svg_number(y - 3.8), fill, inner));
    }
}

std::string tick_text(double exponent, bool memory) {
    const double value = std::pow(10.0, exponent);
    if (memory) return fmt::format("{:g} GB", value / 1e9);
    return value < 1 ? fmt::format("{:g} ms", value * 1e3) : fmt::format("{:g} s", value);
}

void panel(SvgCanvas& canvas, double left, std::string_view title, std::vector<Point> points, bool memory) {
    const Axis axis = axis_over(points);
    const auto x_of = [&](double v) { return left + kPanel * axis.at(v); };
    const auto y_of = [&](double v) { return kTop + kPanel * (1 - axis.at(v)); };
    canvas.text(left, kTop - 14, title,
                fmt::format("font-size=\"14\" font-weight=\"bold\" fill=\"{}\"", kInk));
    canvas.rect(left, kTop, kPanel, kPanel, fmt::format("fill=\"none\" stroke=\"{}\"", kFaintInk));
    for (double e = std::ceil(axis.low); e <= axis.high; ++e) {
        const double value = std::pow(10.0, e);
        const std::string grid = fmt::format("stroke=\"{}\"", kGrid);
        canvas.line(x_of(value), kTop, x_of(value), kTop + kPanel, grid);
        canvas.line(left, y_of(value), left + kPanel, y_of(value), grid);
        const std::string style = fmt::format("font-size=\"11\" fill=\"{}\"", kFaintInk);
        canvas.text(x_of(value), kTop + kPanel + 16, tick_text(e, memory), style + " text-anchor=\"middle\"");
        canvas.text(left - 6, y_of(value) + 4, tick_text(e, memory), style + " text-anchor=\"end\"");
    }
    // Equality, and a fifth off on either side.
    const double low = std::pow(10.0, axis.low), high = std::pow(10.0, axis.high);
    canvas.line(x_of(low), y_of(low), x_of(high), y_of(high), fmt::format("stroke=\"{}\"", kInk));
    for (const double factor : {0.8, 1.25}) {
        const double from = factor < 1 ? low / factor : low, to = factor < 1 ? high : high / factor;
        canvas.line(x_of(from), y_of(from * factor), x_of(to), y_of(to * factor),
                    fmt::format("stroke=\"{}\" stroke-dasharray=\"4 3\"", kFaintInk));
    }
    // Few rows above many.
    std::map<std::size_t, std::size_t> rows;
    for (const Point& p : points)
        ++rows[p.source];
    std::stable_sort(points.begin(), points.end(),
                     [&](const Point& a, const Point& b) { return rows.at(a.source) > rows.at(b.source); });
    for (const Point& p : points)
        marker(canvas, x_of(p.measured), y_of(p.predicted), p.source, "");
    const std::string label = fmt::format("font-size=\"12\" fill=\"{}\" text-anchor=\"middle\"", kInk);
    canvas.text(left + kPanel / 2, kTop + kPanel + 36, "measured", label);
    canvas.text(0, 0, "predicted",
                label + fmt::format(" transform=\"translate({} {}) rotate(-90)\"", svg_number(left - 54),
                                    svg_number(kTop + kPanel / 2)));
}

}  // namespace

std::string scatter_svg(const ValidationReport& report) {
    std::vector<Point> times, memories;
    const auto source_of = [&](const std::string& file) {
        std::size_t i = 0;
        while (i < report.sources.size() && report.sources[i].file != file)
            ++i;
        return i;
    };
    std::vector<bool> shown(report.sources.size() + 1, false);
    for (const ValidationRow& row : report.rows) {
        const std::size_t source = source_of(row.truth.file);
        if (row.has_time()) times.push_back({row.truth.step_time_s, row.calibrated_step_time_s, source});
        if (row.has_memory()) memories.push_back({row.truth.memory_bytes, row.blind.memory_bytes, source});
        shown[source] = shown[source] || row.has_time() || row.has_memory();
    }
    const int panels = (times.empty() ? 0 : 1) + (memories.empty() ? 0 : 1);
    SvgCanvas canvas(kLeft + std::max(1, panels) * (kPanel + kGap) - kGap + kLegend);
    double left = kLeft;
    for (const bool memory : {false, true}) {
        const std::vector<Point>& points = memory ? memories : times;
        if (points.empty()) continue;
        panel(canvas, left, memory ? "Memory of a device" : "Step time", points, memory);
        left += kPanel + kGap;
    }
    double y = kTop + 8;
    const double x = std::max(left, kLeft + kPanel + kGap) - kGap + 24;
    for (std::size_t s = 0; s < report.sources.size(); ++s) {
        if (!shown[s]) continue;
        marker(canvas, x, y - 4, s, "");
        canvas.text(x + 12, y, report.sources[s].file, fmt::format("font-size=\"12\" fill=\"{}\"", kInk));
        y += 19;
    }
    canvas.text(x - 6, y + 8, "dashed: 20 % below, 25 % above",
                fmt::format("font-size=\"11\" fill=\"{}\"", kFaintInk));
    return canvas.finish(kTop + kPanel + 56, "Predicted against measured");
}

}  // namespace tw
