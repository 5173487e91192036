#include "planner/explain/breakdown.hpp"

#include <array>
#include <cmath>

#include <fmt/format.h>

#include "base/si_format.hpp"

namespace tw {
namespace {

struct NamedPart {
    std::string_view name;
    double TimeBreakdown::*seconds;
};

constexpr std::array kParts = {
    NamedPart{"forward", &TimeBreakdown::forward},
    NamedPart{"backward", &TimeBreakdown::backward},
    NamedPart{"recompute", &TimeBreakdown::recompute},
    NamedPart{"optimizer", &TimeBreakdown::optimizer},
    NamedPart{"exposed tensor parallel", &TimeBreakdown::exposed_tp},
    NamedPart{"exposed data parallel", &TimeBreakdown::exposed_dp},
    NamedPart{"exposed pipeline", &TimeBreakdown::exposed_pp},
    NamedPart{"exposed context parallel", &TimeBreakdown::exposed_cp},
    NamedPart{"exposed expert parallel", &TimeBreakdown::exposed_ep},
    NamedPart{"offloading activations", &TimeBreakdown::exposed_offload},
    NamedPart{"slowed by collectives", &TimeBreakdown::slowed},
    NamedPart{"copying weights", &TimeBreakdown::stash},
    NamedPart{"waiting for the host", &TimeBreakdown::host},
    NamedPart{"waiting for other ranks", &TimeBreakdown::bubble},
};

}  // namespace

std::vector<TimePart> time_parts(const SimulationReport& report) {
    std::vector<TimePart> parts;
    for (const NamedPart& part : kParts) {
        double sum = 0;
        for (const RankReport& rank : report.ranks)
            sum += rank.breakdown.*part.seconds;
        parts.push_back(
            {part.name, report.ranks.empty() ? 0 : sum / static_cast<double>(report.ranks.size())});
    }
    return parts;
}

std::string main_difference(const SimulationReport& base, const SimulationReport& changed) {
    const std::vector<TimePart> before = time_parts(base), after = time_parts(changed);
    const bool slower = changed.step_time_s > base.step_time_s;
    std::size_t largest = 0;
    double most = 0;
    for (std::size_t i = 0; i < before.size(); ++i) {
        const double difference = after[i].seconds - before[i].seconds;
        if ((slower ? difference : -difference) <= most) continue;
        most = slower ? difference : -difference;
        largest = i;
    }
    if (most < 1e-3 * base.step_time_s) return "";
    return fmt::format("{} {}{}", before[largest].name, slower ? "+" : "-", format_duration(most, 2));
}

std::string relative_change(double base, double changed) {
    if (base == 0) return "-";
    return fmt::format("{:+.1f} %", (changed - base) / std::abs(base) * 100);
}

}  // namespace tw
