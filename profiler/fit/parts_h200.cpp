// One H200 under PyTorch 2.11: what no table of another device holds, and the ratios that siblings take from
// it.
#include <algorithm>
#include <array>
#include <cmath>

#include "models/hardware/scale_profile.hpp"
#include "profiler/fit/fit_attention.hpp"
#include "profiler/fit/fit_memory.hpp"
#include "profiler/fit/profile_parts.hpp"
#include "profiler/fit/statistics.hpp"

namespace tw {
namespace {

constexpr const char* kRows = "one H200, PyTorch 2.11, cuDNN 9.19, 865 rows, 2026-11-29";
// Shorter rows hold the host's dispatch, not only the kernel.
constexpr double kDispatchFloor_s = 60e-6;

bool whole_lines(const GemmShape& s) {
    return s.n % 64 == 0 && s.k % 64 == 0 && s.m % 64 == 0;
}

// measured / curve of the rows that are long enough.
std::vector<double> ratios(const GemmEntry& entry, const std::vector<GemmPoint>& rows, GemmForm form,
                           bool aligned) {
    std::vector<double> values;
    for (const GemmPoint& row : rows) {
        if (row.precision != Precision::Bf16 || row.form != form || row.seconds < kDispatchFloor_s) continue;
        if (whole_lines(row.shape) != aligned) continue;
        values.push_back(row.seconds / gemm_seconds(entry.curve, entry.residual, row.shape));
    }
    return values;
}

std::vector<double> log_errors(const std::vector<double>& values, double centre) {
    std::vector<double> errors;
    for (const double value : values)
        errors.push_back(std::abs(std::log(value / centre)));
    return errors;
}

void set_gemm_forms(const std::vector<GemmPoint>& rows, Profiles& profiles) {
    const GemmEntry& h200 = profiles.at("h200").profile.gemm.front();
    double forward = 1;
    for (const GemmForm form : {GemmForm::Forward, GemmForm::InputGrad, GemmForm::WeightGrad}) {
        const std::vector<double> values = ratios(h200, rows, form, true);
        const double factor = quantile(values, 0.5);
        if (form == GemmForm::Forward) forward = factor;
        FitRecord record;
        record.source = std::string(kRows) + ", against the curve of aiconfigurator's table";
        record.points = static_cast<std::int64_t>(values.size());
        record.sigma = round_digits(quantile(log_errors(values, factor), 0.8) / 1.2816, 3);
        for (auto& [name, fit] : profiles) {
            if (name == "h200") {
                fit.profile.gemm_forms.push_back({form, round_digits(factor), {}, record});
            } else {
                // Elsewhere the forward curve stands as measured; gradients take their ratio to it.
                FitRecord scaled =
                    form == GemmForm::Forward ? record : scaled_record(record, "h200", kCarriedRatioSigma);
                if (form == GemmForm::Forward) scaled = {"the GEMM curve itself", "", 0, 0, 0, 0, 0};
                const double own = form == GemmForm::Forward ? 1.0 : factor / forward;
                fit.profile.gemm_forms.push_back({form, round_digits(own), {}, scaled});
            }
        }
    }
    // Misaligned rows over aligned ones, all forms together.
    std::vector<double> unaligned;
    for (const GemmForm form : {GemmForm::Forward, GemmForm::InputGrad, GemmForm::WeightGrad}) {
        const double centre = quantile(ratios(h200, rows, form, true), 0.5);
        for (const double value : ratios(h200, rows, form, false))
            unaligned.push_back(value / centre);
    }
    const double factor = round_digits(std::max(1.0, quantile(unaligned, 0.5)));
    for (auto& [name, fit] : profiles) {
        for (std::size_t i = 0; i < fit.gemm.size(); ++i) {
            fit.gemm[i].entry.curve.unaligned = factor;
            refresh_records(fit.gemm[i]);
            fit.profile.gemm[i] = fit.gemm[i].entry;
        }
    }
}

std::vector<AttentionPoint> select(const std::vector<AttentionPoint>& rows, const std::string& kernel,
                                   bool backward) {
    std::vector<AttentionPoint> some;
    for (const AttentionPoint& row : rows) {
        if (row.kernel == kernel && row.shape.backward == backward) some.push_back(row);
    }
    return some;
}

AttentionEntry renamed(AttentionEntry entry, AttentionKernel kernel, const std::string& sibling,
                       double rate = 1, double bandwidth = 1, int sms = 0) {
    entry.kernel = kernel;
    entry.curve.rate = round_digits(entry.curve.rate * rate);
    entry.curve.bandwidth = round_digits(entry.curve.bandwidth * bandwidth);
    if (sms > 0) entry.curve.sms = sms;
    entry.fit = scaled_record(entry.fit, sibling, kScaledAttentionSigma);
    return entry;
}

// Rate of a curve at head dimension 128.
double rate_at_128(const AttentionCurve& curve) {
    return curve.rate * 128.0 / (128.0 + curve.narrow);
}

// FlashAttention 1 on A100: 30-50 % of peak forward, 25-35 % backward (Dao 2023, section 1); the middle of
// both, as uncertain as a figure is that may lie anywhere between the two. From shape to shape it scatters as
// FlashAttention 2 does.
AttentionEntry flash1(const AttentionEntry& flash2, const Device& device, bool backward) {
    AttentionEntry entry = flash2;
    entry.kernel = AttentionKernel::Flash1;
    entry.backward = backward;
    const double share = backward ? 0.30 : 0.40;
    entry.curve.rate = round_digits(flash2.curve.rate * share * device.peak(Precision::Fp16).value /
                                    rate_at_128(flash2.curve));
    const double scatter =
        std::sqrt(std::max(0.0, std::pow(flash2.fit.sigma, 2) - std::pow(flash2.fit.shared, 2)));
    FitRecord record = flash2.fit;
    record.sigma = scatter;
    record.shared = 0;
    entry.fit =
        scaled_record(record, "flash2", std::log(backward ? 0.35 / 0.25 : 0.5 / 0.3) / std::sqrt(12.0));
    entry.fit.source =
        "Dao 2023 (FlashAttention-2), section 1: FlashAttention reaches 30-50 % of A100's peak forward, "
        "25-35 % backward; the middle";
    return entry;
}

Status set_attention(const std::vector<AttentionPoint>& rows, Profiles& profiles) {
    AttentionCurve start;
    start.launch_s = 5e-6;
    start.rate = 5e14;
    start.narrow = 30;
    start.prologue_s = 5e-7;
    start.bandwidth = 3e12;
    start.blend = 2;
    start.throttle = 0.05;
    start.sms = 132;
    const std::string source = std::string(kRows) + ", attention, ";
    const auto fit = [&](const char* kernel, AttentionKernel as, bool backward) {
        return fit_few_attention(select(rows, kernel, backward), as, start, source + kernel);
    };
    const AttentionEntry flash_forward = fit("flash", AttentionKernel::Flash2, false);
    const AttentionEntry flash_backward = fit("flash", AttentionKernel::Flash2, true);
    const AttentionEntry cudnn_forward = fit("cudnn", AttentionKernel::CuDnn, false);
    const AttentionEntry cudnn_backward = fit("cudnn", AttentionKernel::CuDnn, true);
    const auto h200 = load_device("h200");
    if (!h200) return h200.errors();
    for (auto& [name, profile_fit] : profiles) {
        const auto device = load_device(name);
        if (!device) return device.errors();
        std::vector<AttentionEntry>& attention = profile_fit.profile.attention;
        const double rate = device->peak(Precision::Bf16).value / h200->peak(Precision::Bf16).value;
        const double bandwidth = device->memory_bandwidth.value / h200->memory_bandwidth.value;
        if (name == "h200") {
            attention.insert(attention.end(), {flash_forward, flash_backward, cudnn_forward, cudnn_backward});
            attention.push_back(renamed(cudnn_backward, AttentionKernel::Flash3, "cudnn"));
        } else if (device->architecture == "hopper") {
            for (const AttentionEntry& entry :
                 {flash_forward, flash_backward, cudnn_forward, cudnn_backward}) {
                attention.push_back(renamed(entry, entry.kernel, "h200", rate, bandwidth, device->sms));
            }
            attention.push_back(
                renamed(cudnn_backward, AttentionKernel::Flash3, "h200 cudnn", rate, bandwidth, device->sms));
        } else if (device->architecture == "blackwell" && rate > 1) {  // the data-centre parts
            attention.front().kernel = AttentionKernel::CuDnn;
            attention.push_back(
                renamed(cudnn_backward, AttentionKernel::CuDnn, "h200", rate, bandwidth, device->sms));
            // FlashAttention 2 uses the older tensor-core instructions: its rate goes with the
            // multiprocessors.
            const double sms = static_cast<double>(device->sms) / h200->sms;
            attention.push_back(
                renamed(flash_forward, AttentionKernel::Flash2, "h200", sms, bandwidth, device->sms));
            attention.push_back(
                renamed(flash_backward, AttentionKernel::Flash2, "h200", sms, bandwidth, device->sms));
        } else {
            AttentionEntry& forward = attention.front();
            if (forward.head_dim.low ==
                forward.head_dim.high) {  // one head dimension: the loss at others is the H200's
                const double dim = forward.head_dim.low;
                const double effective = forward.curve.rate * dim / (dim + forward.curve.narrow);
                forward.curve.narrow = flash_forward.curve.narrow;
                forward.curve.rate = effective * (dim + forward.curve.narrow) / dim;
            }
            AttentionEntry backward = forward;
            backward.backward = true;
            backward.curve.rate = round_digits(forward.curve.rate * rate_at_128(flash_backward.curve) /
                                               rate_at_128(flash_forward.curve));
            backward.fit = scaled_record(flash_backward.fit, "h200", kScaledAttentionSigma);
            backward.fit.source += ", backward over forward of the same kernel";
            const AttentionEntry front = forward;
            attention.push_back(backward);
            if (device->architecture == "ampere") {
                attention.push_back(flash1(front, *device, false));
                attention.push_back(flash1(backward, *device, true));
            }
        }
    }
    return ok();
}

struct Class {
    const char* row;
    MemoryOpKind kind;
    bool backward;
    double bytes;        // per element, read plus written once, bf16
    double kernels = 1;  // that the row times one after the other
};

// Traffic of an ideal kernel. Layer models count bytes the same way; `efficiency` is relative to it.
constexpr std::array kClasses = {
    Class{"add_fwd", MemoryOpKind::Add, false, 6}, Class{"gelu_fwd", MemoryOpKind::Activation, false, 4},
    Class{"gelu_bwd", MemoryOpKind::Activation, true, 6},
    Class{"layernorm_fwd", MemoryOpKind::Norm, false, 4}, Class{"rmsnorm_fwd", MemoryOpKind::Norm, false, 4},
    Class{"layernorm_bwd", MemoryOpKind::Norm, true, 6}, Class{"rmsnorm_bwd", MemoryOpKind::Norm, true, 6},
    Class{"softmax_fwd", MemoryOpKind::Softmax, false, 4},
    Class{"softmax_bwd", MemoryOpKind::Softmax, true, 6},
    Class{"dropout_fwd", MemoryOpKind::Dropout, false, 5},
    // To fp32 and back: at each of the five sizes the row takes twice an addition's time, which moves 6
    // bytes.
    Class{"cast_fp32_fwd", MemoryOpKind::Cast, false, 6, 2},
    // log_softmax reads twice and writes; its backward reads two tensors and writes, after one was cleared.
    Class{"cross_entropy_fp32_fwd", MemoryOpKind::CrossEntropy, false, 12},
    Class{"cross_entropy_fp32_bwd", MemoryOpKind::CrossEntropy, true, 16}};

// Read p, g, m, v and write p, m, v in fp32.
constexpr double kAdamBytes = 28;

void set_memory_classes(const TorchRows& rows, const MemoryCurve& curve, Profiles& profiles) {
    std::map<std::pair<MemoryOpKind, bool>, std::vector<SizePoint>> points;
    std::map<std::pair<MemoryOpKind, bool>, std::string> names;
    for (const Class& one : kClasses) {
        for (const TrafficPoint& row : rows.traffic) {
            if (row.name != one.row || (one.backward && row.seconds < kDispatchFloor_s + 20e-6)) continue;
            points[{one.kind, one.backward}].push_back(
                {row.rows * row.columns * one.bytes, row.seconds / one.kernels});
        }
        std::string& name = names[{one.kind, one.backward}];
        name += (name.empty() ? "" : ", ") + std::string(one.row);
    }
    for (const SizePoint& row : rows.adamw) {
        if (row.bytes >= 1e7)
            points[{MemoryOpKind::Optimizer, false}].push_back({row.bytes * kAdamBytes, row.seconds});
    }
    names[{MemoryOpKind::Optimizer, false}] = "adamw_fused_fp32";
    std::vector<MemoryEntry> entries;
    for (const auto& [key, some] : points) {
        entries.push_back(
            fit_memory_class(key.first, key.second, curve, some, std::string(kRows) + ", " + names[key]));
    }
    const auto copy_of = [&](MemoryOpKind from, MemoryOpKind to, bool backward, const char* why) {
        for (std::size_t i = 0; i < entries.size(); ++i) {
            if (entries[i].kind != from || entries[i].backward) continue;
            MemoryEntry entry = entries[i];
            entry.kind = to;
            entry.backward = backward;
            entry.fit = scaled_record(entry.fit, std::string(to_string(from)));
            entry.fit.source = why;
            entries.push_back(entry);
            return;
        }
    };
    copy_of(MemoryOpKind::Activation, MemoryOpKind::BiasAct, false, "a fused kernel taken as its activation");
    copy_of(MemoryOpKind::Dropout, MemoryOpKind::BiasDropoutAdd, false,
            "a fused kernel taken as its dropout");
    copy_of(MemoryOpKind::Add, MemoryOpKind::GradAccumulate, false, "an addition in place");
    // Frameworks of the A100's time run the softmax of unfused attention as one pass over a row held in
    // registers (Megatron-LM's scaled masked softmax), which the H200's rows lack: PyTorch's own softmax
    // reads long rows again. A normalisation is such a kernel; rows of the lengths of attention scores stand
    // for it.
    std::vector<SizePoint> one_pass;
    for (const TrafficPoint& row : rows.traffic) {
        if (row.name == "rmsnorm_fwd" && row.columns >= 2048 && row.columns <= 4096) {
            one_pass.push_back({row.rows * row.columns * 4, row.seconds});
        }
    }
    const MemoryEntry fused = fit_memory_class(
        MemoryOpKind::Softmax, false, curve, one_pass,
        std::string(kRows) + ", rmsnorm_fwd of 2048 and 4096 columns: a one-pass row kernel");
    for (auto& [name, fit] : profiles) {
        fit.profile.memory_ops = entries;
        if (name == "h200") continue;
        for (MemoryEntry& entry : fit.profile.memory_ops) {
            if (name == "a100" && entry.kind == MemoryOpKind::Softmax && !entry.backward) entry = fused;
            entry.fit = scaled_record(entry.fit, "h200");
        }
    }
}

// The same four operations and a transposition on the core of sim/cost/host_dispatch.hpp (PyTorch 2.11,
// tensors of 8 channels, tight loop), and what an operation of a layer takes there beside its call of the
// device.
constexpr double kTransposition_s = 0.89e-6, kLayerOp_s = 4.75e-6;
constexpr std::array<std::pair<const char*, double>, 4> kReferenceOps = {
    {{"add", 1.30e-6}, {"linear", 3.30e-6}, {"layernorm", 3.31e-6}, {"mm", 1.43e-6}}};
// A linear module's call, with autograd: beyond the operation itself.
constexpr double kModule_s = 9.01e-6 - 3.30e-6;

// How much slower this host is than that core: products with one operand transposed (nt) take longer than
// those with none (nn) by one `t()`, as long as the host bounds them.
double host_ratio(const std::vector<GemmPoint>& rows) {
    constexpr double kHostBound_s = 16e-6;
    std::vector<double> views;
    for (const GemmPoint& plain : rows) {
        if (plain.form != GemmForm::InputGrad || plain.precision != Precision::Bf16) continue;
        for (const GemmPoint& row : rows) {
            if (row.form == GemmForm::Forward && row.precision == Precision::Bf16 &&
                row.seconds < kHostBound_s && row.shape.m == plain.shape.m && row.shape.n == plain.shape.n &&
                row.shape.k == plain.shape.k)
                views.push_back(row.seconds - plain.seconds);
        }
    }
    return quantile(views, 0.5) / kTransposition_s;
}

// Forward of a linear module on the host, microseconds by system: NVIDIA/TransformerEngine issue 2053,
// 2025-08.
constexpr const char* kIssue = "NVIDIA/TransformerEngine issue 2053: CPU time of torch.nn.Linear's forward, ";
constexpr double kLinearDgxH100_s = 13.48e-6, kLinearGrace_s = 37.08e-6;
// A DGX A100's EPYC 7742 (Zen 2) against that Xeon 8480C. The module takes 9.01 us and its device call 2.95
// us on the core of sim/cost/host_dispatch.hpp (Zen 4), 1 / 1.127 of the DGX H100's time. kReferenceOps and
// the transposition take 1.31 times as long on a Zen 3 core as on that one (mean of the five, PyTorch 2.11),
// and Zen 3 runs 19 % more instructions a clock than Zen 2 (AMD, EPYC 7003, 2021-03): 1.31 * 1.19 / 1.127.
constexpr double kZen2 = 1.38;

void set_host(const TorchRows& rows, Profiles& profiles) {
    double sum = 0, device = 0, linear = 0;
    std::string ops;
    const double ratio = host_ratio(rows.gemm);
    for (const auto& [op, seconds] : rows.dispatch) {
        sum += seconds;
        ops += (ops.empty() ? "" : ", ") + op;
        for (const auto& [name, reference] : kReferenceOps) {
            if (op == name) device += seconds - ratio * reference;
        }
        if (op == "linear") linear = seconds + ratio * kModule_s;
    }
    const auto count = static_cast<double>(rows.dispatch.size());
    FitRecord record;
    record.source = std::string(kRows) + ", host_dispatch: mean of " + ops + " in a tight loop";
    record.points = static_cast<std::int64_t>(rows.dispatch.size());
    record.sigma = 0.4;  // 7 to 19 us over the four ops
    FitRecord graph = record;
    graph.source = std::string(kRows) + ", kernel_in_graph";
    graph.points = 1;
    FitRecord layer = record;
    layer.source = std::string(kRows) +
                   ", host_dispatch less the same calls on a CPU, and a layer's operation there "
                   "(PyTorch 2.11), times this host's t() over that CPU's";
    const double eager_s = sum / count;
    const double layer_s = ratio * kLayerOp_s + device / count;
    for (auto& [name, fit] : profiles) {
        const bool own = name == "h200";
        const bool grace = name == "gb200" || name == "gb300";
        const bool rome = name.rfind("a100", 0) == 0;
        // Hosts of other systems: an NVIDIA DGX A100 (EPYC 7742) for its device, a DGX H100 (Xeon 8480C) for
        // other x86, Grace for superchips.
        const double share = own     ? 1.0
                             : grace ? kLinearGrace_s / linear
                                     : kLinearDgxH100_s * (rome ? kZen2 : 1) / linear;
        const auto entry = [&](const char* mode, double seconds, FitRecord fit_record) {
            if (!own) {
                fit_record = scaled_record(fit_record, "h200");
                fit_record.source += std::string("; times ") + kIssue + (grace ? "GB200" : "DGX H100");
                if (rome) fit_record.source += "; times 1.38: EPYC 7742 (Zen 2) for Xeon 8480C";
            }
            return HostEntry{mode, round_digits(seconds * share, 3), fit_record};
        };
        fit.profile.host = {
            entry("eager", eager_s, record),
            entry("layer", layer_s, layer),
            {"graph", round_digits(rows.kernel_in_graph_s, 3), own ? graph : scaled_record(graph, "h200")}};
    }
}

}  // namespace

Status add_h200_rows(const Folder& hw, Profiles& profiles) {
    const auto rows = read_torch_rows(hw);
    if (!rows) return rows.errors();
    set_gemm_forms(rows->gemm, profiles);
    if (const Status done = set_attention(rows->attention, profiles); !done) return done;
    // Copies over 256 MB run at two thirds of the rate of kernels of the same traffic: another engine, left
    // out.
    std::vector<SizePoint> copies;
    for (const SizePoint& row : rows->copies) {
        if (row.bytes <= 3e8) copies.push_back({2 * row.bytes, row.seconds});
    }
    const MemoryFit memory =
        fit_memory_curve(copies, {1.2e-6, 4e12, 7e12, 4e7}, std::string(kRows) + ", copy_d2d up to 256 MB");
    profiles.at("h200").profile.memory = memory.curve;
    profiles.at("h200").profile.memory_fit = memory.fit;
    set_memory_classes(*rows, memory.curve, profiles);
    set_host(*rows, profiles);
    return ok();
}

}  // namespace tw
