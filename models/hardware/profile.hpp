// How fast one device, and the links inside its usual node, really run: parameters of the curves in curves/,
// fitted to published microbenchmarks by scripts/fit_profiles, each with its source, its range and its error
// on shapes that the fit never saw. Documents: models/data/profiles/<device>.json, schema
// "trainwright/profile" version 2.
//
// Units: seconds, bytes, bytes/s, FLOP/s. Collective sizes are nccl-tests' size column (CollectiveOp::bytes).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "models/graph/op.hpp"
#include "models/hardware/curves/attention_curve.hpp"
#include "models/hardware/curves/collective_curve.hpp"
#include "models/hardware/curves/convolution_curve.hpp"
#include "models/hardware/curves/gemm_curve.hpp"
#include "models/hardware/curves/host_gemm_curve.hpp"
#include "models/hardware/curves/memory_curve.hpp"

namespace tw {

// Where an entry comes from and how well it predicts. Errors are |log(measured / predicted)| on held-out
// points.
struct FitRecord {
    std::string source;       // measurement (repository and file), paper or datasheet
    std::string scaled_from;  // sibling whose figures were scaled by datasheet; "": measured on this device
    double sigma = 0.15;      // relative: 80th percentile of the held-out error / 1.2816
    double median = 0, p90 = 0;  // held-out errors; 0 where nothing was held out
    std::int64_t points = 0;     // measurements used
    std::int64_t held_out = 0;   // measurements left out
    // The part of sigma that is wrong the same way for all shapes (another machine, a sibling's figures); the
    // rest scatters from shape to shape.
    double shared = 0;

    friend bool operator==(const FitRecord&, const FitRecord&) = default;
};

struct Range {
    double low = 0, high = 0;  // inclusive
    [[nodiscard]] bool contains(double x) const { return x >= low && x <= high; }
    friend bool operator==(const Range&, const Range&) = default;
};

struct GemmEntry {
    Precision precision = Precision::Bf16;
    GemmCurve curve;
    ResidualGrid residual;
    Range m, n, k;  // measured
    // Fixed time inside the measured table that is not the product's (fp8: the quantisation of the operand,
    // which layers emit as an op of its own): part of the curve, left out by kernel_time.
    double excluded_s = 0;
    FitRecord fit;
    friend bool operator==(const GemmEntry&, const GemmEntry&) = default;
};

// Time of a GEMM form over the forward curve's: of one precision, or of all that have no entry of their own.
struct GemmFormEntry {
    GemmForm form = GemmForm::Forward;
    double factor = 1;
    ResidualGrid residual;  // beyond the factor, by size; empty: the same for all
    FitRecord fit;
    std::optional<Precision> precision = std::nullopt;  // nothing: all
    friend bool operator==(const GemmFormEntry&, const GemmFormEntry&) = default;
};

// Products of a processor, in one precision and form: what kernel_time takes where there is such an entry.
struct HostGemmEntry {
    Precision precision = Precision::Fp32;
    GemmForm form = GemmForm::Forward;
    HostGemmCurve curve;
    ResidualGrid residual;
    Range m, n, k;  // measured
    FitRecord fit;
    friend bool operator==(const HostGemmEntry&, const HostGemmEntry&) = default;
};

// Tables are measured in short bursts; under hours of load the power limit lowers the clocks. What the
// compute time of 16-bit products is multiplied by, instead of the curve's throttle; 1: not known to differ.
// Nobody published fp8 products under such load: theirs stay as the table has them.
struct SustainedEntry {
    double slowdown = 1;
    FitRecord fit;
    friend bool operator==(const SustainedEntry&, const SustainedEntry&) = default;
};

struct AttentionEntry {
    AttentionKernel kernel = AttentionKernel::Flash2;
    bool backward = false;
    AttentionCurve curve;
    Range seq;       // measured
    Range head_dim;  // measured
    FitRecord fit;
    friend bool operator==(const AttentionEntry&, const AttentionEntry&) = default;
};

struct MemoryEntry {
    MemoryOpKind kind = MemoryOpKind::Other;
    bool backward = false;
    double efficiency = 1;       // of the copy bandwidth
    double extra_latency_s = 0;  // beyond the plain kernel's
    // Of the cache's bandwidth, where the traffic fits: a kernel that arithmetic bounds gains nothing there.
    double cached_efficiency = 0;  // 0: as `efficiency`, at most 1
    FitRecord fit;
    friend bool operator==(const MemoryEntry&, const MemoryEntry&) = default;
};

struct ConvolutionEntry {
    Precision precision = Precision::Fp32;
    ConvolutionCurve curve;
    FitRecord fit;
    friend bool operator==(const ConvolutionEntry&, const ConvolutionEntry&) = default;
};

// Host time to dispatch one framework op, measured in a tight loop: a lower bound of what a training step
// pays.
struct HostEntry {
    std::string mode;  // "eager", "graph" (kernels replayed from a captured graph); of processors "layer" and
                       // the waits of sim/cost/crowd_wait.hpp
    double seconds_per_dispatch = 0;
    FitRecord fit;
    friend bool operator==(const HostEntry&, const HostEntry&) = default;
};

struct CollectiveEntry {
    CollectiveKind kind = CollectiveKind::AllReduce;
    int group_size = 8;
    int nodes = 1;  // that the group spans, group_size / nodes on each, alone on their network
    CollectiveCurve curve;
    Range bytes;
    FitRecord fit;
    friend bool operator==(const CollectiveEntry&, const CollectiveEntry&) = default;
};

// What times of kernels are multiplied by while something runs beside them.
struct InterferenceEntry {
    // "ranks": every device of the node computes; "communication": a transfer; "step": the rest of a whole
    // step (memory that is touched anew, the executor's other threads).
    std::string beside;
    double products = 1, attention = 1, memory = 1, communication = 1;
    FitRecord fit;
    friend bool operator==(const InterferenceEntry&, const InterferenceEntry&) = default;
};

struct HardwareProfile {
    std::string name;  // that of the device: "a100"
    std::string description;
    std::vector<GemmEntry> gemm;
    std::vector<GemmFormEntry> gemm_forms;
    std::vector<HostGemmEntry> host_gemm;  // of processors; a GPU's has none
    SustainedEntry sustained;
    std::vector<AttentionEntry> attention;
    MemoryCurve memory;
    FitRecord memory_fit;
    std::vector<MemoryEntry> memory_ops;
    std::vector<ConvolutionEntry> convolution;
    std::vector<HostEntry> host;
    std::vector<CollectiveEntry> collectives;
    std::vector<InterferenceEntry> interference;
    double memory_outside_bytes = 0;  // of a process, beside what it allocates; 0: not measured

    friend bool operator==(const HardwareProfile&, const HardwareProfile&) = default;
};

// Device time of a kernel (no host dispatch) with its uncertainty. What the profile lacks is estimated from
// the nearest thing it has (another precision scaled by element size, another attention kernel) and flagged
// `scaled`. CollectiveOp: 0 seconds, collectives are costed by placement (measured_collective,
// sim/collectives). Thread-safe, deterministic, under 2 us.
using KernelEstimate = CurveEstimate;
KernelEstimate kernel_time(const HardwareProfile& profile, const Op& op);

// A collective among `group_size` devices of `nodes` nodes, equally many of each, where the profile measured
// that kind and such a group; sizes outside the measured range are extrapolated along the outermost lines and
// flagged.
using CollectiveEstimate = CurveEstimate;
std::optional<CollectiveEstimate> measured_collective(const HardwareProfile& profile, CollectiveKind kind,
                                                      int group_size, double bytes, int nodes = 1);

// Host seconds of one dispatch in a mode ("eager", "graph"); nullopt where unknown.
std::optional<double> host_dispatch_seconds(const HardwareProfile& profile, std::string_view mode);

// A shipped profile's name ("h100"), a document's path or its text ("{...}"). Unknown names list the nearest;
// every error of a document at once.
Result<HardwareProfile> load_profile(std::string_view name_or_path);
std::vector<std::string> profile_names();  // sorted

std::string_view to_string(GemmForm form);      // "forward", "input_grad", "weight_grad"
std::string_view to_string(MemoryOpKind kind);  // "norm", ...

}  // namespace tw
