// Memory of a rank over time, as a view draws it: stacked categories at pixel columns. A column shows the
// sample at which most was held, so that no peak vanishes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gui/view/time_window.hpp"
#include "gui/view/trace_model.hpp"

namespace tw {

struct MemoryPeak {
    std::size_t sample = 0;
    SimTime time = 0;
    std::int64_t bytes = 0;
};

// Where most is held (the first of equals), over one rank's samples.
class MemoryCurve {
  public:
    MemoryCurve() = default;
    explicit MemoryCurve(std::span<const MemorySample> samples);

    [[nodiscard]] bool empty() const { return samples_.empty(); }
    [[nodiscard]] const MemoryPeak& peak() const { return peak_; }
    // Index of the sample that holds at `time`; the first one before any.
    [[nodiscard]] std::size_t sample_at(SimTime time) const;
    [[nodiscard]] bool begun(SimTime time) const { return !empty() && samples_.front().time <= time; }
    [[nodiscard]] std::int64_t total(std::size_t sample) const;
    [[nodiscard]] std::span<const MemorySample> samples() const { return samples_; }
    // Index of the sample with the largest total of each of `columns` columns of a window, kNoSample before
    // the first. O(columns log n).
    static constexpr std::uint32_t kNoSample = 0xffffffffU;
    void columns(const TimeWindow& window, std::vector<std::uint32_t>& columns) const;

  private:
    [[nodiscard]] std::uint32_t largest(std::size_t first, std::size_t last) const;

    std::span<const MemorySample> samples_;
    std::vector<std::uint32_t> block_peak_;  // sample of the largest total of every 64
    MemoryPeak peak_;
};

// "master_weights" -> "master weights": a category's key as people read it.
std::string category_title(std::string_view category);

// What the peak is made of and what runs at its instant: "PP0 peaks at 71.2 GiB at 12.3 ms", "activations
// 40.1 GiB (56.3 %)", "during F mb3 s0", "8.8 GiB below the capacity of 80.0 GiB".
std::vector<std::string> explain_peak(const TraceModel& model, std::size_t rank, const MemoryPeak& peak);

}  // namespace tw
