#include "profiler/fit/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace tw {

double quantile(std::vector<double> values, double share) {
    if (values.empty()) return 0;
    const double rank = std::ceil(share * static_cast<double>(values.size()));
    const std::size_t index = static_cast<std::size_t>(std::max(1.0, rank)) - 1;
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(index), values.end());
    return values[index];
}

double round_digits(double value, int digits) {
    char text[64];
    std::snprintf(text, sizeof text, "%.*e", digits - 1, value);
    return std::strtod(text, nullptr);
}

bool held_out(std::uint64_t a, std::uint64_t b) {
    // splitmix64 (Steele et al. 2014).
    std::uint64_t x = a * 0x9E3779B97F4A7C15ULL + b * 0xBF58476D1CE4E5B9ULL + 0x94D049BB133111EBULL;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    x ^= x >> 31;
    return x % 5 == 0;
}

FitRecord fit_record(std::string source, std::int64_t points_used, const std::vector<double>& errors) {
    FitRecord record;
    record.source = std::move(source);
    record.points = points_used;
    record.held_out = static_cast<std::int64_t>(errors.size());
    record.median = round_digits(quantile(errors, 0.5), 3);
    record.p90 = round_digits(quantile(errors, 0.9), 3);
    record.sigma = round_digits(std::max(0.01, quantile(errors, 0.8) / 1.2816), 3);
    return record;
}

}  // namespace tw
