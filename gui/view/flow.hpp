// The way of a microbatch through a trace, and who meets whom: sends with their receives, collectives on all
// their ranks, and what a foreign file joins by arrows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gui/view/trace_model.hpp"

namespace tw {

// Meetings of tasks; 8 bytes for every task that meets another.
class FlowIndex {
  public:
    FlowIndex() = default;
    // Of our own traces by the report behind the model, of foreign ones by the arrows of their file.
    // O(n log n).
    explicit FlowIndex(const TraceModel& model);

    [[nodiscard]] std::size_t meetings() const { return met_ == nullptr ? 0 : met_->begin.size() - 1; }
    [[nodiscard]] std::span<const TaskId> members(std::size_t meeting) const {
        return {met_->members.data() + met_->begin[meeting], met_->members.data() + met_->begin[meeting + 1]};
    }
    // The member behind this one in its meeting; kNoTask behind the last.
    [[nodiscard]] TaskId next_of(std::uint32_t position) const;
    // The tasks that meet at this one, itself among them; empty where it meets none. O(log n).
    [[nodiscard]] std::span<const TaskId> partners(TaskId task) const;
    // Positions in members() order of the tasks [first, last), ascending by task: for the arrows of a lane.
    [[nodiscard]] std::span<const std::uint32_t> members_in(TaskId first, TaskId last) const;
    [[nodiscard]] TaskId member(std::uint32_t position) const { return met_->members[position]; }
    [[nodiscard]] std::span<const TaskId> meeting_at(std::uint32_t position) const;
    [[nodiscard]] std::size_t bytes() const;

  private:
    std::shared_ptr<const Meetings> met_;
    std::vector<std::uint32_t> by_task_;  // positions among the members, ascending by task
};

// Along the flow: F(mb) of stage s to F(mb) of stage s + 1, at the last stage to its backward, that to the
// backward of stage s - 1; a send to its receive, a receive to the compute that uses it, a collective to the
// same one on the next rank (and around); in a foreign trace the arrows of its file. kNoTask at the end.
// `backwards` walks the other way.
TaskId along_flow(const TraceModel& model, const FlowIndex& flows, TaskId task, bool backwards);

}  // namespace tw
