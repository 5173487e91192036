// Opening traces from files: our own documents ("trainwright/trace") and Chrome's format (PyTorch's Kineto,
// our exports, others), the latter event by event so that a file of gigabytes opens in seconds and can be
// given up.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.hpp"
#include "gui/view/trace_model.hpp"
#include "gui/view/trace_model_builder.hpp"

namespace tw {

// Several files become one trace on one axis, a node each; they must then all be in Chrome's format. Where
// collectives that all of them have end at other times by the clock of one file than by that of the first, it
// is shifted and a warning says by how much. `progress` is called every few milliseconds' worth of work, from
// the calling thread. Errors: those of read_trace and read_trace_events; Interrupted where progress returned
// false.
Result<std::shared_ptr<const TraceModel>> load_trace_model(std::span<const std::filesystem::path> files,
                                                           const LoadProgress& progress = {});

// Of a PyTorch trace: whose it is, from the beginning of the file; nothing where it does not say.
struct TracedRank {
    std::int64_t rank = 0, world_size = 0;
};
std::optional<TracedRank> traced_rank(std::string_view head);

// From the beginning of a file (64 KB are enough): would load_trace_model read it?
bool looks_like_trace(std::string_view head);

}  // namespace tw
