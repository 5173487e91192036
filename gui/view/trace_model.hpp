// TraceModel: the tasks of a trace as the timeline reads them, a structure of arrays sorted by lane and time.
// Immutable and shared between threads once built. At most 40 bytes a task beside the report it came from:
// start, end, name or event, microbatch, stage, kind (27 bytes) and the level of detail (3.4).
//
// A lane is one row of tasks that do not overlap: a stream of a rank, or one nesting depth of a thread.
// A rank's first lane is its device's main work. Ranks are grouped by node.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gui/view/level_of_detail.hpp"
#include "gui/view/task_kind.hpp"
#include "plan/trace/rendezvous.hpp"
#include "plan/trace/trace.hpp"

namespace tw {

using TaskId = std::uint32_t;
inline constexpr TaskId kNoTask = 0xffffffffU;

struct Lane {
    std::uint32_t rank = 0;  // index into TraceModel::ranks
    std::string name;        // "compute", "dp 1", "stream 7"
    Stream stream = Stream::Compute;
    std::uint16_t communicator = 0;
    std::uint8_t depth = 0;     // nesting within a thread; 0: the outermost
    TaskId begin = 0, end = 0;  // its tasks
    std::uint32_t kinds = 0;    // that occur among them: bit 1 << kind
};

struct ModelRank {
    int rank = 0;  // RankTrace::rank, or a foreign trace's rank or process
    std::string name;
    std::uint32_t node = 0;
    std::uint32_t lane_begin = 0, lane_end = 0;
    std::uint32_t source = 0;          // index into Trace::ranks
    std::vector<MemorySample> memory;  // foreign traces alone; see TraceModel::memory
};

// Tasks that meet: members[begin[m] .. begin[m + 1]) of meeting m, a flow's from its first task to its last.
struct Meetings {
    std::vector<std::uint32_t> begin = {0};
    std::vector<TaskId> members;
};

struct ModelNode {
    std::string name;  // empty: the trace names no nodes
    std::uint32_t rank_begin = 0, rank_end = 0;
};

class TraceModel {
  public:
    [[nodiscard]] const std::string& title() const { return title_; }
    [[nodiscard]] const std::string& origin() const {
        return origin_;
    }  // "simulated", "measured" or a tool's name
    [[nodiscard]] std::size_t size() const { return start_.size(); }
    [[nodiscard]] SimTime begin() const { return begin_; }
    [[nodiscard]] SimTime end() const { return end_; }  // > begin
    [[nodiscard]] const std::vector<ModelNode>& nodes() const { return nodes_; }
    [[nodiscard]] const std::vector<ModelRank>& ranks() const { return ranks_; }
    [[nodiscard]] const std::vector<Lane>& lanes() const { return lanes_; }
    [[nodiscard]] const std::vector<SimTime>& step_ends() const { return step_ends_; }

    [[nodiscard]] std::span<const SimTime> starts() const { return start_; }
    [[nodiscard]] std::span<const SimTime> ends() const { return finish_; }
    [[nodiscard]] std::span<const TaskKind> kinds() const { return kind_; }
    [[nodiscard]] SimTime start(TaskId task) const { return start_[task]; }
    [[nodiscard]] SimTime finish(TaskId task) const { return finish_[task]; }
    [[nodiscard]] SimTime duration(TaskId task) const { return finish_[task] - start_[task]; }
    [[nodiscard]] TaskKind kind(TaskId task) const { return kind_[task]; }
    [[nodiscard]] std::int32_t microbatch(TaskId task) const {
        return microbatch_[task];
    }  // kNoMicrobatch: none
    [[nodiscard]] std::uint16_t stage(TaskId task) const { return stage_[task]; }
    [[nodiscard]] std::uint32_t lane_of(TaskId task) const;  // O(log lanes)
    [[nodiscard]] std::uint32_t rank_of(TaskId task) const { return lanes_[lane_of(task)].rank; }
    [[nodiscard]] std::string name(TaskId task) const;  // "F mb3 s1"
    // The same for tasks of one name, and cheaper than the name: a search decides once for each.
    [[nodiscard]] std::uint64_t name_key(TaskId task) const;
    // One fact a line: name, rank and lane, start, duration, layers, bytes, wait before a rendezvous, ...
    [[nodiscard]] std::vector<std::pair<std::string, std::string>> details(TaskId task) const;

    // First task of the lane that ends after `time`; the lane's end where none does.
    [[nodiscard]] TaskId first_ending_after(const Lane& lane, SimTime time) const;
    // The task at a time, or kNoTask.
    [[nodiscard]] TaskId task_at(std::uint32_t lane, SimTime time) const;

    [[nodiscard]] const LevelOfDetail& detail() const { return detail_; }

    // Memory of a rank (index into ranks()); empty where not recorded.
    [[nodiscard]] std::span<const MemorySample> memory(std::size_t rank) const;
    [[nodiscard]] const std::vector<std::string>& memory_categories() const { return memory_categories_; }
    // Bytes that a rank (index into ranks()) may hold; 0: unknown. Ranks differ where devices are mixed.
    [[nodiscard]] std::int64_t memory_capacity(std::size_t rank) const;

    // Our own traces: the report behind it; null for foreign ones.
    [[nodiscard]] const Trace* source() const { return source_.get(); }
    [[nodiscard]] const TraceEvent* event(TaskId task) const;  // null for foreign ones
    [[nodiscard]] EventRef event_ref(TaskId task) const;       // needs source()
    [[nodiscard]] TaskId task_of(EventRef event) const;        // needs source(); O(log n)

    // The arrows that a foreign file holds; null for our own traces, whose meetings follow from the report.
    [[nodiscard]] const std::shared_ptr<const Meetings>& flows() const { return flows_; }

    // What it keeps beside the report.
    [[nodiscard]] std::size_t bytes() const;
    // What a reader could not place, one line a kind: unfinished spans, events of unknown phases.
    [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

  private:
    friend class TraceModelBuilder;

    std::shared_ptr<const Trace> source_;
    std::string title_, origin_;
    SimTime begin_ = 0, end_ = 1;
    std::vector<ModelNode> nodes_;
    std::vector<ModelRank> ranks_;
    std::vector<std::uint32_t> rank_of_source_;  // by index into Trace::ranks
    std::vector<Lane> lanes_;
    std::vector<SimTime> step_ends_;
    std::vector<SimTime> start_, finish_;
    std::vector<std::uint32_t> ref_;  // event of the rank, or index into names_
    std::vector<std::int32_t> microbatch_;
    std::vector<std::uint16_t> stage_;
    std::vector<TaskKind> kind_;
    LevelOfDetail detail_;
    std::shared_ptr<const Meetings> flows_;
    std::vector<std::string> names_;
    std::vector<std::string> memory_categories_;
    std::int64_t memory_capacity_ = 0;
    std::vector<std::string> warnings_;
};

// The trace's clocks are aligned (align_clocks). O(n), and O(n log n) where a lane's events are not in order.
std::shared_ptr<const TraceModel> make_trace_model(std::shared_ptr<const Trace> trace);

}  // namespace tw
