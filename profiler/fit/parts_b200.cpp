// One B200 under TransformerEngine: how much sustained load slows its products, what the gradients' forms
// cost, and the backward of fused attention. The other data-centre parts of the generation take all three and
// say so.
#include <algorithm>
#include <cmath>

#include "models/hardware/scale_profile.hpp"
#include "profiler/fit/fit_attention.hpp"
#include "profiler/fit/profile_parts.hpp"
#include "profiler/fit/published_b200.hpp"
#include "profiler/fit/statistics.hpp"

namespace tw {
namespace {

// 75 products of this length run for a twentieth of a second; shorter runs end before the clocks have
// settled: their shares of the peak scatter from 0.39 to 0.66, those of longer ones from 0.44 to 0.55.
constexpr double kSettled_s = 7e-4;

double predicted(const HardwareProfile& profile, const GemmPoint& point) {
    Gemm gemm;
    gemm.m = point.shape.m, gemm.n = point.shape.n, gemm.k = point.shape.k;
    gemm.form = point.form;
    gemm.accumulate = point.form == GemmForm::WeightGrad;
    Op op;
    op.body = gemm;
    return kernel_time(profile, op).seconds;
}

std::vector<double> ratios(const HardwareProfile& profile, const std::vector<GemmPoint>& points,
                           GemmForm form) {
    std::vector<double> values;
    for (const GemmPoint& point : points) {
        if (point.form == form && point.seconds >= kSettled_s)
            values.push_back(point.seconds / predicted(profile, point));
    }
    return values;
}

double spread(const std::vector<double>& values, double centre) {
    std::vector<double> errors;
    for (const double value : values)
        errors.push_back(std::abs(std::log(value / centre)));
    return round_digits(std::max(0.01, quantile(errors, 0.8) / 1.2816), 3);
}

// The slow-down at which half of the forward products are predicted too fast, by bisection.
double sustained_slowdown(HardwareProfile profile, const std::vector<GemmPoint>& points) {
    double low = 1, high = 3;
    for (int i = 0; i < 40; ++i) {
        profile.sustained.slowdown = (low + high) / 2;
        (quantile(ratios(profile, points, GemmForm::Forward), 0.5) > 1 ? low : high) =
            profile.sustained.slowdown;
    }
    return round_digits(low);
}

FitRecord record_of(const std::vector<double>& values, double centre) {
    FitRecord record;
    record.source = std::string(kB200Source) + ", run back to back, products of 0.7 ms and more";
    record.points = static_cast<std::int64_t>(values.size());
    record.sigma = spread(values, centre);
    return record;
}

}  // namespace

Status add_b200_rows(const Folder&, Profiles& profiles) {
    HardwareProfile& b200 = profiles.at("b200").profile;
    const std::vector<GemmPoint> points = b200_products();
    b200.gemm_forms.clear();
    b200.sustained = {};
    b200.sustained.slowdown = sustained_slowdown(b200, points);
    b200.sustained.fit = record_of(ratios(b200, points, GemmForm::Forward), 1);
    for (const GemmForm form : {GemmForm::InputGrad, GemmForm::WeightGrad}) {
        const std::vector<double> values = ratios(b200, points, form);
        const double factor = quantile(values, 0.5);
        b200.gemm_forms.push_back({form, round_digits(factor), {}, record_of(values, factor)});
    }
    AttentionCurve start;
    start.launch_s = 1e-5;
    start.rate = 1.2e15;
    start.narrow = 30;
    start.prologue_s = 5e-7;
    start.bandwidth = 5e12;
    start.blend = 2;
    start.sms = b200.gemm.front().curve.sms;
    const AttentionEntry backward =
        fit_few_attention(b200_attention(true), AttentionKernel::CuDnn, start,
                          std::string(kB200Source) + ", TE's fused attention, causal, heads of 128");
    for (AttentionEntry& entry : b200.attention) {
        if (entry.kernel == AttentionKernel::CuDnn && entry.backward) entry = backward;
    }
    const auto from = load_device("b200");
    if (!from) return from.errors();
    for (const char* name : {"b300", "gb200", "gb300"}) {
        const auto to = load_device(name);
        if (!to) return to.errors();
        HardwareProfile& profile = profiles.at(name).profile;
        profile.sustained = b200.sustained;
        profile.sustained.fit = scaled_record(b200.sustained.fit, "b200");
        profile.gemm_forms = b200.gemm_forms;
        for (GemmFormEntry& entry : profile.gemm_forms)
            entry.fit = scaled_record(entry.fit, "b200", kCarriedRatioSigma);
        for (AttentionEntry& entry : profile.attention) {
            if (entry.kernel != AttentionKernel::CuDnn || !entry.backward) continue;
            entry = backward;
            entry.curve.rate = round_digits(backward.curve.rate * to->peak(Precision::Bf16).value /
                                            from->peak(Precision::Bf16).value);
            entry.curve.sms = to->sms;
            entry.fit = scaled_record(backward.fit, "b200", kScaledAttentionSigma);
        }
    }
    return ok();
}

}  // namespace tw
