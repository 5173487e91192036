#include "profiler/import/operation_import.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "profiler/fit/statistics.hpp"
#include "profiler/import/operation_points.hpp"

namespace tw {
namespace {

constexpr std::int64_t kFewestCalls = 3;
constexpr std::size_t kFewestProducts = 3;  // shapes
// A ratio beyond this is no calibration: another kernel, another device, or a damaged trace.
constexpr double kFarthest = 10;

// Measured over predicted, of the operations of one curve.
struct Ratios {
    std::vector<double> values;
    std::map<std::size_t, std::int64_t> by_source;  // index into sources.read, shapes

    void add(std::size_t source, double ratio) {
        if (!(ratio > 1 / kFarthest && ratio < kFarthest)) return;
        values.push_back(ratio);
        ++by_source[source];
    }
    [[nodiscard]] double median() const { return quantile(values, 0.5); }
};

class Calibration {
  public:
    Calibration(Sources& sources, HardwareProfile& profile) : sources_(sources), profile_(profile) {}

    // `kind`: "products in bf16".
    void apply(const Ratios& ratios, const std::string& kind, FitRecord& fit, OperationImport& out) {
        std::string files;
        for (const auto& [source, shapes] : ratios.by_source) {
            sources_.read[source].points += shapes;
            files += (files.empty() ? "" : ", ") + sources_.file_of(source);
        }
        const double ratio = ratios.median();
        double sigma = fit.sigma;  // of one shape nothing says how far others are
        if (ratios.values.size() >= kFewestProducts)
            sigma = std::clamp((quantile(ratios.values, 0.84) - quantile(ratios.values, 0.16)) / 2 / ratio,
                               0.01, 10.0);
        const std::string base = fit.scaled_from;
        fit = {};
        fit.source =
            fmt::format("{} of {}, over the curve of {}", kind, files, base.empty() ? "the base" : base);
        fit.sigma = round_digits(sigma, 3);
        fit.points = static_cast<std::int64_t>(ratios.values.size());
        out.taken.push_back(fmt::format("{} of {} shape{} ({:.2f} of {}'s time): {}", kind,
                                        ratios.values.size(), ratios.values.size() == 1 ? "" : "s", ratio,
                                        base.empty() ? "the base" : base, files));
    }

    [[nodiscard]] double predicted(const auto& body) const {
        Op op;
        op.body = body;
        return kernel_time(profile_, op).seconds;
    }

  private:
    Sources& sources_;
    HardwareProfile& profile_;
};

Gemm gemm_of(const GemmPoint& point) {
    Gemm gemm;
    gemm.m = point.shape.m, gemm.n = point.shape.n, gemm.k = point.shape.k, gemm.batch = point.shape.batch;
    gemm.form = point.form, gemm.precision = point.precision;
    return gemm;
}

bool has_curve(const HardwareProfile& profile, Precision precision) {
    return std::any_of(profile.gemm.begin(), profile.gemm.end(),
                       [&](const GemmEntry& e) { return e.precision == precision; });
}

// The precision whose curve times it: fp16 runs at bf16's rate where no curve is its own.
Precision curve_of(const HardwareProfile& profile, Precision precision) {
    return precision == Precision::Fp16 && !has_curve(profile, precision) ? Precision::Bf16 : precision;
}

template <class Visit>
void visit_operations(const Sources& sources, OperationClass wanted, Visit visit) {
    for (const auto& trace : sources.traces) {
        for (const KinetoOperation& o : trace.content.operations) {
            if (class_of(o) == wanted && o.count >= kFewestCalls && o.median_s > 0) visit(trace.source, o);
        }
    }
}

// Every part of a product's time but the launch takes `ratio` times as long.
void slow_down(GemmCurve& curve, double ratio) {
    scale_main_loop(curve, 1 / ratio);
    curve.bandwidth /= ratio;
    for (double* seconds : {&curve.prologue_s, &curve.epilogue_s, &curve.split_s, &curve.vector_s,
                            &curve.vector_step_s, &curve.vector_split_s})
        *seconds *= ratio;
}

void calibrate_products(Calibration& calibration, const Sources& sources,
                        const std::vector<Precision>& fitted, HardwareProfile& profile,
                        OperationImport& out) {
    std::map<Precision, Ratios> ratios;
    for (const TracedProduct& product : traced_products(sources)) {
        const double predicted = calibration.predicted(gemm_of(product.point));
        const Precision curve = curve_of(profile, product.point.precision);
        if (predicted > 0) ratios[curve].add(product.source, product.point.seconds / predicted);
    }
    for (GemmEntry& entry : profile.gemm) {
        const auto found = ratios.find(entry.precision);
        const bool own = std::find(fitted.begin(), fitted.end(), entry.precision) != fitted.end();
        if (found == ratios.end() || found->second.values.size() < kFewestProducts || own) continue;
        const double ratio = found->second.median();
        slow_down(entry.curve, ratio);
        calibration.apply(found->second, fmt::format("products in {}", to_string(entry.precision)), entry.fit,
                          out);
    }
}

void calibrate_attention(Calibration& calibration, const Sources& sources, HardwareProfile& profile,
                         OperationImport& out) {
    std::map<std::pair<AttentionKernel, bool>, Ratios> ratios;
    visit_operations(sources, OperationClass::Attention, [&](std::size_t source, const KinetoOperation& o) {
        const auto attention = attention_of(o);
        if (!attention) return;
        const double predicted = calibration.predicted(*attention);
        if (predicted > 0)
            ratios[{attention->kernel, attention->backward}].add(source, o.median_s / predicted);
    });
    for (AttentionEntry& entry : profile.attention) {
        const auto found = ratios.find({entry.kernel, entry.backward});
        if (found == ratios.end() || found->second.values.empty()) continue;
        const double ratio = found->second.median();
        entry.curve.rate /= ratio;
        entry.curve.bandwidth /= ratio;
        entry.curve.prologue_s *= ratio;
        calibration.apply(
            found->second,
            fmt::format("attention {} {}", to_string(entry.kernel), entry.backward ? "backward" : "forward"),
            entry.fit, out);
    }
}

void calibrate_norms(Calibration& calibration, const Sources& sources, HardwareProfile& profile,
                     OperationImport& out) {
    std::map<bool, Ratios> ratios;
    visit_operations(sources, OperationClass::Norm, [&](std::size_t source, const KinetoOperation& o) {
        const auto norm = norm_of(o);
        if (!norm) return;
        const double predicted = calibration.predicted(*norm);
        if (predicted > 0) ratios[norm->backward].add(source, o.median_s / predicted);
    });
    for (MemoryEntry& entry : profile.memory_ops) {
        if (entry.kind != MemoryOpKind::Norm) continue;
        const auto found = ratios.find(entry.backward);
        if (found == ratios.end() || found->second.values.empty()) continue;
        const double ratio = found->second.median();
        entry.efficiency = std::clamp(entry.efficiency / ratio, 1e-6, 100.0);
        entry.cached_efficiency /= ratio;
        calibration.apply(found->second, entry.backward ? "norms, backward" : "norms, forward", entry.fit,
                          out);
    }
}

// What the traces' kernels could have said and did not.
void list_absent(const Sources& sources, OperationImport& out) {
    for (const auto& trace : sources.traces) {
        const KinetoTrace& t = trace.content;
        const std::string& file = sources.file_of(trace.source);
        if (t.device_events == 0) continue;
        if (t.operations.empty()) {
            out.absent.push_back(fmt::format(
                "kernels of {}: no operation records its shapes (torch.profiler: record_shapes=True)", file));
            continue;
        }
        std::set<std::string> names;
        std::size_t unknown = 0;
        for (const KinetoOperation& o : t.operations) {
            const OperationClass kind = class_of(o);
            const bool known = kind == OperationClass::Product     ? product_of(o).has_value()
                               : kind == OperationClass::Attention ? attention_of(o).has_value()
                                                                   : norm_of(o).has_value();
            if (known) continue;
            ++unknown;
            names.insert(o.name);
        }
        if (unknown > 0)
            out.absent.push_back(
                fmt::format("{} of {} operations of {}: their layout, precision or mask is not recorded ({})",
                            unknown, t.operations.size(), file, fmt::join(names, ", ")));
    }
}

}  // namespace

std::vector<TracedProduct> traced_products(const Sources& sources) {
    std::vector<TracedProduct> products;
    visit_operations(sources, OperationClass::Product, [&](std::size_t source, const KinetoOperation& o) {
        const auto gemm = product_of(o);
        if (!gemm) return;
        TracedProduct product;
        product.source = source;
        GemmPoint& point = product.point;
        point.shape.m = gemm->m, point.shape.n = gemm->n, point.shape.k = gemm->k;
        point.shape.batch = gemm->batch;
        point.shape.element_bytes = bytes_per_element(gemm->precision);
        point.shape.output_bytes = std::max(2.0, bytes_per_element(gemm->precision));
        point.precision = gemm->precision;
        point.form = gemm->form;
        point.seconds = o.median_s;
        products.push_back(product);
    });
    return products;
}

OperationImport import_operations(Sources& sources, const std::vector<Precision>& fitted,
                                  HardwareProfile& profile) {
    OperationImport out;
    Calibration calibration(sources, profile);
    calibrate_products(calibration, sources, fitted, profile, out);
    calibrate_attention(calibration, sources, profile, out);
    calibrate_norms(calibration, sources, profile, out);
    list_absent(sources, out);
    return out;
}

}  // namespace tw
