#include "profiler/bench/sampler.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "models/hardware/sample_statistics.hpp"
#include "profiler/bench/least_certain.hpp"

namespace tw {
namespace {

// A clock that advances when something is done.
struct FakeClock {
    double now = 100;
    [[nodiscard]] Clock clock() {
        return [this] { return now; };
    }
};

TEST(Sampler, RepeatsShortCallsUntilTheClockCanTellThem) {
    FakeClock fake;
    SamplingOptions options;
    options.least_sample_s = 1e-3;
    Sampler sampler(fake.clock(), options, 1e9, nullptr);
    SampleSeries point;
    std::int64_t calls = 0;
    ASSERT_TRUE(sampler.measure(point, [&](std::int64_t index) {
        EXPECT_EQ(index, calls++);
        fake.now += 1e-5;
    }));
    EXPECT_EQ(point.calls, 100);
    EXPECT_EQ(static_cast<int>(point.values.size()), options.least);  // equal samples are tight at once
    for (const double v : point.values)
        EXPECT_NEAR(v, 1e-5, 1e-12);
    EXPECT_EQ(calls, options.warm_up + 1 + options.least * 100);
}

TEST(Sampler, SamplesOnUntilTheMedianIsTight) {
    FakeClock fake;
    SamplingOptions options;
    options.least_sample_s = 0;
    options.tight = 0.02;
    Sampler sampler(fake.clock(), options, 1e9, nullptr);
    SampleSeries point;
    ASSERT_TRUE(
        sampler.measure(point, [&](std::int64_t index) { fake.now += index % 3 == 0 ? 1.2e-3 : 1e-3; }));
    EXPECT_GT(static_cast<int>(point.values.size()), options.least);
    EXPECT_TRUE(relative_width(point.values) <= options.tight ||
                static_cast<int>(point.values.size()) == options.most);
    EXPECT_NEAR(median_of(point.values), 1e-3, 1e-9);
}

TEST(Sampler, EndsWithThePointsShareAndWithTheBudget) {
    FakeClock fake;
    SamplingOptions options;
    options.most_point_s = 0.05;
    Sampler sampler(fake.clock(), options, fake.now + 0.2, nullptr);
    const auto noisy = [&](std::int64_t index) { fake.now += index % 2 == 0 ? 4e-3 : 1e-2; };
    SampleSeries point;
    ASSERT_TRUE(sampler.measure(point, noisy));
    EXPECT_LT(static_cast<int>(point.values.size()), options.most);
    while (!sampler.over()) {
        SampleSeries more;
        sampler.measure(more, noisy);
    }
    SampleSeries late;
    EXPECT_FALSE(sampler.measure(late, noisy));
    EXPECT_TRUE(late.values.empty());
    EXPECT_LT(fake.now, 100 + 0.2 + 0.05);
}

// A neighbour makes everything take 1.8 times as long in the first part of each forty milliseconds.
struct Neighbour {
    FakeClock fake;
    double share = 0.5;
    [[nodiscard]] bool works() const { return std::fmod(fake.now, 0.04) < share * 0.04; }
    double take(double seconds) {
        seconds *= works() ? 1.8 : 1;
        fake.now += seconds;
        return seconds;
    }
};

TEST(Sampler, TakesSamplesAgainThatANeighbourDisturbed) {
    Neighbour machine;
    Pace pace([&] { return machine.take(2e-5); });
    pace.settle(machine.fake.clock(), 0.1);
    Sampler sampler(machine.fake.clock(), {}, 1e9, nullptr);
    sampler.watch(&pace);
    SampleSeries point;
    ASSERT_TRUE(sampler.measure(point, [&](std::int64_t) { machine.take(5e-4); }));
    EXPECT_GE(static_cast<int>(point.values.size()), SamplingOptions{}.least);
    for (const double v : point.values)
        EXPECT_NEAR(v, 5e-4, 1e-9);
    EXPECT_NEAR(pace.best_s(), 2e-5, 1e-12);
    EXPECT_GT(pace.share_disturbed(), 0.2);
}

TEST(Sampler, DisturbedSamplesAreBroughtToTheMachinesOwnPace) {
    Neighbour machine;
    Pace pace([&] { return machine.take(2e-5); });
    pace.settle(machine.fake.clock(), 0.1);
    machine.share = 1;  // from now on the neighbour never rests
    Sampler sampler(machine.fake.clock(), {}, 1e9, nullptr);
    sampler.watch(&pace);
    SampleSeries point;
    ASSERT_TRUE(sampler.measure(point, [&](std::int64_t) { machine.take(5e-4); }));
    EXPECT_GE(static_cast<int>(point.values.size()), SamplingOptions{}.least);
    EXPECT_NEAR(median_of(point.values), 5e-4, 1e-9);
}

TEST(Pace, AnInstantOfARaisedClockCountsForNothing) {
    FakeClock fake;
    int probes = 0;
    Pace pace([&] { return ++probes == 3 ? 1e-5 : 2e-5; });
    for (int i = 0; i < 100; ++i)
        pace.undisturbed();
    EXPECT_DOUBLE_EQ(pace.best_s(), 2e-5);
    EXPECT_TRUE(pace.undisturbed());
    EXPECT_DOUBLE_EQ(pace.share_disturbed(), 0);
    EXPECT_TRUE(Pace{}.undisturbed());
}

TEST(Sampler, StopsWhenItIsTold) {
    FakeClock fake;
    std::atomic<bool> stop{false};
    Sampler sampler(fake.clock(), {}, 1e9, &stop);
    SampleSeries point;
    ASSERT_TRUE(sampler.measure(point, [&](std::int64_t index) {
        fake.now += 1e-3;
        if (index == 4) stop = true;
    }));
    EXPECT_LE(point.values.size(), 3U);
    EXPECT_TRUE(sampler.over());
}

TEST(JudgeNoise, SaysWhichMachineIsNoisy) {
    std::vector<SampleSeries> samples(1);
    samples[0].values = {1, 1.001, 1.002, 0.999, 1, 1.001, 1};
    EXPECT_FALSE(judge_noise(samples).noisy);
    EXPECT_EQ(judge_noise(samples).text.rfind("quiet", 0), 0U);
    samples[0].values = {1, 1.5, 0.8, 1.2, 1, 1.4, 0.9};
    EXPECT_TRUE(judge_noise(samples).noisy);
    EXPECT_EQ(judge_noise(samples).text.rfind("noisy", 0), 0U);
}

TEST(JudgeNoise, LooksAtTheTailAndBetweenRanks) {
    const std::vector<double> quiet = {1, 1.001, 1.002, 0.999, 1, 1.001, 1}, wild = {1, 9, 1, 20, 3, 11, 1};
    std::vector<SampleSeries> samples(20);
    for (SampleSeries& series : samples)
        series.values = quiet;
    samples[0].values = wild;  // one in twenty
    const NoiseVerdict one = judge_noise(samples);
    EXPECT_FALSE(one.noisy) << one.text;
    EXPECT_EQ(one.text,
              "quiet: equal samples differ by 0.1 % (median of 20 series; one in ten beyond 0.1 %)");
    for (std::size_t i = 0; i < 3; ++i)
        samples[i].values = wild;
    const NoiseVerdict tail = judge_noise(samples);
    EXPECT_TRUE(tail.noisy) << tail.text;
    EXPECT_LT(tail.noise, 0.01);
    // Few, but those that time messages.
    for (std::size_t i = 0; i < 3; ++i)
        samples[i].values = quiet;
    samples[0].values = wild;
    samples[0].benchmark = "collective";
    const NoiseVerdict messages = judge_noise(samples);
    EXPECT_TRUE(messages.noisy) << messages.text;
    EXPECT_NE(messages.text.find("; between ranks "), std::string::npos) << messages.text;
}

TEST(SampleStatistics, IntervalsHoldTheMedian) {
    const std::vector<double> values = {5, 1, 4, 2, 3, 9, 7, 8, 6, 10};
    EXPECT_DOUBLE_EQ(median_of(values), 5.5);
    const Interval interval = median_interval(values);
    EXPECT_LE(interval.low, 5.5);
    EXPECT_GE(interval.high, 5.5);
    EXPECT_DOUBLE_EQ(median_of({}), 0);
    EXPECT_DOUBLE_EQ(relative_width({1}), 1);
}

TEST(LeastCertain, AsksWhereNeighboursDisagreeOrAreFar) {
    LeastCertain<1> chooser({{16}, {64}, {4096}});
    chooser.add_measured({16}, 16e-9);
    chooser.add_measured({64}, 64e-9);
    // The same rate everywhere: the farthest is next.
    EXPECT_EQ((*chooser.next())[0], 4096);
    LeastCertain<1> steep({{24}, {96}});
    steep.add_measured({16}, 16e-9);
    steep.add_measured({32}, 32e-9);
    steep.add_measured({64}, 64e-9);
    steep.add_measured({128}, 512e-9);
    EXPECT_EQ((*steep.next())[0], 96);
    steep.add_measured({96}, 100e-9);
    EXPECT_EQ((*steep.next())[0], 24);
    steep.add_measured({24}, 24e-9);
    EXPECT_FALSE(steep.next());
}

}  // namespace
}  // namespace tw
