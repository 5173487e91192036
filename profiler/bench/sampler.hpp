// The one sampling harness: how every benchmark turns a body into raw samples. Warm-up, then samples of as
// many calls as make the clock's own cost small, until the median's interval is tight, the point has had its
// share, or the budget is over. Samples during which others slowed the machine (pace.hpp) are taken
// again; where that does not help they are divided by how much longer its reference took.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "models/hardware/profile_document.hpp"
#include "profiler/bench/kernel_log.hpp"
#include "profiler/bench/pace.hpp"

namespace tw {

struct SamplingOptions {
    double tight = 0.015;          // relative half width of the median's interval that is enough
    double least_sample_s = 2e-4;  // calls are repeated until a sample takes so long
    int warm_up = 2;               // calls that do not count
    int least = 5, most = 40;      // samples
    double most_point_s = 1.5;     // of one point
};

// One call of what is measured; `index` counts all calls of the point, so that bodies can rotate buffers.
using BenchBody = std::function<void(std::int64_t index)>;

class Sampler {
  public:
    // `deadline`: on `clock`; measuring stops there. `stop` (may be null) is set by Ctrl-C.
    Sampler(Clock clock, SamplingOptions options, double deadline, const std::atomic<bool>* stop);

    // Fills in `calls` and `values` of the point. False: nothing was measured, the budget is over.
    bool measure(SampleSeries& point, const BenchBody& body);
    // Who tells disturbed samples; outlives the sampler. Nobody where not set.
    void watch(Pace* pace) { pace_ = pace; }
    // Probes the pace now; true where nobody watches it.
    bool undisturbed();
    // How much longer the pace's reference took at the latest probe; 1 where nobody watches.
    [[nodiscard]] double slower() const { return pace_ != nullptr && pace_->watches() ? pace_->latest() : 1; }
    // The same with somebody else's calls: `one_sample(calls)` returns the seconds of a call.
    bool measure_with(SampleSeries& point, const std::function<double(std::int64_t calls)>& one_sample);

    [[nodiscard]] bool over() const;
    [[nodiscard]] double now() const { return clock_(); }
    [[nodiscard]] const Clock& clock() const { return clock_; }
    [[nodiscard]] const SamplingOptions& options() const { return options_; }
    // From now on: until then, but at least so many points whatever the time.
    void begin(double deadline, int least_points) {
        deadline_ = deadline;
        owed_points_ = least_points;
    }
    void count_point() { --owed_points_; }  // one that was not taken through measure
    [[nodiscard]] bool stopped() const { return stop_ != nullptr && stop_->load(); }
    [[nodiscard]] double deadline() const { return deadline_; }

    // Share of a sample's time that is the harness's: the clock's two readings and the loop around an empty
    // body, over the shortest sample.
    [[nodiscard]] double overhead() const;

  private:
    Clock clock_;
    SamplingOptions options_;
    double deadline_;
    const std::atomic<bool>* stop_;
    int owed_points_ = 0;
    Pace* pace_ = nullptr;
    double probed_at_ = 0;
};

Clock wall_clock();     // steady
Clock process_clock();  // processor time of this process: for machines that others use too

// How noisy the machine is: the median over series of their relative spread, and what to say about it. Noisy
// is also a machine of which a tenth of the series, or half of those between ranks, spread far.
struct NoiseVerdict {
    double noise = 0;
    bool noisy = false;
    std::string text;  // "quiet: ...", "noisy: ..."
};
NoiseVerdict judge_noise(const std::vector<SampleSeries>& samples);

}  // namespace tw
