#include "profiler/import/product_import.hpp"

#include <algorithm>

#include "profiler/fit/fit_gemm.hpp"
#include "profiler/fit/statistics.hpp"

namespace tw {
namespace {

constexpr std::size_t kFewestProducts = 20;

}  // namespace

std::optional<ProductImport> import_products(Sources& sources, const GemmEntry& base, const Device& device) {
    std::vector<GemmPoint> forward, gradients;
    std::string files;
    for (const auto& foreign : sources.foreign) {
        std::size_t used = 0;
        for (const ForeignProduct& product : foreign.content.products) {
            if (product.precision != base.precision) continue;
            GemmPoint point{product.shape, product.precision, product.form, product.seconds};
            (product.form == GemmForm::Forward ? forward : gradients).push_back(point);
            ++used;
        }
        if (used == 0) continue;
        sources.read[foreign.source].points += static_cast<std::int64_t>(used);
        files += (files.empty() ? "" : ", ") + sources.file_of(foreign.source);
    }
    if (forward.size() < kFewestProducts) return std::nullopt;
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
