#include "models/hardware/profile.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/nearest.hpp"
#include "models/data/embedded.hpp"
#include "models/hardware/gemm_form.hpp"
#include "models/hardware/profile_json.hpp"

namespace tw {
namespace {

// The precision whose curve stands in for another one, and how the time changes: tensor-core rates go with
// the element size (NVIDIA's datasheets: fp8 : fp16 : tf32 = 4 : 2 : 1 from Hopper on; tf32 : fp16 = 1 : 2 on
// Ampere).
struct Substitute {
    const GemmEntry* entry = nullptr;
    double rate = 1;  // of the asked precision over the entry's own
    bool scaled = false;
};

const GemmEntry* find_gemm(const HardwareProfile& profile, Precision precision) {
    for (const GemmEntry& entry : profile.gemm) {
        if (entry.precision == precision) return &entry;
    }
    return nullptr;
}

Substitute gemm_entry(const HardwareProfile& profile, Precision precision) {
    if (const GemmEntry* entry = find_gemm(profile, precision)) return {entry, 1, false};
    // fp16 and bf16 run at the same rate on every device that has both (datasheets); nothing to flag.
    if (precision == Precision::Fp16 || precision == Precision::Bf16) {
        const Precision other = precision == Precision::Fp16 ? Precision::Bf16 : Precision::Fp16;
        if (const GemmEntry* entry = find_gemm(profile, other)) return {entry, 1, false};
    }
    // Twice the rate of fp8 at least, wherever there is nvfp4 (NVIDIA's datasheets of Blackwell).
    if (precision == Precision::Nvfp4) {
        if (const GemmEntry* entry = find_gemm(profile, Precision::Fp8)) return {entry, 2, true};
    }
    for (const Precision other :
         {Precision::Bf16, Precision::Fp16, Precision::Tf32, Precision::Fp32, Precision::Fp8}) {
        if (const GemmEntry* entry = find_gemm(profile, other)) {
            // A device without units for 8 or 4 bits computes in 16.
            const double rate =
                quantised(precision) ? 1.0 : bytes_per_element(other) / bytes_per_element(precision);
            return {entry, rate, true};
        }
    }
    return {&profile.gemm.front(), 1, true};
}

// Lower clocks: every cycle of a tile takes longer, memory and launch do not.
void slow_down(GemmCurve& curve, double slowdown) {
    scale_main_loop(curve, 1 / slowdown);
    curve.prologue_s *= slowdown;
    curve.epilogue_s *= slowdown;
    curve.throttle = 0;
}

// Relative uncertainty of standing in for another kernel: an assumption, twice that of a datasheet's scaling.
constexpr double kSubstituteSigma = 0.3;

// Outside the sizes that a curve was fitted to its error grows: products beyond 8192, predicted from a fit to
// sizes up to 4096, miss by 1.9 times (A100) and 1.4 times (H100) what those inside do (80th percentiles).
constexpr double kOutOfRangeFactor = 1.7;

// Products under a framework on a second machine took 1.13 (A100) and 1.12 times (H100) what the table of
// kernels by themselves says, in the median (microsoft/vidur against aiconfigurator). Where nobody measured a
// second machine the table may be as far off.
constexpr double kOneTableSigma = 0.12;

// The excluded part of a table's time never takes more than this leaves of a product.
constexpr double kLeastShare = 0.1;

double combine(double a, double b) {
    return std::sqrt(a * a + b * b);
}

struct Estimate {
    const HardwareProfile& profile;

    KernelEstimate operator()(const Gemm& gemm) const {
        for (const HostGemmEntry& entry : profile.host_gemm) {
            if (entry.precision == gemm.precision && entry.form == gemm.form) return on_host(entry, gemm);
        }
        const Substitute substitute = gemm_entry(profile, gemm.precision);
        const GemmEntry& entry = *substitute.entry;
        GemmShape shape{std::max<std::int64_t>(1, gemm.m), std::max<std::int64_t>(1, gemm.n),
                        std::max<std::int64_t>(1, gemm.k),
                        std::max<std::int64_t>(1, gemm.batch * gemm.groups)};
        shape.strided_k = gemm.form == GemmForm::WeightGrad;
        // Scales lie in tensors of their own: rows of nvfp4 are half a byte an element.
        shape.element_bytes = gemm.precision == Precision::Nvfp4 ? 0.5 : bytes_per_element(gemm.precision);
        shape.output_bytes = std::max(2.0, bytes_per_element(gemm.precision));
        KernelEstimate estimate;
        GemmCurve curve = entry.curve;
        scale_main_loop(curve, substitute.rate);
        const bool half = gemm.precision == Precision::Bf16 || gemm.precision == Precision::Fp16;
        const bool sustained = profile.sustained.slowdown > 1 && half;
        if (sustained) slow_down(curve, profile.sustained.slowdown);
        estimate.seconds = gemm_seconds(curve, entry.residual, shape);
        estimate.seconds = std::max(estimate.seconds - entry.excluded_s, estimate.seconds * kLeastShare);
        // Held-out errors of large products; those of small ones are wider, and 90 % of a normal distribution
        // lie within 1.645 standard deviations.
        const bool large = gemm.m >= 512 && gemm.n >= 256 && gemm.k >= 256;
        estimate.sigma = large ? entry.fit.sigma : std::max(entry.fit.sigma, entry.fit.p90 / 1.645);
        const double rows = static_cast<double>(shape.m * shape.batch);
        estimate.out_of_range = !entry.m.contains(rows) || !entry.n.contains(static_cast<double>(shape.n)) ||
                                !entry.k.contains(static_cast<double>(shape.k));
        estimate.scaled = substitute.scaled || !entry.fit.scaled_from.empty();
        if (sustained) {
            estimate.sigma = combine(estimate.sigma, profile.sustained.fit.sigma);
            estimate.scaled = estimate.scaled || !profile.sustained.fit.scaled_from.empty();
        } else if (profile.sustained.slowdown > 1 && quantised(gemm.precision)) {
            // Between the table's clocks and those of 16-bit products under load: half their distance.
            estimate.sigma = combine(estimate.sigma, std::log(profile.sustained.slowdown) / 2);
        }
        if (const GemmFormEntry* form = gemm_form(profile, gemm.form, entry.precision)) {
            estimate.seconds *= form->factor * std::exp(form->residual.at(rows, static_cast<double>(shape.n),
                                                                          static_cast<double>(shape.k)));
            estimate.sigma = combine(estimate.sigma, form->fit.sigma);
            estimate.scaled = estimate.scaled || !form->fit.scaled_from.empty();
        }
        const bool second_machine =
            std::any_of(profile.gemm_forms.begin(), profile.gemm_forms.end(),
                        [](const GemmFormEntry& form) { return form.form == GemmForm::Forward; });
        if (!second_machine && entry.fit.scaled_from.empty())
            estimate.sigma = combine(estimate.sigma, kOneTableSigma);
        if (gemm.groups > 1) {
            // Nobody published grouped products: the batched one stands in for a kernel of its own.
            estimate.sigma = combine(estimate.sigma, kSubstituteSigma);
            estimate.scaled = true;
        }
        if (gemm.accumulate) {
            // fp32 sums are read and written where the curve has a result written: 6 bytes an output more in
            // 16 bits, 4 in fp32, after the products. A tile's epilogue does not overlap its own main loop,
            // and tiles of 256 x 128 fill a multiprocessor's registers, so that no other tile runs meanwhile
            // (NVIDIA/cutlass, media/docs/efficient_gemm.md, "Epilogue" and "Parallelized reductions").
            estimate.seconds += accumulation_seconds(entry.curve, shape);
        }
        return estimate;
    }

    KernelEstimate operator()(const Attention& a) const {
        const AttentionEntry* entry = nullptr;
        bool exact = false;
        for (const AttentionEntry& candidate : profile.attention) {
            if (candidate.backward != a.backward) continue;
            const bool same = candidate.kernel == a.kernel;
            if (entry == nullptr || (same && !exact)) entry = &candidate, exact = same;
        }
        if (entry == nullptr) return without_attention_curve(a);
        AttentionShape shape;
        shape.batch = a.batch, shape.seq_q = a.seq_q, shape.seq_kv = a.seq_kv, shape.heads = a.heads;
        shape.kv_heads = a.kv_heads, shape.head_dim_qk = a.head_dim_qk, shape.head_dim_v = a.head_dim_v;
        shape.causal = a.causal, shape.window = a.window, shape.backward = a.backward;
        shape.element_bytes = bytes_per_element(a.precision);
        KernelEstimate estimate;
        estimate.seconds = attention_seconds(entry->curve, shape);
        estimate.sigma = exact ? entry->fit.sigma : combine(entry->fit.sigma, kSubstituteSigma);
        estimate.out_of_range = !entry->seq.contains(static_cast<double>(a.seq_kv)) ||
                                !entry->head_dim.contains(static_cast<double>(a.head_dim_qk));
        estimate.scaled = !exact || !entry->fit.scaled_from.empty();
        return estimate;
    }

    KernelEstimate operator()(const MemoryOp& m) const {
        const MemoryEntry* entry = nullptr;
        for (const MemoryEntry& candidate : profile.memory_ops) {
            if (candidate.kind == m.kind && (entry == nullptr || candidate.backward == m.backward))
                entry = &candidate;
        }
        KernelEstimate estimate;
        if (entry == nullptr) {  // as a plain copy, which is what a copy is
            const bool copy = m.kind == MemoryOpKind::Copy;
            estimate.seconds = memory_seconds(profile.memory, m.bytes);
            estimate.sigma =
                copy ? profile.memory_fit.sigma : combine(profile.memory_fit.sigma, kSubstituteSigma);
            estimate.scaled = !copy || !profile.memory_fit.scaled_from.empty();
            return estimate;
        }
        estimate.seconds = memory_seconds(profile.memory, m.bytes, entry->efficiency, entry->extra_latency_s,
                                          entry->cached_efficiency);
        estimate.sigma = combine(profile.memory_fit.sigma, entry->fit.sigma);
        estimate.scaled = !entry->fit.scaled_from.empty() || !profile.memory_fit.scaled_from.empty();
        return estimate;
    }

    KernelEstimate operator()(const Convolution& c) const {
        const ConvolutionEntry* entry = nullptr;
        for (const ConvolutionEntry& candidate : profile.convolution) {
            if (entry == nullptr || candidate.precision == c.precision) entry = &candidate;
        }
        Gemm gemm;
        const GemmShape shape = implicit_gemm(c);
        gemm.m = shape.m, gemm.n = shape.n, gemm.k = shape.k, gemm.batch = shape.batch,
        gemm.precision = c.precision;
        KernelEstimate estimate = (*this)(gemm);
        const Substitute substitute = gemm_entry(profile, c.precision);
        GemmCurve curve = substitute.entry->curve;
        scale_main_loop(curve, substitute.rate);
        const ConvolutionCurve plain;
        estimate.seconds = convolution_seconds(entry == nullptr ? plain : entry->curve, curve, c);
        estimate.sigma = combine(estimate.sigma, entry == nullptr ? kSubstituteSigma : entry->fit.sigma);
        estimate.scaled = entry == nullptr || entry->precision != c.precision || estimate.scaled ||
                          !entry->fit.scaled_from.empty();
        return estimate;
    }

    KernelEstimate operator()(const MeasuredOp& m) const { return {m.seconds, 0, false, false}; }
    KernelEstimate operator()(const CollectiveOp&) const { return {}; }

    static KernelEstimate on_host(const HostGemmEntry& entry, const Gemm& gemm) {
        GemmShape shape{std::max<std::int64_t>(1, gemm.m), std::max<std::int64_t>(1, gemm.n),
                        std::max<std::int64_t>(1, gemm.k),
                        std::max<std::int64_t>(1, gemm.batch * gemm.groups)};
        shape.element_bytes = shape.output_bytes = bytes_per_element(gemm.precision);
        KernelEstimate estimate;
        estimate.seconds = host_gemm_seconds(entry.curve, entry.residual, shape, entry.form);
        estimate.sigma = entry.fit.sigma;
        estimate.out_of_range = !entry.m.contains(static_cast<double>(shape.m)) ||
                                !entry.n.contains(static_cast<double>(shape.n)) ||
                                !entry.k.contains(static_cast<double>(shape.k));
        estimate.scaled = !entry.fit.scaled_from.empty();
        return estimate;
    }

    // Devices that no fused attention was measured on: its two products as batched GEMMs (five in the
    // backward).
    KernelEstimate without_attention_curve(const Attention& a) const {
        Gemm scores;
        scores.m = a.seq_q, scores.n = a.seq_kv, scores.k = a.head_dim_qk, scores.batch = a.batch * a.heads;
        scores.precision = a.precision;
        KernelEstimate estimate = (*this)(scores);
        estimate.seconds *= (a.causal ? 0.5 : 1.0) * (a.backward ? 5.0 : 2.0);
        estimate.sigma = combine(estimate.sigma, kSubstituteSigma);
        estimate.scaled = true;
        return estimate;
    }
};

}  // namespace

KernelEstimate kernel_time(const HardwareProfile& profile, const Op& op) {
    KernelEstimate estimate = std::visit(Estimate{profile}, op.body);
    if (estimate.out_of_range) estimate.sigma *= kOutOfRangeFactor;
    return estimate;
}

std::optional<CollectiveEstimate> measured_collective(const HardwareProfile& profile, CollectiveKind kind,
                                                      int group_size, double bytes, int nodes) {
    for (const CollectiveEntry& entry : profile.collectives) {
        if (entry.kind != kind || entry.group_size != group_size || entry.nodes != nodes) continue;
        CollectiveEstimate estimate;
        estimate.seconds = collective_seconds(entry.curve, bytes);
        estimate.sigma = entry.fit.sigma;
        estimate.out_of_range = !entry.bytes.contains(bytes);
        estimate.scaled = !entry.fit.scaled_from.empty();
        return estimate;
    }
    return std::nullopt;
}

std::optional<double> host_dispatch_seconds(const HardwareProfile& profile, std::string_view mode) {
    for (const HostEntry& entry : profile.host) {
        if (entry.mode == mode) return entry.seconds_per_dispatch;
    }
    return std::nullopt;
}

std::vector<std::string> profile_names() {
    return embedded_names("profiles");
}

Result<HardwareProfile> load_profile(std::string_view name_or_path) {
    const auto decode = [](const Result<Json>& document, std::string_view name) -> Result<HardwareProfile> {
        if (!document) return document.errors();
        return decode_profile(*document, name);
    };
    if (name_or_path.starts_with('{')) return decode(parse_json(name_or_path, "profile"), "profile");
    const std::string name(name_or_path);
    if (const std::string_view text = embedded_document("profiles/" + name + ".json"); !text.empty())
        return decode(parse_json(text, name), name);
    const std::filesystem::path path(name);
    if (path.extension() == ".json" || std::filesystem::exists(path))
        return decode(read_json_file(path), name);
    return Error{ErrorCode::Usage, "unknown hardware profile \"" + name + "\"", "profile",
                 unknown_name_hint(name, profile_names())};
}

std::string_view to_string(GemmForm form) {
    switch (form) {
        case GemmForm::Forward:
            return "forward";
        case GemmForm::InputGrad:
            return "input_grad";
        case GemmForm::WeightGrad:
            return "weight_grad";
    }
    return "forward";
}

std::string_view to_string(MemoryOpKind kind) {
    switch (kind) {
        case MemoryOpKind::Norm:
            return "norm";
        case MemoryOpKind::Softmax:
            return "softmax";
        case MemoryOpKind::Activation:
            return "activation";
        case MemoryOpKind::Add:
            return "add";
        case MemoryOpKind::Dropout:
            return "dropout";
        case MemoryOpKind::Rope:
            return "rope";
        case MemoryOpKind::Embedding:
            return "embedding";
        case MemoryOpKind::CrossEntropy:
            return "cross_entropy";
        case MemoryOpKind::Cast:
            return "cast";
        case MemoryOpKind::Copy:
            return "copy";
        case MemoryOpKind::Permute:
            return "permute";
        case MemoryOpKind::Optimizer:
            return "optimizer";
        case MemoryOpKind::GradAccumulate:
            return "grad_accumulate";
        case MemoryOpKind::BiasAct:
            return "bias_act";
        case MemoryOpKind::BiasDropoutAdd:
            return "bias_dropout_add";
        case MemoryOpKind::Router:
            return "router";
        case MemoryOpKind::Pool:
            return "pool";
        case MemoryOpKind::Other:
            return "other";
    }
    return "other";
}

}  // namespace tw
