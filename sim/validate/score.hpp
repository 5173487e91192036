// How far predictions are from measurements.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tw {

struct Pair {
    double predicted = 0, measured = 0;
};

// Of e = predicted / measured - 1, fractions.
struct ErrorScore {
    int compared = 0;
    double mape = 0;        // mean |e|
    double median_ape = 0;  // median |e|
    double p90_ape = 0;     // 90th percentile of |e|
    double bias = 0;        // mean e
};
ErrorScore score_errors(std::span<const Pair> pairs);

// Rank correlation (Kendall 1938): concordant less discordant pairs over both, pooled over the groups; pairs
// that were measured equal count in neither. Nothing where no pair counts.
std::optional<double> kendall_tau(std::span<const std::vector<Pair>> groups);

// Of values >= 0, interpolated between neighbours; 0 where there are none.
double interpolated_quantile(std::vector<double> values, double share);

// Predicted out of memory against observed.
struct Confusion {
    int true_positive = 0, false_positive = 0, false_negative = 0, true_negative = 0;
};

}  // namespace tw
