#include "gui/view/memory_curve.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/si_format.hpp"

namespace tw {
namespace {

constexpr std::size_t kBlock = 64;

std::int64_t sum(const MemorySample& sample) {
    return std::accumulate(sample.bytes.begin(), sample.bytes.end(), std::int64_t{0});
}

}  // namespace

MemoryCurve::MemoryCurve(std::span<const MemorySample> samples) : samples_(samples) {
    for (std::size_t first = 0; first < samples.size(); first += kBlock) {
        std::uint32_t best = static_cast<std::uint32_t>(first);
        for (std::size_t i = first + 1; i < std::min(first + kBlock, samples.size()); ++i)
            if (sum(samples[i]) > sum(samples[best])) best = static_cast<std::uint32_t>(i);
        block_peak_.push_back(best);
    }
    if (samples.empty()) return;
    peak_.sample = largest(0, samples.size());
    peak_.time = samples[peak_.sample].time;
    peak_.bytes = sum(samples[peak_.sample]);
}

std::uint32_t MemoryCurve::largest(std::size_t first, std::size_t last) const {
    auto best = static_cast<std::uint32_t>(first);
    const auto look = [&](std::size_t i) {
        if (sum(samples_[i]) > sum(samples_[best])) best = static_cast<std::uint32_t>(i);
    };
    std::size_t i = first;
    while (i < last) {
        if (i % kBlock == 0 && i + kBlock <= last) {
            look(block_peak_[i / kBlock]);
            i += kBlock;
        } else {
            look(i++);
        }
    }
    return best;
}

std::size_t MemoryCurve::sample_at(SimTime time) const {
    const auto after = std::partition_point(samples_.begin(), samples_.end(),
                                            [&](const MemorySample& s) { return s.time <= time; });
    return after == samples_.begin() ? 0 : static_cast<std::size_t>(after - samples_.begin() - 1);
}

std::int64_t MemoryCurve::total(std::size_t sample) const {
    return sum(samples_[sample]);
}

void MemoryCurve::columns(const TimeWindow& window, std::vector<std::uint32_t>& columns) const {
    if (samples_.empty() || columns.empty()) return;
    const double step = window.width / static_cast<double>(columns.size());
    std::size_t first = sample_at(window.begin);
    for (std::size_t c = 0; c < columns.size(); ++c) {
        const SimTime end = window.time(step * static_cast<double>(c + 1));
        if (!begun(end)) {
            columns[c] = kNoSample;
            continue;
        }
        const std::size_t last = sample_at(end);
        columns[c] = largest(first, last + 1);
        first = last;
    }
}

std::string category_title(std::string_view category) {
    std::string title(category);
    std::replace(title.begin(), title.end(), '_', ' ');
    return title;
}

std::vector<std::string> explain_peak(const TraceModel& model, std::size_t rank, const MemoryPeak& peak) {
    std::vector<std::string> lines;
    const std::span<const MemorySample> samples = model.memory(rank);
    if (samples.empty()) return lines;
    const ModelRank& r = model.ranks()[rank];
    lines.push_back(fmt::format("{} peaks at {} at {}", r.name,
                                format_bytes(static_cast<double>(peak.bytes), ByteUnit::Binary),
                                format_sim_time(peak.time, 5)));
    const MemorySample& sample = samples[peak.sample];
    std::vector<std::size_t> order(sample.bytes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return sample.bytes[a] > sample.bytes[b]; });
    for (const std::size_t c : order) {
        if (sample.bytes[c] <= 0 || c >= model.memory_categories().size()) continue;
        lines.push_back(
            fmt::format("{} {} ({})", category_title(model.memory_categories()[c]),
                        format_bytes(static_cast<double>(sample.bytes[c])),
                        format_percent(static_cast<double>(sample.bytes[c]) /
                                       static_cast<double>(std::max<std::int64_t>(1, peak.bytes)))));
    }
    if (r.lane_begin < r.lane_end) {
        TaskId task = model.task_at(r.lane_begin, peak.time);
        // A sample at the instant at which a task ends belongs to the one that begins there.
        if (task != kNoTask) lines.push_back("during " + model.name(task));
    }
    if (const std::int64_t capacity = model.memory_capacity(rank); capacity > 0) {
        const std::int64_t left = capacity - peak.bytes;
        lines.push_back(fmt::format(
            "{} {} the capacity of {}", format_bytes(static_cast<double>(left < 0 ? -left : left)),
            left < 0 ? "ABOVE" : "below", format_bytes(static_cast<double>(capacity))));
    }
    return lines;
}

}  // namespace tw
