// What terminal and SVG drawings share: which ranks are shown, model chunks, headings.
#pragma once

#include <string>
#include <vector>

#include "plan/trace/analyze.hpp"

namespace tw {

// At most `most` of `count` rows, evenly spread, the first and the last included.
std::vector<std::size_t> shown_rows(std::size_t count, std::size_t most);

// The stages that a rank computes, ascending: the position of a stage is its model chunk on that rank.
std::vector<std::uint16_t> stages_of(const RankTrace& rank);
std::size_t chunk_of(const std::vector<std::uint16_t>& stages, std::uint16_t stage);

// "PP3" or the rank's own name.
std::string row_name(const RankTrace& rank);

// "step 27.0 ms (period of step 1) · bubble 27.3 % · simulated", from what there is.
std::string headline(const Trace& trace, const std::vector<StepAnalysis>& steps);

}  // namespace tw
