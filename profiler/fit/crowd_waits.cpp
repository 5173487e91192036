#include "profiler/fit/crowd_waits.hpp"

#include <algorithm>
#include <string>
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
    // One product takes p on the shared cores, a wait w: samples are of p + w and of 8 p + w.
    const auto product = [&](const std::string& name) {
        const double one = seconds("product, all_reduce" + name),
                     many = seconds("products, all_reduce" + name);
        return one > 0 && many > 0 ? std::max(0.0, (many - one) / (kCrowdProducts - 1)) : 0.0;
    };
    const double own = product("");
    if (own <= 0) return waits;
    constexpr double kLeast = 1e-7;
    const auto add = [&](const std::string& name, const char* computing, const char* idle, double alone) {
        waits.emplace_back(computing, std::max(kLeast, seconds("product, all_reduce" + name) - alone));
        const double nobody_computes = seconds("all_reduce" + name);
        // More than the wait after long computations where others fill the cores meanwhile.
        if (nobody_computes > 0) waits.emplace_back(idle, nobody_computes);
    };
    add("", "crowd", "crowd idle", own);
    waits.emplace_back("crowd product", own);
    if (const double half = product(" of half"); half > 0)
        add(" of half", "crowd half", "crowd half idle", half);
    const double message = seconds("message there and back, beside products");
    if (message > 0) waits.emplace_back("crowd message", message / 2);
    return waits;
}

}  // namespace tw
