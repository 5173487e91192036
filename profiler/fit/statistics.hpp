// Errors of a fit on points that it never saw.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/hardware/profile.hpp"

namespace tw {

// The value below which `share` of the numbers lie (nearest rank); 0 where there is none.
double quantile(std::vector<double> values, double share);

// Rounded to `digits` significant decimal digits: what documents store.
double round_digits(double value, int digits = 4);

// Deterministic 20 %: a whole group (a pair of dimensions, a shape) is left out or kept.
bool held_out(std::uint64_t a, std::uint64_t b);

// `errors`: |log(measured / predicted)| of the held-out points.
FitRecord fit_record(std::string source, std::int64_t points_used, const std::vector<double>& errors);

}  // namespace tw
