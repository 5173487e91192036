#include "cli/scenario_text.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/si_format.hpp"

namespace tw::cli {
namespace {

constexpr std::size_t kShownRanks = 12;

}  // namespace

void print_scenario(const ScenarioResult& result, Console& console) {
    const bool colour = console.out_colour();
    const auto fact = [&](const char* name, const std::string& value, const std::string& meaning) {
        console.out(pad_right(name, 12) + pad_left(value, 10) + "   " +
                    styled(meaning, TextStyle::Dim, colour) + "\n");
    };
    console.heading("Scenario");
    fact("step", format_duration(result.mean_step_s),
         fmt::format("mean of {}; the slowest took {}", result.step_s.size(),
                     format_duration(result.max_step_s)));
    fact("healthy", format_duration(result.clean_step_s), "the same plan, every machine as it should be");
    fact("slowdown", fmt::format("{:.3f}x", result.slowdown), "");
    if (result.straggler >= 0) {
        fact("straggler", fmt::format("rank {}", result.straggler),
             fmt::format("the median rank is ready {} a step before it",
                         format_duration(result.straggler_delay_s)));
    }
    console.out(
        styled(fmt::format("{}; {} programs\n", result.symmetry, result.programs), TextStyle::Dim, colour));

    std::vector<ScenarioRank> ranks = result.ranks;
    std::stable_sort(ranks.begin(), ranks.end(), [](const ScenarioRank& a, const ScenarioRank& b) {
        return a.excess_wait_s > b.excess_wait_s;
    });
    ranks.resize(std::min(ranks.size(), kShownRanks));
    console.heading("Ranks that are ready first");
    TextTable table({"Rank", "Stage rank", "Busy", "Idle", "Ready early", "More than healthy"});
    for (const ScenarioRank& rank : ranks) {
        table.add_row({std::to_string(rank.rank), std::to_string(rank.pipeline_rank),
                       format_duration(rank.busy_s), format_duration(rank.idle_s),
                       format_duration(rank.wait_s), format_duration(rank.excess_wait_s)});
    }
    console.out_table(table);
    console.out(styled(
        "Ready early: what a rank brings to collectives lies ready so long before the last rank's; it may\n"
        "compute on meanwhile.\n",
        TextStyle::Dim, colour));
}

}  // namespace tw::cli
