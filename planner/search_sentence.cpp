#include "planner/search_sentence.hpp"

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "planner/space.hpp"

namespace tw {

std::string search_sentence(const SearchStatistics& search, bool found) {
    std::string text = fmt::format("{} configurations, {} simulated", format_count(search.configurations),
                                   format_count(search.simulated));
    std::string rules;
    for (const auto& [rule, count] : search.pruned) {
        if (rule != kNotReached)
            rules += fmt::format("{}{} by {}", rules.empty() ? "" : ", ", format_count(count), rule);
    }
    if (!rules.empty()) text += "; left out: " + rules;
    if (const auto rest = search.pruned.find(std::string(kNotReached)); rest != search.pruned.end())
        text += fmt::format("; {} {}", format_count(rest->second), kNotReached);
    if (search.uniform_only > 0) {
        text += fmt::format("; of {} chunkings and schedules the uniform partition alone is counted",
                            format_count(search.uniform_only));
    }
    if (search.too_long > 0) {
        text += fmt::format("; {} meshes not searched, of more than {} microbatches x pipeline ranks",
                            format_count(search.too_long), format_count(kMaxSearchedComputes));
    }
    const std::string wall = format_duration(search.wall_s);
    if (search.proven_optimal) {
        return text + (found ? ". Proven best" : ". Proven") + " of the partitions tried, in " + wall + ".";
    }
    return text + (search.interrupted ? ". Cut short after " : ". Not proven best, after ") + wall + ".";
}

}  // namespace tw
