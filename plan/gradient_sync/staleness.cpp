#include "plan/gradient_sync/staleness.hpp"

#include "base/check.hpp"

namespace tw {

double StalenessDistribution::mean() const {
    double sum = 0;
    for (std::size_t k = 0; k < probability.size(); ++k)
        sum += static_cast<double>(k) * probability[k];
    return sum;
}

int StalenessDistribution::quantile(double share) const {
    double below = 0;
    for (int k = 0; k < max(); ++k) {
        below += probability[static_cast<std::size_t>(k)];
        if (below >= share) return k;
    }
    return max();
}

StalenessDistribution parameter_server_staleness(int workers, int bound) {
    TW_CHECK(workers >= 1);
    constexpr double kTail = 1e-9;
    const double others = 1.0 - 1.0 / workers;  // the next update is another's
    StalenessDistribution distribution;
    double mass = 0;
    double left = 1;
    for (int k = 0; bound < 0 ? left > kTail : k <= bound * (workers - 1); ++k) {
        distribution.probability.push_back(left / workers);
        mass += left / workers;
        left *= others;
    }
    for (double& p : distribution.probability)
        p /= mass;
    return distribution;
}

int pipedream_staleness(int stage, int stages, bool vertical_sync) {
    TW_CHECK(stage >= 0 && stage < stages);
    return vertical_sync ? stages - 1 : stages - 1 - stage;
}

}  // namespace tw
