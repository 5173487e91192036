#include "profiler/fit/crowd_waits.hpp"

#include <algorithm>
#include <string_view>

#include "models/hardware/sample_statistics.hpp"

namespace tw {

std::vector<std::pair<const char*, double>> crowd_waits(const std::vector<SampleSeries>& samples) {
    const auto seconds = [&](std::string_view variant) {
        for (const SampleSeries& s : samples) {
            if (s.benchmark == "crowd" && s.variant == variant) return median_of(s.values);
        }
        return 0.0;
    };
    std::vector<std::pair<const char*, double>> waits;
    const double product = seconds("product"), both = seconds("product, all_reduce");
    if (product <= 0 || both <= 0) return waits;
    constexpr double kLeast = 1e-7;
    waits.emplace_back("crowd", std::max(kLeast, both - product));
    const double idle = seconds("all_reduce");
    if (idle > 0) {
        waits.emplace_back("crowd idle", std::min(idle, waits.front().second));
        waits.emplace_back("crowd product", product);
    }
    const double message = seconds("message there and back, beside products");
    if (message > 0) waits.emplace_back("crowd message", message / 2);
    return waits;
}

}  // namespace tw
