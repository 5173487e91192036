// Searching tasks by words: each word must match. A plain word is found in the task's name ("F mb3 s1"),
// upper and lower case alike; others ask for a property:
//   mb:3  mb:2-5   microbatches          stage:1         rank:3          step:1
//   kind:dp        a kind of work, by its title or short name            lane:p2p   part of the stream's name
//   >5ms  <20us    the duration
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.hpp"
#include "gui/view/trace_model.hpp"

namespace tw {

struct TaskQuery {
    struct Between {
        std::int64_t low = 0, high = 0;
    };
    std::vector<std::string> words;  // lower case
    std::vector<Between> microbatches, stages, ranks, steps, durations;
    std::vector<TaskKind> kinds;
    std::vector<std::string> lanes;
    [[nodiscard]] bool empty() const;
};

// Unknown kinds and keys name the valid ones.
Result<TaskQuery> parse_query(std::string_view text);

// Looks at a few tasks at a time, so that a window stays alive.
class TaskSearch {
  public:
    TaskSearch() = default;
    TaskSearch(std::shared_ptr<const TraceModel> model, TaskQuery query);

    // Looks at `budget` more tasks; true when all were looked at (then matches() is in order of time).
    bool step(std::size_t budget);
    [[nodiscard]] bool done() const { return next_ >= (model_ ? model_->size() : 0); }
    [[nodiscard]] const std::vector<TaskId>& matches() const { return matches_; }
    // The match that starts after `task` (kNoTask: after `time`), around the end to the first; needs done().
    [[nodiscard]] std::size_t after(TaskId task, SimTime time) const;
    [[nodiscard]] std::size_t before(TaskId task, SimTime time) const;

  private:
    [[nodiscard]] bool matches(TaskId task, const Lane& lane) const;
    [[nodiscard]] bool lane_matches(const Lane& lane) const;
    [[nodiscard]] bool name_matches(TaskId task) const;

    std::shared_ptr<const TraceModel> model_;
    TaskQuery query_;
    std::size_t next_ = 0;
    std::uint32_t lane_ = 0;
    std::vector<TaskId> matches_;
    mutable std::unordered_map<std::uint64_t, bool> names_;  // asked, never walked
};

}  // namespace tw
