#include "cli/profile_svg.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <vector>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "plan/trace/svg_canvas.hpp"

namespace tw::cli {
namespace {

constexpr double kPanelWidth = 430, kPanelHeight = 250, kLeft = 78, kTop = 70, kGapX = 96, kLegend = 58;
constexpr int kSamples = 90;
constexpr double kEighty = 1.2816;  // standard deviations on either side of 80 % of a normal distribution

struct Line {
    std::string name;
    bool scaled = false;
    double sigma = 0;                      // relative
    double low = 1, high = 2;              // of x, where it was measured
    std::function<double(double)> figure;  // a rate at x
};

struct Panel {
    std::string title, x_name, unit;  // unit of the rate
    std::vector<Line> lines;
};

double seconds_of(const HardwareProfile& profile, auto body) {
    Op op;
    op.body = body;
    return kernel_time(profile, op).seconds;
}

Panel products(const HardwareProfile& profile) {
    Panel panel{"Matrix products, square", "rows, columns and depth", "FLOP/s", {}};
    for (const GemmEntry& entry : profile.gemm) {
        const Precision precision = entry.precision;
        panel.lines.push_back({std::string(to_string(precision)), !entry.fit.scaled_from.empty(),
                               entry.fit.sigma, 64, 16384, [&profile, precision](double x) {
                                   Gemm gemm;
                                   gemm.m = gemm.n = gemm.k = static_cast<std::int64_t>(x / 64) * 64;
                                   gemm.precision = precision;
                                   const auto n = static_cast<double>(gemm.m);
                                   return 2 * n * n * n / seconds_of(profile, gemm);
                               }});
    }
    return panel;
}

Panel attention(const HardwareProfile& profile) {
    Panel panel{"Fused attention, causal, 16384 tokens, 32 heads of 128", "sequence length", "FLOP/s", {}};
    for (const AttentionEntry& entry : profile.attention) {
        const AttentionKernel kernel = entry.kernel;
        const bool backward = entry.backward;
        panel.lines.push_back({fmt::format("{} {}", to_string(kernel), backward ? "backward" : "forward"),
                               !entry.fit.scaled_from.empty(), entry.fit.sigma, 256, 16384,
                               [&profile, kernel, backward](double x) {
                                   Attention a;
                                   a.seq_q = a.seq_kv = static_cast<std::int64_t>(x);
                                   a.batch = std::max<std::int64_t>(1, 16384 / a.seq_q);
                                   a.heads = a.kv_heads = 32;
                                   a.head_dim_qk = a.head_dim_v = 128;
                                   a.kernel = kernel;
                                   a.backward = backward;
                                   Op op;
                                   op.body = a;
                                   return op_flops(op).value / kernel_time(profile, op).seconds;
                               }});
    }
    return panel;
}

Panel memory(const HardwareProfile& profile) {
    Panel panel{"Memory-bound kernels", "bytes read and written", "B/s", {}};
    const auto add = [&](MemoryOpKind kind, const FitRecord& fit) {
        panel.lines.push_back({std::string(to_string(kind)), !fit.scaled_from.empty(), fit.sigma, 1e5, 4e9,
                               [&profile, kind](double x) {
                                   MemoryOp op;
                                   op.kind = kind;
                                   op.bytes = x;
                                   return x / seconds_of(profile, op);
                               }});
    };
    add(MemoryOpKind::Copy, profile.memory_fit);
    for (const MemoryOpKind kind :
         {MemoryOpKind::Add, MemoryOpKind::Norm, MemoryOpKind::Softmax, MemoryOpKind::Dropout,
          MemoryOpKind::CrossEntropy, MemoryOpKind::Optimizer}) {
        for (const MemoryEntry& entry : profile.memory_ops) {
            if (entry.kind == kind && !entry.backward) add(kind, entry.fit);
        }
    }
    return panel;
}

Panel collectives(const HardwareProfile& profile) {
    Panel panel{"Collectives of the largest group", "bytes", "B/s", {}};
    int largest = 0;
    for (const CollectiveEntry& entry : profile.collectives)
        largest = std::max(largest, entry.group_size);
    for (const CollectiveEntry& entry : profile.collectives) {
        if (entry.group_size != largest && entry.kind != CollectiveKind::SendRecv) continue;
        const std::string nodes = entry.nodes > 1 ? fmt::format(" on {} nodes", entry.nodes) : "";
        panel.lines.push_back({fmt::format("{} of {}{}", to_string(entry.kind), entry.group_size, nodes),
                               !entry.fit.scaled_from.empty(), entry.fit.sigma, entry.bytes.low,
                               entry.bytes.high,
                               [&entry](double x) { return x / collective_seconds(entry.curve, x); }});
    }
    return panel;
}

struct Axis {
    double low, high;  // log10
    [[nodiscard]] double at(double value) const { return (std::log10(value) - low) / (high - low); }
};

void draw(SvgCanvas& canvas, const Panel& panel, double left, double top) {
    canvas.text(left, top - 14, panel.title,
                fmt::format(R"(font-size="13" font-weight="bold" fill="{}")", kInk));
    const std::string faint = fmt::format(R"(font-size="11" fill="{}")", kFaintInk);
    canvas.rect(left, top, kPanelWidth, kPanelHeight, fmt::format(R"(fill="none" stroke="{}")", kFaintInk));
    if (panel.lines.empty()) {
        canvas.text(left + kPanelWidth / 2, top + kPanelHeight / 2, "not in this profile",
                    faint + " text-anchor=\"middle\"");
        return;
    }
    double x_low = 1e300, x_high = 0, y_high = 0;
    std::vector<std::vector<std::pair<double, double>>> points;
    for (const Line& line : panel.lines) {
        x_low = std::min(x_low, line.low);
        x_high = std::max(x_high, line.high);
        auto& some = points.emplace_back();
        for (int i = 0; i <= kSamples; ++i) {
            const double x = line.low * std::pow(line.high / line.low, static_cast<double>(i) / kSamples);
            some.emplace_back(x, line.figure(x));
            y_high = std::max(y_high, some.back().second * std::exp(kEighty * line.sigma));
        }
    }
    const Axis xs{std::log10(x_low), std::log10(x_high)};
    const Axis ys{std::log10(y_high) - 3, std::log10(y_high) + 0.03};  // three decades
    const auto x_of = [&](double v) { return left + kPanelWidth * xs.at(v); };
    const auto y_of = [&](double v) {
        return top + kPanelHeight * (1 - std::clamp(ys.at(std::max(v, 1e-300)), 0.0, 1.0));
    };
    const std::string grid = fmt::format("stroke=\"{}\"", kGrid);
    const int step = xs.high - xs.low > 5 ? 2 : 1;
    for (int e = static_cast<int>(std::ceil(xs.low)); e <= static_cast<int>(xs.high); e += step) {
        const double v = std::pow(10.0, e);
        canvas.line(x_of(v), top, x_of(v), top + kPanelHeight, grid);
        canvas.text(x_of(v), top + kPanelHeight + 15,
                    panel.unit == "B/s" ? format_bytes(v, ByteUnit::Decimal, 1) : format_short_count(v, 1),
                    faint + " text-anchor=\"middle\"");
    }
    for (int e = static_cast<int>(std::ceil(ys.low)); e <= static_cast<int>(std::floor(ys.high)); ++e) {
        const double v = std::pow(10.0, e);
        canvas.line(left, y_of(v), left + kPanelWidth, y_of(v), grid);
        canvas.text(left - 6, y_of(v) + 4, format_rate(v, panel.unit, 1), faint + " text-anchor=\"end\"");
    }
    for (std::size_t l = 0; l < panel.lines.size(); ++l) {
        const Line& line = panel.lines[l];
        const std::string_view colour = category_colour(l);
        std::string band, back, path;
        for (const auto& [x, y] : points[l]) {
            const double factor = std::exp(kEighty * line.sigma);
            band += fmt::format("{},{} ", svg_number(x_of(x)), svg_number(y_of(y * factor)));
            back.insert(0, fmt::format("{},{} ", svg_number(x_of(x)), svg_number(y_of(y / factor))));
            path +=
                fmt::format("{}{},{} ", path.empty() ? "M" : "L", svg_number(x_of(x)), svg_number(y_of(y)));
        }
        canvas.raw(fmt::format("<polygon points=\"{}{}\" fill=\"{}\" fill-opacity=\"0.08\"/>\n", band, back,
                               colour));
        canvas.raw(fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\"{}/>\n", path,
                               colour, line.scaled ? R"( stroke-dasharray="5 3")" : ""));
    }
    canvas.text(left + kPanelWidth / 2, top + kPanelHeight + 30, panel.x_name,
                fmt::format(R"(font-size="11" fill="{}" text-anchor="middle")", kInk));
    double x = left, y = top + kPanelHeight + 48;
    for (std::size_t l = 0; l < panel.lines.size(); ++l) {
        const double width = 24 + text_width(panel.lines[l].name, 11);
        if (x + width > left + kPanelWidth) x = left, y += 15;
        canvas.line(x, y - 4, x + 16, y - 4,
                    fmt::format(R"(stroke="{}" stroke-width="2"{})", category_colour(l),
                                panel.lines[l].scaled ? R"( stroke-dasharray="5 3")" : ""));
        canvas.text(x + 20, y, panel.lines[l].name, fmt::format(R"(font-size="11" fill="{}")", kInk));
        x += width + 8;
    }
}

}  // namespace

std::string profile_svg(const HardwareProfile& profile) {
    const std::array panels = {products(profile), attention(profile), memory(profile), collectives(profile)};
    SvgCanvas canvas(kLeft + 2 * kPanelWidth + kGapX + 24);
    canvas.text(kLeft, 26, fmt::format("{}: {}", profile.name, profile.description),
                fmt::format(R"(font-size="16" font-weight="bold" fill="{}")", kInk));
    canvas.text(kLeft, 44, "Shaded: 80 % interval. Dashed: scaled from another device or kernel.",
                fmt::format(R"(font-size="11" fill="{}")", kFaintInk));
    const double row = kPanelHeight + kLegend + 72;
    for (std::size_t i = 0; i < panels.size(); ++i) {
        draw(canvas, panels[i], kLeft + static_cast<double>(i % 2) * (kPanelWidth + kGapX),
             kTop + 14 + (i < 2 ? 0 : row));
    }
    return canvas.finish(kTop + 14 + 2 * row - 10, profile.name + ": measured curves");
}

}  // namespace tw::cli
