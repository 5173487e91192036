// What a trainwright/profile document holds beside the fitted curves of profile.hpp: the raw samples that
// they were fitted to, the machine and the day that gave them, and the node and network that `--cluster
// my.profile.json:64` builds clusters from. Shipped profiles have none of these.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "models/hardware/cluster.hpp"
#include "models/hardware/profile.hpp"

namespace tw {

// One benchmark at one shape. `values` are raw, in the order of measurement, in `unit` (seconds of one call:
// "s"; "bytes" for memory): medians and intervals follow from them (sample_statistics.hpp).
struct SampleSeries {
    std::string benchmark;                              // its name in the profiler's registry: "gemm"
    std::string variant;                                // "fp32 weight_grad"; may be empty
    std::vector<std::pair<std::string, double>> shape;  // {"m", 1024}, ...: names in lower case
    std::string unit = "s";
    int calls = 1;  // that each value is the mean of
    std::vector<double> values;

    // A number of the shape; `fallback` where it has none of that name.
    [[nodiscard]] double at(std::string_view name, double fallback = 0) const;
    // Benchmark, variant and shape alike: the same point measured again.
    [[nodiscard]] bool same_point(const SampleSeries& other) const;
    friend bool operator==(const SampleSeries&, const SampleSeries&) = default;
};

// Where and how the samples were taken. Texts are as their programs report them; empty: unknown.
struct MeasuredEnvironment {
    std::string date;  // ISO 8601, UTC, of the last sample
    std::string tool;  // "trainwright 0.9" or the importer's source
    std::string host, system, processor, compiler, backend, transport;
    int cores = 0;                     // that the ranks could use
    int ranks = 1;                     // processes that measured together
    int threads = 1;                   // of a rank
    int multiprocessors = 0;           // of a GPU
    double seconds = 0;                // spent on measuring
    double harness_overhead = 0;       // share of a sample that was the clock and the loop
    double noise = 0;                  // median relative spread of equal samples
    std::string noise_verdict;         // "quiet", or what was seen: "noisy: ..."
    bool complete = true;              // false: interrupted or out of budget; measuring again resumes
    std::vector<std::string> missing;  // what was not measured, and why
    friend bool operator==(const MeasuredEnvironment&, const MeasuredEnvironment&) = default;
};

struct ProfileDocument {
    HardwareProfile profile;
    std::optional<MeasuredEnvironment> environment;
    std::vector<SampleSeries> samples;
    std::optional<Cluster> cluster;  // one group of one node type; its `profile` is left empty
    friend bool operator==(const ProfileDocument&, const ProfileDocument&) = default;
};

// A document on disk, or a shipped profile's name.
Result<ProfileDocument> load_profile_document(std::string_view name_or_path);

// `size` devices of the document's own node type (all of its nodes where 0), timed by the document itself:
// the cluster's `profile` is `path`.
Result<Cluster> cluster_of_document(const ProfileDocument& document, std::string_view path, int size);

}  // namespace tw
