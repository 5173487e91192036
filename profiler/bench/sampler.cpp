#include "profiler/bench/sampler.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>

#include <fmt/format.h>

#include "models/hardware/sample_statistics.hpp"

namespace tw {
namespace {

// Equal kernels on a quiet machine with fixed clocks differ by about 1 %; beyond this the medians of two
// profiles no longer agree within 5 %.
constexpr double kNoisy = 0.04;
// One series in ten beyond this, or half of those between ranks: curves through them are of that day.
constexpr double kNoisyTail = 0.25;

// Samples between two probes of the pace take so long at least: probes are then a small part.
constexpr double kBetweenProbes_s = 1e-3;
// So many undisturbed samples do by themselves; with fewer the disturbed ones count too.
constexpr std::size_t kFewest = 3;

}  // namespace

Sampler::Sampler(Clock clock, SamplingOptions options, double deadline, const std::atomic<bool>* stop)
    : clock_(std::move(clock)), options_(options), deadline_(deadline), stop_(stop) {}

bool Sampler::over() const {
    return stopped() || (owed_points_ <= 0 && clock_() >= deadline_);
}

bool Sampler::measure(SampleSeries& point, const BenchBody& body) {
    if (over()) return false;
    std::int64_t index = 0;
    for (int i = 0; i < options_.warm_up; ++i)
        body(index++);
    return measure_with(point, [&](std::int64_t calls) {
        const double begin = clock_();
        for (std::int64_t i = 0; i < calls; ++i)
            body(index++);
        return (clock_() - begin) / static_cast<double>(calls);
    });
}

bool Sampler::measure_with(SampleSeries& point, const std::function<double(std::int64_t calls)>& one_sample) {
    if (over()) return false;
    const double begin = clock_();
    // The first sample tells how many calls the others are of.
    const double first = one_sample(1);
    const double wanted = options_.least_sample_s / std::max(first, 1e-9);
    const std::int64_t calls =
        std::clamp<std::int64_t>(static_cast<std::int64_t>(std::ceil(wanted)), 1, 1 << 20);
    point.calls = static_cast<int>(calls);
    std::vector<double> alone, disturbed, batch;
    const auto most = static_cast<std::size_t>(options_.most);
    bool at_pace = undisturbed();
    while (alone.size() < most && disturbed.size() < most) {
        batch.push_back(one_sample(calls));
        const bool ends = over() || clock_() - begin >= options_.most_point_s;
        if (!ends && pace_ != nullptr && pace_->watches() && clock_() - probed_at_ < kBetweenProbes_s)
            continue;
        const bool before = at_pace;
        const double slower_before = slower();
        at_pace = undisturbed();
        const bool both = before && at_pace;
        for (const double value : batch)
            (both ? alone : disturbed).push_back(both ? value : value * 2 / (slower_before + slower()));
        batch.clear();
        if (over()) break;
        if (static_cast<int>(alone.size() + disturbed.size()) < options_.least) continue;
        if (ends) break;
        if (static_cast<int>(alone.size()) >= options_.least && relative_width(alone) <= options_.tight)
            break;
    }
    if (alone.size() < kFewest) alone.insert(alone.end(), disturbed.begin(), disturbed.end());
    point.values = std::move(alone);
    count_point();
    return true;
}

bool Sampler::undisturbed() {
    if (pace_ == nullptr) return true;
    const bool at_pace = pace_->undisturbed();
    probed_at_ = clock_();
    return at_pace;
}

double Sampler::overhead() const {
    constexpr int kRounds = 200;
    std::vector<double> costs;
    volatile std::int64_t sink = 0;
    const BenchBody empty = [&](std::int64_t i) { sink = i; };
    for (int r = 0; r < kRounds; ++r) {
        const double begin = clock_();
        for (std::int64_t i = 0; i < 16; ++i)
            empty(i);
        costs.push_back(clock_() - begin);
    }
    return median_of(costs) / options_.least_sample_s;
}

Clock wall_clock() {
    return [] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    };
}

Clock process_clock() {
    return [] {
        timespec t{};
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
    };
}

NoiseVerdict judge_noise(const std::vector<SampleSeries>& samples) {
    std::vector<double> spreads, between_ranks;
    for (const SampleSeries& series : samples) {
        if (series.unit != "s" || series.values.size() < 4) continue;
        spreads.push_back(relative_spread(series.values));
        if (series.benchmark == "collective") between_ranks.push_back(spreads.back());
    }
    NoiseVerdict verdict;
    verdict.noise = median_of(spreads);
    std::sort(spreads.begin(), spreads.end());
    const double tail =
        spreads.empty() ? 0 : spreads[(spreads.size() - 1) * 9 / 10];  // a tenth of the series lies beyond
    const double messages = median_of(between_ranks);
    verdict.noisy = verdict.noise > kNoisy || tail > kNoisyTail || messages > kNoisyTail;
    const std::string figure =
        fmt::format("equal samples differ by {:.1f} % (median of {} series; one in ten beyond {:.1f} %{})",
                    100 * verdict.noise, spreads.size(), 100 * tail,
                    between_ranks.empty() ? "" : fmt::format("; between ranks {:.1f} %", 100 * messages));
    verdict.text = verdict.noisy ? "noisy: " + figure + "; other programs run, or the clock changes"
                                 : "quiet: " + figure;
    return verdict;
}

}  // namespace tw
