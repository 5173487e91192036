// Private to TraceModelBuilder: the last step, from the tasks of one lane to the model's arrays.
#pragma once

#include <algorithm>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "base/check.hpp"
#include "gui/view/trace_model_builder.hpp"

namespace tw {

// Writes sorted tasks into the model's arrays, a lane for every depth of overlap.
struct TraceModelBuilder::Filler {
    struct Task {
        SimTime start, finish;
        std::uint32_t ref;
        std::int32_t microbatch;
        std::uint16_t stage;
        TaskKind kind;
    };

    TraceModel& model;
    std::vector<Task> tasks;          // of the lane being filled
    std::vector<std::uint8_t> depth;  // of each
    std::vector<SimTime> last_end;    // by depth
    static constexpr std::size_t kMostDepth =
        64;  // beyond: tasks share the last depth, cut at their neighbours

    void flush(Lane lane) {
        const auto before = [](const Task& a, const Task& b) {
            // Of two that start together the longer one is the outer one.
            return std::tuple(a.start, -a.finish, a.ref) < std::tuple(b.start, -b.finish, b.ref);
        };
        if (!std::is_sorted(tasks.begin(), tasks.end(), before))
            std::sort(tasks.begin(), tasks.end(), before);
        depth.assign(tasks.size(), 0);
        last_end.clear();
        for (std::size_t i = 0; i < tasks.size(); ++i) {
            std::size_t d = 0;
            while (d < last_end.size() && last_end[d] > tasks[i].start)
                ++d;
            if (d == kMostDepth) {
                --d;
                tasks[i].start = last_end[d];
                tasks[i].finish = std::max(tasks[i].start, tasks[i].finish);
            }
            if (d == last_end.size()) last_end.push_back(0);
            last_end[d] = tasks[i].finish;
            depth[i] = static_cast<std::uint8_t>(d);
        }
        const std::string name = lane.name;
        for (std::size_t d = 0; d < last_end.size(); ++d) {
            lane.depth = static_cast<std::uint8_t>(d);
            if (d > 0) lane.name = fmt::format("{} +{}", name, d);
            lane.begin = static_cast<TaskId>(model.start_.size());
            for (std::size_t i = 0; i < tasks.size(); ++i) {
                if (depth[i] == d) push(tasks[i]);
            }
            lane.end = static_cast<TaskId>(model.start_.size());
            lane.kinds = 0;
            for (TaskId t = lane.begin; t < lane.end; ++t)
                lane.kinds |= 1U << static_cast<unsigned>(model.kind_[t]);
            model.lanes_.push_back(lane);
        }
        tasks.clear();
    }

    void push(const Task& t) {
        model.start_.push_back(t.start);
        model.finish_.push_back(t.finish);
        model.ref_.push_back(t.ref);
        model.microbatch_.push_back(t.microbatch);
        model.stage_.push_back(t.stage);
        model.kind_.push_back(t.kind);
    }

    void reserve(std::size_t count) {
        TW_CHECK_MSG(count < kNoTask, "a timeline holds at most 4 billion tasks");
        model.start_.reserve(count);
        model.finish_.reserve(count);
        model.ref_.reserve(count);
        model.microbatch_.reserve(count);
        model.stage_.reserve(count);
        model.kind_.reserve(count);
    }

    void finish() {
        SimTime first = kNever;
        SimTime last = -kNever;
        for (const Lane& lane : model.lanes_) {
            if (lane.begin == lane.end) continue;
            first = std::min(first, model.start_[lane.begin]);
            last = std::max(last, model.finish_[lane.end - 1]);
        }
        if (first > last) first = last = 0;
        model.begin_ = std::min<SimTime>(0, first);
        model.end_ = std::max(model.begin_ + 1, last);
        for (const SimTime end : model.step_ends_)
            model.end_ = std::max(model.end_, end);
        model.detail_ = LevelOfDetail(model.start_, model.finish_, model.kind_);
    }
};

}  // namespace tw
