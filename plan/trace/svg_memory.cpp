#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "plan/trace/drawing.hpp"
#include "plan/trace/svg_panels.hpp"

namespace tw {
namespace {

std::int64_t total(const MemorySample& sample) {
    std::int64_t sum = 0;
    for (const std::int64_t bytes : sample.bytes)
        sum += bytes;
    return sum;
}

// One sample a pixel column: the one with the largest total in it, so that no peak is lost. Null before the
// first.
std::vector<const MemorySample*> columns_of(const RankTrace& rank, const SvgFrame& frame) {
    const auto count = static_cast<std::size_t>(std::max(1.0, frame.right - frame.left));
    std::vector<const MemorySample*> columns(count, nullptr);
    std::vector<std::int64_t> largest(count, -1);
    for (std::size_t k = 0; k < rank.memory.size(); ++k) {
        const MemorySample& sample = rank.memory[k];
        const SimTime until = k + 1 < rank.memory.size() ? rank.memory[k + 1].time : frame.axis.end;
        if (until < frame.axis.begin || sample.time > frame.axis.end) continue;
        const double scale = static_cast<double>(count);
        const double from = std::clamp(frame.axis.share(sample.time) * scale, 0.0, scale - 1);
        const double to = std::clamp(frame.axis.share(until) * scale, from, scale - 1);
        const std::int64_t bytes = total(sample);
        for (auto c = static_cast<std::size_t>(from); c <= static_cast<std::size_t>(to); ++c) {
            if (bytes > largest[c]) {
                largest[c] = bytes;
                columns[c] = &sample;
            }
        }
    }
    return columns;
}

class MemoryPanel {
  public:
    MemoryPanel(SvgCanvas& canvas, const Trace& trace, const SvgFrame& frame, double y, double height,
                double scale_bytes)
        : canvas_(canvas), trace_(trace), frame_(frame), y_(y), height_(height), scale_bytes_(scale_bytes) {}

    void draw(const RankTrace& rank) const {
        canvas_.rect(frame_.left, y_, frame_.right - frame_.left, height_,
                     fmt::format("fill=\"{}\"", kTrack));
        const std::vector<const MemorySample*> columns = columns_of(rank, frame_);
        // From the whole stack down to the first category: each is painted over the one before.
        for (std::size_t c = trace_.memory_categories.size(); c-- > 0;)
            draw_area(columns, c);
        if (const std::int64_t capacity = trace_.capacity_of(rank); capacity > 0) {
            const double at = level(static_cast<double>(capacity));
            canvas_.line(frame_.left, at, frame_.right, at,
                         fmt::format("stroke=\"{}\" stroke-width=\"1.3\" stroke-dasharray=\"6 4\"", kAlarm));
        }
        draw_peak(rank);
    }

  private:
    double level(double bytes) const { return y_ + height_ - bytes / scale_bytes_ * height_; }

    void draw_area(const std::vector<const MemorySample*>& columns, std::size_t category) const {
        const double base = y_ + height_;
        std::string path = fmt::format("M{} {}", svg_number(frame_.left), svg_number(base));
        double at = base, x = frame_.left, drawn_x = frame_.left;
        bool any = false;
        for (const MemorySample* sample : columns) {
            double bytes = 0;
            for (std::size_t k = 0; sample != nullptr && k <= category && k < sample->bytes.size(); ++k) {
                bytes += static_cast<double>(sample->bytes[k]);
            }
            const double next = std::round(level(bytes) * 10) / 10;
            if (next != at) {
                if (x != drawn_x) path += fmt::format("H{}", svg_number(x));
                path += fmt::format("V{}", svg_number(next));
                drawn_x = x;
                at = next;
                any = true;
            }
            x += 1;
        }
        if (!any) return;
        path += fmt::format("H{}V{}Z", svg_number(frame_.right), svg_number(base));
        canvas_.raw(fmt::format("<path d=\"{}\" fill=\"{}\"/>\n", path, category_colour(category)));
    }

    void draw_peak(const RankTrace& rank) const {
        const MemorySample* peak = nullptr;
        for (const MemorySample& sample : rank.memory) {
            if (sample.time < frame_.axis.begin || sample.time > frame_.axis.end) continue;
            if (peak == nullptr || total(sample) > total(*peak)) peak = &sample;
        }
        const double size = std::clamp(height_ * 0.16, 10.0, 13.0);
        canvas_.text(16, y_ + size + 3, row_name(rank),
                     fmt::format("font-size=\"{}\" font-weight=\"bold\"", svg_number(size)));
        if (peak == nullptr) return;
        const double bytes = static_cast<double>(total(*peak));
        const double x = frame_.x(peak->time), at = level(bytes);
        canvas_.raw(fmt::format(
            "<circle cx=\"{}\" cy=\"{}\" r=\"3.5\" fill=\"#ffffff\" stroke=\"{}\" stroke-width=\"1.6\"/>\n",
            svg_number(x), svg_number(at), kInk));
        canvas_.text(16, y_ + 2 * size + 7, fmt::format("peak {}", format_bytes(bytes)),
                     fmt::format("font-size=\"{}\"", svg_number(size - 2)));
        canvas_.text(16, y_ + 3 * size + 8, fmt::format("at {}", format_sim_time(peak->time)),
                     fmt::format("font-size=\"{}\" fill=\"{}\"", svg_number(size - 2), kFaintInk));
    }

    SvgCanvas& canvas_;
    const Trace& trace_;
    const SvgFrame& frame_;
    double y_, height_, scale_bytes_;
};

// Whether any rank ever holds something of the category.
bool holds(const Trace& trace, std::size_t category) {
    return std::any_of(trace.ranks.begin(), trace.ranks.end(), [&](const RankTrace& rank) {
        return std::any_of(rank.memory.begin(), rank.memory.end(), [&](const MemorySample& sample) {
            return category < sample.bytes.size() && sample.bytes[category] > 0;
        });
    });
}

// Least and most where devices are mixed: each panel has its own line.
std::string capacity_text(const Trace& trace) {
    std::int64_t least = trace.memory_capacity_bytes, most = least;
    for (const RankTrace& rank : trace.ranks) {
        least = std::min(least, trace.capacity_of(rank));
        most = std::max(most, trace.capacity_of(rank));
    }
    const std::string range = least < most ? format_bytes(static_cast<double>(least)) + " to " : "";
    return fmt::format("capacity {}{}", range, format_bytes(static_cast<double>(most)));
}

double draw_legend(SvgCanvas& canvas, const Trace& trace, double y) {
    double x = 16;
    const auto entry = [&](std::string_view text) {
        const double width = 28 + text_width(text, 12) + 16;
        if (x + width > canvas.width() - 16) {
            x = 16;
            y += 20;
        }
        canvas.text(x + 27, y + 10, text);
        return std::exchange(x, x + width);
    };
    for (std::size_t c = 0; c < trace.memory_categories.size(); ++c) {
        if (!holds(trace, c)) continue;
        const double at = entry(trace.memory_categories[c]);
        canvas.rect(at, y, 20, 12, fmt::format("fill=\"{}\"", category_colour(c)));
    }
    if (trace.memory_capacity_bytes > 0) {
        const double at = entry(capacity_text(trace));
        canvas.line(at, y + 6, at + 20, y + 6,
                    fmt::format("stroke=\"{}\" stroke-width=\"1.5\" stroke-dasharray=\"6 4\"", kAlarm));
    }
    return y + 20;
}

}  // namespace

double draw_memory(SvgCanvas& canvas, const Trace& trace, const SvgFrame& frame, double y) {
    std::vector<const RankTrace*> ranks;
    double largest = static_cast<double>(trace.memory_capacity_bytes);
    for (const std::size_t r : frame.rows) {
        if (trace.ranks[r].memory.empty()) continue;
        ranks.push_back(&trace.ranks[r]);
        largest = std::max(largest, static_cast<double>(trace.capacity_of(trace.ranks[r])));
        for (const MemorySample& sample : trace.ranks[r].memory)
            largest = std::max(largest, static_cast<double>(total(sample)));
    }
    if (ranks.empty() || largest <= 0) return y;
    canvas.text(16, y + 22, "Memory", "font-size=\"16\" font-weight=\"bold\"");
    double at = draw_legend(canvas, trace, y + 34) + 28;
    const double height = std::clamp(760.0 / static_cast<double>(ranks.size()), 54.0, 120.0);
    const double top = at;
    const double bottom = at + static_cast<double>(ranks.size()) * (height + 10) - 10;
    for (const RankTrace* rank : ranks) {
        MemoryPanel(canvas, trace, frame, at, height, largest * 1.06).draw(*rank);
        at += height + 10;
    }
    draw_axis(canvas, frame, top - 2, bottom);
    return bottom + 12;
}

}  // namespace tw
