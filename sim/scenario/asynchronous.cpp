#include "sim/scenario/asynchronous.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace tw {

std::vector<double> asynchronous_steps(const std::vector<std::vector<double>>& own,
                                       const std::vector<int>& alike, int bound, double least_s) {
    TW_CHECK(!own.empty() && own.size() == alike.size());
    const std::size_t steps = own.front().size();
    std::vector<double> result(steps, 0);
    if (bound < 0) {
        for (std::size_t k = 0; k < steps; ++k) {
            double rate = 0, replicas = 0;
            for (std::size_t r = 0; r < own.size(); ++r) {
                rate += alike[r] / own[r][k];
                replicas += alike[r];
            }
            result[k] = replicas / rate;
        }
    } else {
        const std::size_t window = static_cast<std::size_t>(bound) + 1;
        for (std::size_t begin = 0; begin < steps; begin += window) {
            const std::size_t end = std::min(steps, begin + window);
            double longest = 0;
            for (const std::vector<double>& replica : own) {
                double sum = 0;
                for (std::size_t k = begin; k < end; ++k)
                    sum += replica[k];
                longest = std::max(longest, sum);
            }
            for (std::size_t k = begin; k < end; ++k)
                result[k] = longest / static_cast<double>(end - begin);
        }
    }
    for (double& step : result)
        step = std::max(step, least_s);
    return result;
}

}  // namespace tw
