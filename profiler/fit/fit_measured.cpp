#include "profiler/fit/fit_measured.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "models/hardware/sample_statistics.hpp"
#include "plan/frameworks/executor_kernels.hpp"
#include "profiler/fit/crowd_waits.hpp"
#include "profiler/fit/fit_attention.hpp"
#include "profiler/fit/fit_collective.hpp"
#include "profiler/fit/fit_convolution.hpp"
#include "profiler/fit/fit_gemm.hpp"
#include "profiler/fit/fit_host_gemm.hpp"
#include "profiler/fit/fit_kernels.hpp"
#include "profiler/fit/minimize.hpp"
#include "profiler/fit/missing_parts.hpp"
#include "profiler/fit/residual_grid.hpp"
#include "profiler/fit/statistics.hpp"

namespace tw {
namespace {

// Kernels inside steps find caches as layers leave them: they count so many times.
constexpr int kInStepWeight = 5;

constexpr const char* kSource = "measured by trainwright profile on the machine itself";

std::int64_t whole(const SampleSeries& s, std::string_view name) {
    return std::max<std::int64_t>(1, std::llround(s.at(name, 1)));
}

bool starts_with(const SampleSeries& s, std::string_view text) {
    return std::string_view(s.variant).substr(0, text.size()) == text;
}

Precision precision_of(const SampleSeries& s) {
    for (const Precision p : {Precision::Bf16, Precision::Fp16, Precision::Tf32, Precision::Fp8}) {
        if (starts_with(s, to_string(p))) return p;
    }
    return Precision::Fp32;
}

GemmForm form_of(const SampleSeries& s) {
    if (s.variant.find("weight_grad") != std::string::npos) return GemmForm::WeightGrad;
    return s.variant.find("input_grad") != std::string::npos ? GemmForm::InputGrad : GemmForm::Forward;
}

std::vector<GemmPoint> gemm_points(const std::vector<SampleSeries>& samples, Precision precision) {
    std::vector<GemmPoint> points;
    for (const SampleSeries& s : samples) {
        if (s.benchmark != "gemm" || precision_of(s) != precision) continue;
        GemmPoint point;
        point.shape = {whole(s, "m"),
                       whole(s, "n"),
                       whole(s, "k"),
                       1,
                       static_cast<double>(bytes_per_element(precision)),
                       static_cast<double>(bytes_per_element(precision))};
        point.precision = precision;
        point.form = form_of(s);
        point.seconds = median_of(s.values);
        points.push_back(point);
        // Inside steps caches are as layers leave them: such points count more.
        for (int again = 0; again < kInStepWeight - 1 && s.at("in_step") > 0; ++again)
            points.push_back(point);
    }
    return points;
}

GemmCurve first_guess(const std::vector<GemmPoint>& points) {
    GemmCurve curve;
    curve.rate = 1;
    for (const GemmPoint& p : points) {
        const double flops = 2.0 * static_cast<double>(p.shape.m) * static_cast<double>(p.shape.n) *
                             static_cast<double>(p.shape.k);
        curve.rate = std::max(curve.rate, flops / p.seconds);
    }
    curve.launch_s = 1e-6;
    curve.overhead = 0.2;
    curve.prologue_s = 2e-7;
    curve.bandwidth = curve.rate / 10;
    curve.split_s = 1e-6;
    curve.blend = 1.5;
    curve.throttle = 0.01;
    curve.slack = 0.9;
    return curve;
}

// A form over the forward curve: the median ratio, and how it changes with the sizes. `adds`: a weight
// gradient was added to fp32 sums, which a simulation counts by itself (models/hardware/profile.hpp).
GemmFormEntry fit_form(GemmForm form, std::vector<GemmPoint> points, const GemmEntry& base, bool adds) {
    for (GemmPoint& p : points) {
        if (adds) p.seconds = std::max(p.seconds / 2, p.seconds - accumulation_seconds(base.curve, p.shape));
    }
    GemmFormEntry entry;
    entry.form = form;
    std::vector<double> ratios, errors;
    for (const GemmPoint& p : points)
        ratios.push_back(p.seconds / gemm_seconds(base.curve, base.residual, p.shape));
    entry.factor = round_digits(median_of(ratios));
    for (std::size_t i = 0; i < points.size(); ++i)  // what is left, over the bare curve
        points[i].seconds = gemm_seconds(base.curve, points[i].shape) * ratios[i] / entry.factor;
    if (points.size() >= 40) entry.residual = fit_residual_grid(base.curve, points, grid_layouts().front());
    for (std::size_t i = 0; i < points.size(); ++i) {
        const GemmShape& s = points[i].shape;
        const double size =
            entry.residual.at(static_cast<double>(s.m), static_cast<double>(s.n), static_cast<double>(s.k));
        errors.push_back(std::abs(std::log(ratios[i] / entry.factor) - size));
    }
    entry.fit = fit_record(kSource, static_cast<std::int64_t>(points.size()), errors);
    return entry;
}

// Forward products make the curve; the other forms' factors are medians of measured over curve: those of the
// first precision stand for all that have not enough of their own.
void add_products(const std::vector<SampleSeries>& samples, int multiprocessors, HardwareProfile& profile) {
    const bool cpu = multiprocessors == 0;
    constexpr std::size_t kFewestOfAForm = 8;
    bool first = true;
    for (const Precision precision : {Precision::Fp32, Precision::Tf32, Precision::Bf16, Precision::Fp16}) {
        std::vector<GemmPoint> forward, rest;
        for (const GemmPoint& p : gemm_points(samples, precision))
            (p.form == GemmForm::Forward ? forward : rest).push_back(p);
        if (forward.size() < 8) continue;
        GemmFitOptions options;
        options.sms = std::max(1, multiprocessors);
        options.evaluations = 1600;
        options.residual_grid = forward.size() >= 40;
        GemmFit fit = fit_gemm(forward, first_guess(forward), options, kSource);
        // Where products are never split, nothing holds the cost of splitting.
        fit.entry.curve.split_s = std::min(fit.entry.curve.split_s, 1.0);
        fit.entry.curve.bandwidth = std::min(fit.entry.curve.bandwidth, 1e15);
        profile.gemm.push_back(fit.entry);
        std::map<GemmForm, std::vector<GemmPoint>> forms;
        for (const GemmPoint& p : rest)
            forms[p.form].push_back(p);
        for (const auto& [form, points] : forms) {
            if (!first && points.size() < kFewestOfAForm) continue;
            GemmFormEntry entry = fit_form(form, points, fit.entry, !cpu && form == GemmForm::WeightGrad);
            if (!first) entry.precision = precision;
            profile.gemm_forms.push_back(std::move(entry));
        }
        first = first && forms.empty();
        if (!cpu) continue;
        forms[GemmForm::Forward] = forward;
        for (const auto& [form, points] : forms) {
            if (points.size() >= kFewestHostProducts)
                profile.host_gemm.push_back(fit_host_gemm(points, form, kSource));
        }
    }
}

void add_attention(const std::vector<SampleSeries>& samples, int multiprocessors, HardwareProfile& profile) {
    for (const bool backward : {false, true}) {
        std::vector<AttentionPoint> points;
        double rate = 1;
        for (const SampleSeries& s : samples) {
            if (s.benchmark != (backward ? "attention_backward" : "attention")) continue;
            AttentionPoint p;
            AttentionShape& a = p.shape;
            a.batch = whole(s, "batch"), a.seq_q = a.seq_kv = whole(s, "seq");
            a.heads = whole(s, "heads"), a.kv_heads = whole(s, "kv_heads");
            a.head_dim_qk = a.head_dim_v = whole(s, "head_dim");
            a.causal = s.at("causal") > 0, a.backward = backward;
            a.element_bytes = bytes_per_element(precision_of(s));
            p.seconds = median_of(s.values);
            const double flops = 4.0 * static_cast<double>(a.batch * a.heads * a.head_dim_qk) *
                                 visited_scores(a, 64) * (backward ? 2.5 : 1);
            rate = std::max(rate, flops / p.seconds);
            const int times = s.at("in_step") > 0 ? kInStepWeight : 1;
            for (int i = 0; i < times; ++i)
                points.push_back(p);
        }
        if (points.size() < 6) continue;
        AttentionCurve start;
        start.launch_s = 1e-6, start.rate = rate, start.narrow = 8, start.prologue_s = 1e-7;
        start.bandwidth = rate / 4, start.blend = 1.5, start.throttle = 0.01, start.rows = 64;
        start.sms = std::max(1, multiprocessors);
        profile.attention.push_back(fit_attention(points, AttentionKernel::Flash2, start, kSource));
    }
}

// Where a class was timed inside steps, samples of it alone only tell of sizes that no step had.
void keep_in_step(std::vector<KernelPoint>& points) {
    double low = 1e300, high = 0;
    std::size_t count = 0;
    for (const KernelPoint& p : points) {
        if (!p.in_step) continue;
        ++count;
        low = std::min(low, p.bytes), high = std::max(high, p.bytes);
    }
    if (count < 5) return;
    std::erase_if(points, [&](const KernelPoint& p) {
        return !p.in_step && p.bytes >= low / 2 && p.bytes <= high * 2;
    });
    for (KernelPoint& p : points)
        p.weight = p.in_step ? 3 : 1;
}

// Processors compute in fp32 whatever they store; a GPU's kernels are bound by the bytes.
double element_bytes(const SampleSeries& s, bool cpu) {
    return cpu ? 4 : bytes_per_element(precision_of(s));
}

void add_kernels(const std::vector<SampleSeries>& samples, bool cpu, HardwareProfile& profile) {
    std::map<std::pair<MemoryOpKind, bool>, std::vector<KernelPoint>> classes;
    std::vector<KernelPoint> copies;
    for (const SampleSeries& s : samples) {
        const ExecutorKernelInfo* info = find_executor_kernel(s.benchmark);
        if (info == nullptr) continue;
        KernelPoint point;
        point.bytes = info->passes * s.at("rows") * s.at("width") * element_bytes(s, cpu);
        point.seconds = median_of(s.values);
        point.in_step = s.at("in_step") > 0;
        if (point.bytes <= 0 || point.seconds <= 0) continue;
        if (info->kernel == ExecutorKernel::Copy && s.at("in_step") == 0) copies.push_back(point);
        classes[{info->kind, info->backward}].push_back(point);
    }
    if (copies.size() >= 4) {
        const MemoryFit fit = fit_copy_curve(copies, kSource);
        profile.memory = fit.curve;
        profile.memory_fit = fit.fit;
    } else {
        profile.memory_fit.source = "not measured";
        profile.memory_fit.sigma = 1;
    }
    for (auto& [key, points] : classes) {
        keep_in_step(points);
        if (key.first != MemoryOpKind::Copy)
            profile.memory_ops.push_back(
                fit_kernel_class(key.first, key.second, profile.memory, points, kSource));
    }
}

void add_convolution(const std::vector<SampleSeries>& samples, HardwareProfile& profile) {
    std::vector<ConvolutionPoint> points;
    for (const SampleSeries& s : samples) {
        if (s.benchmark != "convolution") continue;
        ConvolutionPoint p;
        Convolution& c = p.convolution;
        c.batch = whole(s, "batch"), c.in_channels = whole(s, "in_channels");
        c.out_channels = whole(s, "out_channels");
        c.out_height = c.out_width = whole(s, "out_size");
        c.kernel_h = c.kernel_w = whole(s, "kernel");
        c.stride = whole(s, "stride");
        c.form = form_of(s);
        p.seconds = median_of(s.values);
        points.push_back(p);
    }
    const auto fp32 = std::find_if(profile.gemm.begin(), profile.gemm.end(),
                                   [](const GemmEntry& e) { return e.precision == Precision::Fp32; });
    if (points.size() >= 6 && fp32 != profile.gemm.end())
        profile.convolution.push_back(fit_convolution(points, fp32->curve, kSource));
}

// A training step beside its kernels: dispatches and buffers, a time for each operation, and what memory that
// is touched anew and other threads take, a share of the kernels' time.
struct HostPoint {
    double operations, beside_s, kernels_s;
};
struct HostFit {
    double operation_s, share;
};

std::vector<HostPoint> host_points(const std::vector<SampleSeries>& samples) {
    std::vector<HostPoint> points;
    for (const SampleSeries& host : samples) {
        if (host.benchmark != "host") continue;
        for (const SampleSeries& step : samples) {
            if (step.benchmark != "training_step" || step.variant != host.variant) continue;
            const double beside = median_of(host.values) * host.at("operations");
            points.push_back(
                {host.at("operations"), beside, std::max(1e-9, median_of(step.values) - beside)});
        }
    }
    return points;
}

HostFit fit_host(const std::vector<HostPoint>& points) {
    std::vector<double> each;
    for (const HostPoint& p : points)
        each.push_back(p.beside_s / p.operations);
    if (points.size() < 4) return {std::max(1e-8, median_of(each)), 0};
    const auto decode = [](const std::vector<double>& p) { return HostFit{std::exp(p[0]), std::exp(p[1])}; };
    const Minimum best = minimize(
        [&](const std::vector<double>& p) {
            const HostFit fit = decode(p);
            double sum = 0;  // relative to the step
            for (const HostPoint& at : points)
                sum += std::abs(at.beside_s - fit.operation_s * at.operations - fit.share * at.kernels_s) /
                       at.kernels_s;
            return sum;
        },
        {std::log(std::max(1e-8, median_of(each) / 2)), std::log(0.005)}, 0.5, 800, 3);
    return decode(best.at);
}

void add_host(const std::vector<SampleSeries>& samples, bool cpu, HardwareProfile& profile) {
    std::vector<double> loop;
    for (const SampleSeries& s : samples) {
        if (s.benchmark == "dispatch" && s.variant == "tight loop") loop.push_back(median_of(s.values));
    }
    const auto add = [&](const char* mode, const std::vector<double>& values) {
        if (values.empty()) return;
        HostEntry entry;
        entry.mode = mode;
        entry.seconds_per_dispatch = round_digits(median_of(values));
        entry.fit.source = kSource;
        entry.fit.points = static_cast<std::int64_t>(values.size());
        entry.fit.sigma = values.size() > 1 ? round_digits(std::max(0.05, relative_spread(values)), 3) : 0.3;
        profile.host.push_back(entry);
    };
    add("eager", loop);
    for (const auto& [mode, wait] : crowd_waits(samples))
        add(mode, {wait});
    const std::vector<HostPoint> steps = host_points(samples);
    if (steps.empty()) return;
    const HostFit fit = fit_host(steps);
    add("layer", {fit.operation_s});
    profile.host.back().fit.points = static_cast<std::int64_t>(steps.size());
    std::vector<double> errors;  // of the step
    for (const HostPoint& p : steps)
        errors.push_back(std::abs(p.beside_s - fit.operation_s * p.operations - fit.share * p.kernels_s) /
                         p.kernels_s);
    InterferenceEntry step;
    step.beside = "step";
    step.products = step.attention = step.memory = step.communication = round_digits(1 + fit.share);
    step.fit = fit_record(kSource, static_cast<std::int64_t>(steps.size()), errors);
    if (cpu) profile.interference.push_back(step);
}

std::optional<CollectiveKind> kind_of(std::string_view name) {
    for (const CollectiveKind kind :
         {CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::ReduceScatter,
          CollectiveKind::AllToAll, CollectiveKind::Broadcast, CollectiveKind::SendRecv}) {
        if (name == to_string(kind)) return kind;
    }
    return std::nullopt;
}

void add_collectives(const std::vector<SampleSeries>& samples, HardwareProfile& profile) {
    std::map<std::tuple<CollectiveKind, int, int>, CollectiveSeries> all;
    for (const SampleSeries& s : samples) {
        if (s.benchmark != "collective") continue;
        const auto kind = kind_of(s.variant);
        if (!kind) continue;
        CollectiveSeries& series =
            all[{*kind, static_cast<int>(whole(s, "group")), static_cast<int>(whole(s, "nodes"))}];
        series.kind = *kind;
        series.group_size = static_cast<int>(whole(s, "group"));
        const double halves = *kind == CollectiveKind::SendRecv ? 0.5 : 1;  // there and back
        series.points.push_back({s.at("bytes"), halves * median_of(s.values)});
    }
    for (auto& [key, series] : all) {
        std::sort(series.points.begin(), series.points.end(),
                  [](const SizePoint& a, const SizePoint& b) { return a.bytes < b.bytes; });
        if (series.points.size() < 4) continue;
        profile.collectives.push_back(fit_collective(series, kSource));
        profile.collectives.back().nodes = std::get<2>(key);
    }
}

void add_interference(const std::vector<SampleSeries>& samples, HardwareProfile& profile) {
    const auto seconds = [&](std::string_view benchmark, std::string_view variant) {
        for (const SampleSeries& s : samples) {
            if (s.benchmark == benchmark && s.variant == variant) return median_of(s.values);
        }
        return 0.0;
    };
    // Of each round, in which both were measured one right after the other; the rounds' median.
    const auto ratio = [&](const std::string& kernel) {
        std::vector<double> ratios;
        for (const SampleSeries& alone : samples) {
            if (alone.benchmark != "interference" || alone.variant != kernel + " alone") continue;
            for (const SampleSeries& beside : samples) {
                if (beside.benchmark == "interference" && beside.variant == kernel + " beside ranks" &&
                    beside.shape == alone.shape && median_of(alone.values) > 0)
                    ratios.push_back(median_of(beside.values) / median_of(alone.values));
            }
        }
        return ratios.empty() ? 0.0 : round_digits(std::max(1.0, median_of(ratios)));
    };
    InterferenceEntry ranks;
    ranks.beside = "ranks";
    ranks.products = ratio("product");
    ranks.attention = ratio("attention");
    ranks.memory = ratio("memory");
    ranks.fit.source = kSource;
    ranks.fit.points = std::count_if(samples.begin(), samples.end(),
                                     [](const SampleSeries& s) { return s.benchmark == "interference"; });
    ranks.fit.sigma = 0.03;
    if (ranks.products > 0 && ranks.attention > 0 && ranks.memory > 0) profile.interference.push_back(ranks);
    // Both at once over both in turn: 1 hides nothing, less hides a part.
    const double product = seconds("overlap", "product"), reduce = seconds("overlap", "all_reduce");
    const double both = seconds("overlap", "both");
    if (product > 0 && reduce > 0 && both > 0) {
        InterferenceEntry communication;
        communication.beside = "communication";
        const double share = round_digits(both / (product + reduce));
        communication.products = communication.attention = communication.memory =
            communication.communication = share;
        communication.fit = ranks.fit;
        communication.fit.points = 3;
        profile.interference.push_back(communication);
    }
}

void add_sustained(const std::vector<SampleSeries>& samples, HardwareProfile& profile) {
    for (const SampleSeries& s : samples) {
        if (s.benchmark != "sustained_gemm" || s.values.size() < 8) continue;
        const std::size_t part = std::max<std::size_t>(2, s.values.size() / 8);
        const std::vector<double> first(s.values.begin(),
                                        s.values.begin() + static_cast<std::ptrdiff_t>(part));
        const std::vector<double> last(s.values.end() - static_cast<std::ptrdiff_t>(part), s.values.end());
        // Noise aside, load never speeds a device up.
        const double slowdown = median_of(last) / median_of(first);
        if (slowdown < 1.02) continue;
        profile.sustained.slowdown = round_digits(slowdown);
        profile.sustained.fit.source = kSource;
        profile.sustained.fit.points = static_cast<std::int64_t>(s.values.size());
        profile.sustained.fit.sigma = round_digits(std::max(0.01, relative_spread(last)), 3);
    }
}

}  // namespace

Result<MeasuredFit> fit_measured(const std::vector<SampleSeries>& samples, const std::string& name,
                                 const std::string& description, int multiprocessors) {
    const bool cpu = multiprocessors == 0;
    MeasuredFit result;
    HardwareProfile& profile = result.profile;
    profile.name = name;
    profile.description = description;
    add_products(samples, multiprocessors, profile);
    if (profile.gemm.empty())
        return Error{ErrorCode::Failure, "no precision has eight measured products: nothing to fit", "",
                     "a larger --budget"};
    add_attention(samples, multiprocessors, profile);
    add_kernels(samples, cpu, profile);
    add_convolution(samples, profile);
    add_host(samples, cpu, profile);
    add_collectives(samples, profile);
    add_interference(samples, profile);
    if (!cpu) add_sustained(samples, profile);
    for (const SampleSeries& s : samples) {
        if (s.benchmark == "memory_outside") profile.memory_outside_bytes = median_of(s.values);
    }
    result.missing = missing_parts(profile, kSource);
    return result;
}

double predicted_seconds(const HardwareProfile& profile, const SampleSeries& s) {
    Op op;
    if (s.benchmark == "gemm" || s.benchmark == "batched_gemm") {
        Gemm g;
        g.m = whole(s, "m"), g.n = whole(s, "n"), g.k = whole(s, "k"), g.batch = whole(s, "batch");
        g.form = form_of(s), g.precision = precision_of(s);
        g.accumulate = g.form == GemmForm::WeightGrad && profile.name.rfind("cpu", 0) != 0;
        op.body = g;
    } else if (s.benchmark == "attention" || s.benchmark == "attention_backward") {
        Attention a;
        a.batch = whole(s, "batch"), a.seq_q = a.seq_kv = whole(s, "seq"), a.heads = whole(s, "heads");
        a.kv_heads = whole(s, "kv_heads"), a.head_dim_qk = a.head_dim_v = whole(s, "head_dim");
        a.causal = s.at("causal") > 0, a.backward = s.benchmark == "attention_backward";
        a.precision = precision_of(s);
        op.body = a;
    } else if (s.benchmark == "collective") {
        const auto kind = kind_of(s.variant);
        if (!kind) return 0;
        const auto estimate = measured_collective(profile, *kind, static_cast<int>(whole(s, "group")),
                                                  s.at("bytes"), static_cast<int>(whole(s, "nodes")));
        if (!estimate) return 0;
        return estimate->seconds * (*kind == CollectiveKind::SendRecv ? 2 : 1);
    } else if (s.benchmark == "convolution") {
        Convolution c;
        c.batch = whole(s, "batch"), c.in_channels = whole(s, "in_channels");
        c.out_channels = whole(s, "out_channels");
        c.out_height = c.out_width = whole(s, "out_size");
        c.kernel_h = c.kernel_w = whole(s, "kernel"), c.stride = whole(s, "stride"), c.form = form_of(s);
        op.body = c;
    } else if (const ExecutorKernelInfo* info = find_executor_kernel(s.benchmark)) {
        const bool cpu = profile.name.rfind("cpu", 0) == 0;
        op.body = executor_op(info->kernel, s.at("rows"), s.at("width"), element_bytes(s, cpu));
    } else {
        return 0;
    }
    return kernel_time(profile, op).seconds;
}

}  // namespace tw
