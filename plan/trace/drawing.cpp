#include "plan/trace/drawing.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/si_format.hpp"

namespace tw {

std::vector<std::size_t> shown_rows(std::size_t count, std::size_t most) {
    std::vector<std::size_t> rows;
    const std::size_t shown = std::min(count, std::max<std::size_t>(1, most));
    for (std::size_t i = 0; i < shown; ++i)
        rows.push_back(shown == 1 ? 0 : i * (count - 1) / (shown - 1));
    return rows;
}

std::vector<std::uint16_t> stages_of(const RankTrace& rank) {
    std::vector<std::uint16_t> stages;
    for (const TraceEvent& event : rank.events) {
        const Instruction& i = event.instruction;
        if (is_compute(i.opcode)) stages.push_back(i.stage);
        if (i.opcode == Opcode::OverlapForwardBackward) stages.push_back(i.stage2);
    }
    std::sort(stages.begin(), stages.end());
    stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
    return stages;
}

std::size_t chunk_of(const std::vector<std::uint16_t>& stages, std::uint16_t stage) {
    const auto at = std::lower_bound(stages.begin(), stages.end(), stage);
    return at == stages.end() || *at != stage ? 0 : static_cast<std::size_t>(at - stages.begin());
}

std::string row_name(const RankTrace& rank) {
    return rank.name.empty() ? fmt::format("PP{}", rank.rank) : rank.name;
}

std::string headline(const Trace& trace, const std::vector<StepAnalysis>& steps) {
    const StepAnalysis& last = steps.back();
    std::string text = fmt::format("step {}", format_sim_time(last.period()));
    if (steps.size() > 1) text += fmt::format(" (period of step {})", last.step);
    text += fmt::format(" · bubble {}", format_percent(last.bubble_fraction));
    if (!trace.origin.empty()) text += " · " + trace.origin;
    return text;
}

}  // namespace tw
