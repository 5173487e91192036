#include "sim/validate/score.hpp"

#include <algorithm>
#include <cmath>

namespace tw {

double interpolated_quantile(std::vector<double> values, double share) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    const double at = share * static_cast<double>(values.size() - 1);
    const auto left = static_cast<std::size_t>(at);
    const std::size_t right = std::min(left + 1, values.size() - 1);
    return values[left] + (at - static_cast<double>(left)) * (values[right] - values[left]);
}

ErrorScore score_errors(std::span<const Pair> pairs) {
    ErrorScore score;
    std::vector<double> errors;
    for (const Pair& p : pairs) {
        const double e = p.predicted / p.measured - 1;
        score.bias += e;
        score.mape += std::abs(e);
        errors.push_back(std::abs(e));
    }
    score.compared = static_cast<int>(pairs.size());
    if (pairs.empty()) return score;
    score.bias /= score.compared;
    score.mape /= score.compared;
    score.median_ape = interpolated_quantile(errors, 0.5);
    score.p90_ape = interpolated_quantile(errors, 0.9);
    return score;
}

std::optional<double> kendall_tau(std::span<const std::vector<Pair>> groups) {
    long concordant = 0, discordant = 0;
    for (const std::vector<Pair>& group : groups) {
        for (std::size_t i = 0; i < group.size(); ++i) {
            for (std::size_t j = i + 1; j < group.size(); ++j) {
                const double measured = group[i].measured - group[j].measured;
                const double predicted = group[i].predicted - group[j].predicted;
                if (measured == 0 || predicted == 0) continue;
                ((measured > 0) == (predicted > 0) ? concordant : discordant) += 1;
            }
        }
    }
    if (concordant + discordant == 0) return std::nullopt;
    return static_cast<double>(concordant - discordant) / static_cast<double>(concordant + discordant);
}

}  // namespace tw
