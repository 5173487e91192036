#include "profiler/bench/session.hpp"

#include <atomic>
#include <mutex>

#include <gtest/gtest.h>

#include "models/hardware/profile_document_json.hpp"
#include "profiler/fit/fit_measured.hpp"
#include "real_exec/comm/local/local_transport.hpp"

namespace tw {
namespace {

SessionOptions quick(double budget_s) {
    SessionOptions options;
    options.budget_s = budget_s;
    options.sampling.least_sample_s = 2e-5;
    options.sampling.least = 3;
    options.sampling.most = 4;
    options.sampling.most_point_s = 0.01;
    options.sampling.tight = 0.5;
    return options;
}

// On threads, a rank each; rank 0's document.
ProfileDocument measure(const SessionOptions& options, int ranks, ProfileDocument known = {}) {
    ProfileDocument result;
    std::mutex mutex;
    run_local_ranks(ranks, [&](Transport& transport) {
        const auto backend = make_cpu_backend();
        const auto document = run_session(options, transport, *backend,
                                          transport.rank() == 0 ? known : ProfileDocument{}, {}, {});
        const std::lock_guard lock(mutex);
        ASSERT_TRUE(document) << to_string(document.errors());
        if (transport.rank() == 0) result = *document;
    });
    return result;
}

// Benchmarks whose samples go by the kernel's name.
bool from_benchmark(const SampleSeries& sample, const Benchmark& b) {
    const std::string_view name = b.name;
    if (name == "training_steps") return sample.benchmark == "training_step" || sample.at("in_step") > 0;
    if (name == "copies") return sample.benchmark == "copy";
    if (name == "norms") return sample.benchmark.rfind("norm", 0) == 0;
    if (name == "elementwise") return sample.benchmark == "activation" || sample.benchmark == "residual_add";
    if (name == "cross_entropy") return sample.benchmark == "softmax_sums";
    if (name == "batched_products") return sample.benchmark == "batched_gemm";
    if (name == "sustained") return sample.benchmark == "sustained_gemm";
    if (name == "busy_neighbours") return sample.benchmark == "interference";
    if (name == "point_to_point") return sample.variant == "send_recv";
    if (name == "collectives") return sample.variant == "all_reduce";
    return sample.benchmark == name;
}

TEST(Benchmarks, EachGivesSamplesWithItsUnitAndAFit) {
    SessionOptions options = quick(6);
    options.least_points = 10;

    options.cores = 2;  // the third rank is one too many
    const ProfileDocument document = measure(options, 3);
    for (const Benchmark& b : benchmarks()) {
        std::size_t points = 0;
        for (const SampleSeries& sample : document.samples) {
            if (!from_benchmark(sample, b)) continue;
            ++points;
            EXPECT_EQ(sample.unit, b.unit) << b.name;
            EXPECT_FALSE(sample.values.empty()) << b.name;
            for (const double v : sample.values)
                EXPECT_GT(v, 0) << b.name;
        }
        EXPECT_GT(points, 0U) << b.name << " measured nothing";
    }
    const HardwareProfile& p = document.profile;
    EXPECT_FALSE(p.gemm.empty());
    EXPECT_EQ(p.attention.size(), 2U);
    EXPECT_GT(p.memory.bandwidth, 1e8);
    EXPECT_FALSE(p.memory_ops.empty() || p.host.empty() || p.collectives.empty());
    std::vector<std::string> beside;
    for (const InterferenceEntry& entry : p.interference)
        beside.push_back(entry.beside);
    EXPECT_EQ(beside, (std::vector<std::string>{"step", "ranks", "communication"}));
    EXPECT_GT(p.memory_outside_bytes, 1e6);
    for (const char* kernel : {"gemm", "attention", "norm", "activation", "collective", "optimizer"}) {
        const auto some = std::find_if(document.samples.begin(), document.samples.end(),
                                       [&](const SampleSeries& s) { return s.benchmark == kernel; });
        ASSERT_NE(some, document.samples.end()) << kernel;
        EXPECT_GT(predicted_seconds(p, *some), 0) << kernel;
    }
    ASSERT_TRUE(document.environment && document.cluster);
    EXPECT_LE(document.environment->harness_overhead, 0.05);
    EXPECT_EQ(document.cluster->groups.front().device.architecture, "cpu");
    // What was measured is read back.
    const auto json = parse_json(profile_document_text(document), "text");
    ASSERT_TRUE(json);
    const auto again = decode_profile_document(*json, "again");
    ASSERT_TRUE(again) << to_string(again.errors());
    EXPECT_EQ(again->samples.size(), document.samples.size());
}

TEST(Session, GoesOnWhereItWasInterrupted) {
    SessionOptions options = quick(4);
    options.only = {"gemm", "copies"};
    const ProfileDocument first = measure(options, 1);
    options.only = {"gemm", "copies", "norms"};
    const ProfileDocument second = measure(options, 1, first);
    ASSERT_GE(second.samples.size(), first.samples.size());
    for (std::size_t i = 0; i < first.samples.size(); ++i) {
        if (first.samples[i].benchmark == "pace") continue;  // of each run
        EXPECT_EQ(second.samples[i].values, first.samples[i].values) << first.samples[i].benchmark;
    }
    EXPECT_GT(std::count_if(second.samples.begin(), second.samples.end(),
                            [](const SampleSeries& s) { return s.benchmark == "norm"; }),
              0);
}

// Interrupted in its first benchmark, long before anything can be fitted.
TEST(Session, LeavesWhatItMeasuredWhenItIsInterruptedEarly) {
    std::atomic<bool> stop{false};
    SessionOptions options = quick(20);
    options.only = {"copies", "norms", "gemm"};
    options.stop = &stop;
    const auto transport = std::move(local_transports(1).front());
    const auto backend = make_cpu_backend();
    std::vector<ProfileDocument> saved;
    const auto document = run_session(
        options, *transport, *backend, {}, [&](const SessionProgress& p) { stop = p.index > 0; },
        [&](const ProfileDocument& one) { saved.push_back(one); });
    ASSERT_TRUE(document) << to_string(document.errors());
    EXPECT_FALSE(document->environment->complete);
    EXPECT_TRUE(document->profile.gemm.empty());
    ASSERT_FALSE(saved.empty());
    EXPECT_GT(saved.front().samples.size(), 0U);
    const auto again =
        decode_measured_samples(*parse_json(profile_document_text(saved.front()), "text"), "again");
    ASSERT_TRUE(again) << to_string(again.errors());
    EXPECT_EQ(again->samples, saved.front().samples);
    EXPECT_FALSE(again->environment->complete);
}

TEST(Session, NamesAnUnknownBenchmarkAndItsNearest) {
    SessionOptions options = quick(1);
    options.only = {"gem"};
    auto transport = std::move(local_transports(1).front());
    const auto backend = make_cpu_backend();
    const auto refused = run_session(options, *transport, *backend, {}, {}, {});
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().hint.find("gemm"), std::string::npos);
}

}  // namespace
}  // namespace tw
