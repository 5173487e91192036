#include "models/hardware/sample_statistics.hpp"

#include <algorithm>
#include <cmath>

namespace tw {

double median_of(std::vector<double> values) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    const std::size_t middle = values.size() / 2;
    return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Interval median_interval(std::vector<double> values) {
    if (values.empty()) return {};
    std::sort(values.begin(), values.end());
    const double n = static_cast<double>(values.size());
    const double reach = 0.98 * std::sqrt(n);
    const auto low = static_cast<std::ptrdiff_t>(std::floor(n / 2 - reach));
    const auto last = static_cast<std::ptrdiff_t>(values.size()) - 1;
    const auto from = std::clamp<std::ptrdiff_t>(low, 0, last);
    return {values[static_cast<std::size_t>(from)], values[static_cast<std::size_t>(last - from)]};
}

double relative_width(const std::vector<double>& values) {
    const double median = median_of(values);
    if (values.size() < 2 || median <= 0) return 1;
    const Interval interval = median_interval(values);
    return (interval.high - interval.low) / 2 / median;
}

double relative_spread(std::vector<double> values) {
    const double median = median_of(values);
    if (values.size() < 4 || median <= 0) return 0;
    std::sort(values.begin(), values.end());
    const std::size_t quarter = values.size() / 4;
    return (values[values.size() - 1 - quarter] - values[quarter]) / median / 1.349;
}

}  // namespace tw
