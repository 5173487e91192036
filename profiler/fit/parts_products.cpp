// Products as a framework runs them, on a second machine of a device that aiconfigurator measured.
//
// Two published machines of one device differ by more than either table's scatter: clocks under power limits,
// libraries' versions, data. Neither is the user's, so the expectation is their geometric mean, and half
// their distance is an uncertainty.
#include <cmath>

#include "profiler/fit/profile_parts.hpp"
#include "profiler/fit/statistics.hpp"

namespace tw {
namespace {

// Short rows are rounded to microseconds and hold launches; rows off 128 bytes have a factor of their own.
constexpr double kShortest_s = 60e-6;

bool whole_lines(const GemmShape& s) {
    return s.m % 64 == 0 && s.n % 64 == 0 && s.k % 64 == 0;
}

}  // namespace

Status add_framework_products(const Folder& hw, Profiles& profiles) {
    for (const char* device : {"a100", "h100"}) {
        const auto points = read_vidur_products(hw, device);
        if (!points) return points.errors();
        HardwareProfile& profile = profiles.at(device).profile;
        const GemmEntry& entry = profile.gemm.front();
        std::vector<double> ratios, errors;
        for (const GemmPoint& point : *points) {
            if (point.seconds < kShortest_s || !whole_lines(point.shape)) continue;
            ratios.push_back(point.seconds / gemm_seconds(entry.curve, entry.residual, point.shape));
        }
        if (ratios.empty())
            return Error{ErrorCode::Unreadable, std::string("no long products of ") + device, hw.string(),
                         ""};
        const double ratio = quantile(ratios, 0.5);
        for (const double value : ratios)
            errors.push_back(std::abs(std::log(value / ratio)));
        const double between = std::sqrt(ratio);
        for (GemmFormEntry& form : profile.gemm_forms) {
            form.factor = round_digits(form.factor * between);
            if (form.form != GemmForm::Forward) {
                form.fit.sigma = round_digits(std::hypot(form.fit.sigma, std::log(between)), 3);
                form.fit.shared = round_digits(std::hypot(form.fit.shared, std::log(between)), 3);
                continue;
            }
            form.fit = {};
            form.fit.source =
                "geometric mean of two machines: aiconfigurator's table and microsoft/vidur (MIT), products "
                "of MLPs and attention under PyTorch, 60 us and more";
            form.fit.points = static_cast<std::int64_t>(ratios.size());
            form.fit.sigma = round_digits(std::hypot(std::log(between), quantile(errors, 0.8) / 1.2816), 3);
            form.fit.shared = round_digits(std::abs(std::log(between)), 3);
        }
    }
    return ok();
}

}  // namespace tw
