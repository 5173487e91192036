#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "cli/profile_samples.hpp"
#include "models/hardware/sample_statistics.hpp"
#include "plan/frameworks/executor_kernels.hpp"
#include "plan/trace/svg_canvas.hpp"
#include "profiler/fit/fit_measured.hpp"

namespace tw::cli {
namespace {

constexpr double kWidth = 430, kHeight = 250, kBelow = 90, kLeft = 78, kTop = 84, kGapX = 96, kGapY = 74;
constexpr double kWorst = 0.5;  // of the residuals' axis: 50 % either way

struct Point {
    double predicted, median, low, high;
    std::size_t colour;
};

struct Panel {
    const char* title;
    std::vector<std::string> names;
    std::vector<Point> points;
};

std::size_t name_of(Panel& panel, const std::string& name) {
    const auto known = std::find(panel.names.begin(), panel.names.end(), name);
    if (known != panel.names.end()) return static_cast<std::size_t>(known - panel.names.begin());
    panel.names.push_back(name);
    return panel.names.size() - 1;
}

void add(Panel& panel, const HardwareProfile& profile, const SampleSeries& s, const std::string& name) {
    const double predicted = predicted_seconds(profile, s), median = median_of(s.values);
    if (predicted <= 0 || median <= 0) return;
    const Interval interval = median_interval(s.values);
    panel.points.push_back(
        {predicted, median, std::max(interval.low, 1e-12), interval.high, name_of(panel, name)});
}

std::array<Panel, 4> panels_of(const ProfileDocument& d) {
    std::array<Panel, 4> panels = {
        Panel{"Matrix products", {}, {}}, Panel{"Fused attention and convolution", {}, {}},
        Panel{"Kernels bound by memory", {}, {}}, Panel{"Collectives and messages", {}, {}}};
    for (const SampleSeries& s : d.samples) {
        if (s.benchmark == "gemm") {
            add(panels[0], d.profile, s, s.variant);
        } else if (s.benchmark == "attention" || s.benchmark == "attention_backward" ||
                   s.benchmark == "convolution") {
            add(panels[1], d.profile, s, s.benchmark);
        } else if (s.benchmark == "collective") {
            add(panels[3], d.profile, s, s.variant);
        } else if (find_executor_kernel(s.benchmark) != nullptr) {
            add(panels[2], d.profile, s, s.benchmark);
        }
    }
    return panels;
}

void draw(SvgCanvas& canvas, const Panel& panel, double left, double top) {
    canvas.text(left, top - 14, panel.title,
                fmt::format("font-size=\"13\" font-weight=\"bold\" fill=\"{}\"", kInk));
    const std::string faint = fmt::format("font-size=\"11\" fill=\"{}\"", kFaintInk);
    const std::string frame = fmt::format("fill=\"none\" stroke=\"{}\"", kFaintInk);
    const std::string grid = fmt::format("stroke=\"{}\"", kGrid);
    const double below = top + kHeight + 12;
    canvas.rect(left, top, kWidth, kHeight, frame);
    canvas.rect(left, below, kWidth, kBelow, frame);
    if (panel.points.empty()) {
        canvas.text(left + kWidth / 2, top + kHeight / 2, "not measured", faint + " text-anchor=\"middle\"");
        return;
    }
    double low = 1e300, high = 0;
    for (const Point& p : panel.points) {
        low = std::min({low, p.predicted, p.low});
        high = std::max({high, p.predicted, p.high});
    }
    const double from = std::log10(low) - 0.05, to = std::log10(high) + 0.05;
    const auto x_of = [&](double v) { return left + kWidth * (std::log10(v) - from) / (to - from); };
    const auto y_of = [&](double v) { return top + kHeight * (1 - (std::log10(v) - from) / (to - from)); };
    const auto r_of = [&](double error) {
        return below + kBelow / 2 * (1 - std::clamp(error / kWorst, -1.0, 1.0));
    };
    for (int e = static_cast<int>(std::ceil(from)); e <= static_cast<int>(std::floor(to)); ++e) {
        const double v = std::pow(10.0, e);
        canvas.line(x_of(v), top, x_of(v), below + kBelow, grid);
        canvas.line(left, y_of(v), left + kWidth, y_of(v), grid);
        canvas.text(left - 6, y_of(v) + 4, format_duration(v, 1), faint + " text-anchor=\"end\"");
        canvas.text(x_of(v), below + kBelow + 14, format_duration(v, 1), faint + " text-anchor=\"middle\"");
    }
    canvas.line(left, top + kHeight, left + kWidth, top, fmt::format("stroke=\"{}\"", kFaintInk));
    for (const double error : {-0.2, 0.0, 0.2}) {
        canvas.line(left, r_of(error), left + kWidth, r_of(error), grid);
        canvas.text(left - 6, r_of(error) + 4, fmt::format("{:+.0f} %", 100 * error),
                    faint + " text-anchor=\"end\"");
    }
    for (const Point& p : panel.points) {
        const std::string_view colour = category_colour(p.colour);
        const std::string stroke = fmt::format("stroke=\"{}\" stroke-opacity=\"0.6\"", colour);
        canvas.line(x_of(p.predicted), y_of(p.low), x_of(p.predicted), y_of(p.high), stroke);
        for (const double y : {y_of(p.median), r_of(std::log(p.median / p.predicted))})
            canvas.raw(
                fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"2.2\" fill=\"{}\" fill-opacity=\"0.7\"/>\n",
                            svg_number(x_of(p.predicted)), svg_number(y), colour));
    }
    canvas.text(left + kWidth / 2, below + kBelow + 30,
                "predicted by the fit; above measured, below the difference",
                fmt::format("font-size=\"11\" fill=\"{}\" text-anchor=\"middle\"", kInk));
    double x = left, y = below + kBelow + 48;
    for (std::size_t n = 0; n < panel.names.size(); ++n) {
        const double width = 20 + text_width(panel.names[n], 11);
        if (x + width > left + kWidth) x = left, y += 15;
        canvas.raw(fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"3.5\" fill=\"{}\"/>\n", svg_number(x + 4),
                               svg_number(y - 4), category_colour(n)));
        canvas.text(x + 12, y, panel.names[n], fmt::format("font-size=\"11\" fill=\"{}\"", kInk));
        x += width + 6;
    }
}

}  // namespace

std::string samples_svg(const ProfileDocument& document) {
    const std::array<Panel, 4> panels = panels_of(document);
    SvgCanvas canvas(kLeft + 2 * kWidth + kGapX + 24);
    const MeasuredEnvironment environment = document.environment.value_or(MeasuredEnvironment{});
    canvas.text(kLeft, 26, fmt::format("{}: {}", document.profile.name, document.profile.description),
                fmt::format("font-size=\"16\" font-weight=\"bold\" fill=\"{}\"", kInk));
    canvas.text(kLeft, 44, fmt::format("{}; {}", environment.date, environment.noise_verdict),
                fmt::format("font-size=\"11\" fill=\"{}\"", kFaintInk));
    const double row = kHeight + kBelow + kGapY + 72;
    for (std::size_t i = 0; i < panels.size(); ++i)
        draw(canvas, panels[i], kLeft + static_cast<double>(i % 2) * (kWidth + kGapX),
             kTop + static_cast<double>(i / 2) * row);
    return canvas.finish(kTop + 2 * row, document.profile.name + ": samples and fits");
}

}  // namespace tw::cli
