#include "profiler/import/product_import.hpp"

#include <algorithm>
#include <map>

#include "profiler/fit/fit_gemm.hpp"
#include "profiler/fit/statistics.hpp"
#include "profiler/import/operation_import.hpp"

namespace tw {
namespace {

constexpr std::size_t kFewestProducts = 20;

}  // namespace

std::optional<ProductImport> import_products(Sources& sources, const GemmEntry& base, const Device& device) {
    std::vector<GemmPoint> forward, gradients;
    std::map<std::size_t, std::int64_t> used;  // by source
    const auto add = [&](std::size_t source, const GemmPoint& point) {
        if (point.precision != base.precision) return;
        (point.form == GemmForm::Forward ? forward : gradients).push_back(point);
        ++used[source];
    };
    for (const auto& foreign : sources.foreign) {
        for (const ForeignProduct& product : foreign.content.products)
            add(foreign.source, {product.shape, product.precision, product.form, product.seconds});
    }
    for (const TracedProduct& product : traced_products(sources))
        add(product.source, product.point);
    if (forward.size() < kFewestProducts) return std::nullopt;
    std::string files;
    for (const auto& [source, points] : used) {
        sources.read[source].points += points;
        files += (files.empty() ? "" : ", ") + sources.file_of(source);
    }
    GemmFitOptions options;
    options.sms = device.sms > 0 ? device.sms : base.curve.sms;
    options.largest_tile = base.curve.largest_tile;
    options.residual_grid = false;  // hundreds of shapes: a grid would follow their noise
    ProductImport result;
    result.entry = fit_gemm(forward, base.curve, options, files).entry;
    result.taken = std::to_string(forward.size() + gradients.size()) + " matrix products: " + files;
    for (const GemmForm form : {GemmForm::InputGrad, GemmForm::WeightGrad}) {
        std::vector<double> ratios;
        for (const GemmPoint& point : gradients) {
            if (point.form == form)
                ratios.push_back(point.seconds / gemm_seconds(result.entry.curve, point.shape));
        }
        if (ratios.size() < kFewestProducts / 2) continue;
        GemmFormEntry entry;
        entry.form = form;
        entry.factor = round_digits(quantile(ratios, 0.5));
        entry.fit.source = files;
        entry.fit.points = static_cast<std::int64_t>(ratios.size());
        entry.fit.sigma = round_digits(
            std::max(0.01, (quantile(ratios, 0.84) - quantile(ratios, 0.16)) / 2 / entry.factor), 3);
        entry.fit.sigma = std::min(entry.fit.sigma, 10.0);
        result.forms.push_back(entry);
    }
    return result;
}

}  // namespace tw
