// Memory of a prediction beside a measurement's: the peak of every rank and what it is made of. Both sides
// name their parts in their own words; parts are joined in a few groups that both can tell apart.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text_table.hpp"
#include "plan/trace/trace.hpp"

namespace tw {

struct HeldMemory {
    int rank = 0;                                       // as RankTrace::rank
    int pipeline_rank = 0;                              // as RankTrace::schedule_rank()
    std::vector<std::pair<std::string, double>> parts;  // bytes at the peak
};

// At the sample where most is held; ranks without samples are left out.
std::vector<HeldMemory> peak_memory(const Trace& trace);

// "model states" (parameters, gradients, master weights, optimizer states), "activations" (logits among
// them), "temporaries", "communication buffers", "stashed weights"; else "other".
std::string_view memory_group(std::string_view part);

struct MemoryRow {
    int rank = 0;       // the measurement's
    std::string group;  // or "peak": all together
    double predicted_bytes = 0, measured_bytes = 0;
    // (predicted - measured) / measured; 0 where both are 0.
    [[nodiscard]] double relative_error() const {
        if (measured_bytes == 0) return predicted_bytes == 0 ? 0 : 1;
        return (predicted_bytes - measured_bytes) / measured_bytes;
    }
};

// For each measured rank whose pipeline rank is predicted: its peak, then the groups that either side has.
std::vector<MemoryRow> compare_memory(std::span<const HeldMemory> predicted,
                                      std::span<const HeldMemory> measured);

TextTable memory_table(std::span<const MemoryRow> rows);

}  // namespace tw
