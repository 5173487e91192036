// One profile: all benchmarks in turn within a budget, the fits of what they gave, and the document. Rank 0
// measures, decides and writes; the other ranks take part where several are needed.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "models/hardware/profile_document.hpp"
#include "profiler/bench/benchmark.hpp"

namespace tw {

struct SessionOptions {
    double budget_s = 120;
    std::vector<std::string> only;  // names of benchmarks; empty: all
    bool process_time = false;      // processor time instead of the wall's, on machines that others use too
    int threads = 1;
    int cores =
        0;  // ranks beyond so many measure only what happens with more ranks than cores; 0: the system's
    int least_points = 1;  // of each benchmark, whatever the budget
    SamplingOptions sampling;
    const std::atomic<bool>* stop = nullptr;  // Ctrl-C
};

struct SessionProgress {
    std::string_view benchmark;
    std::size_t index = 0, count = 0;  // of benchmarks
    double elapsed_s = 0, budget_s = 0;
    std::size_t points = 0;
};

using OnProgress = std::function<void(const SessionProgress&)>;
// The document so far, now and then and when the run is interrupted: what it leaves. Until enough is measured
// for a fit, its profile is empty (decode_measured_samples).
using OnCheckpoint = std::function<void(const ProfileDocument&)>;

// `known`: an earlier, interrupted document of the same machine, whose points are not measured again;
// default: none. All ranks call it together; the result is whole on rank 0. Errors: nothing could be fitted
// within the budget. An interrupted run returns what it has, `complete` false, its profile empty where
// nothing could be fitted yet.
Result<ProfileDocument> run_session(const SessionOptions& options, Transport& transport, Backend& backend,
                                    ProfileDocument known, const OnProgress& progress,
                                    const OnCheckpoint& checkpoint);

// Names of benchmarks; unknown ones as usage errors of --only, with their nearest.
Errors check_benchmarks(const std::vector<std::string>& names);

// Fits the document's samples anew: profile, cluster, what is missing.
Status refit(ProfileDocument& document);

// Of this machine and build, without what a run adds.
MeasuredEnvironment describe_environment(const Backend& backend, const Transport& transport, int threads);
// Whether samples taken in both may stand in one document.
bool same_machine(const MeasuredEnvironment& a, const MeasuredEnvironment& b);

}  // namespace tw
