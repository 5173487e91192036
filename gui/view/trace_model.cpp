#include "gui/view/trace_model.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/check.hpp"
#include "base/si_format.hpp"
#include "gui/view/trace_model_builder.hpp"

namespace tw {
namespace {

std::uint64_t mixed(std::uint64_t h, std::uint64_t value) {
    h ^= value + 0x9e3779b97f4a7c15ULL + (h << 6U) + (h >> 2U);
    h *= 0xbf58476d1ce4e5b9ULL;
    return h ^ (h >> 31U);
}

template <class T>
std::size_t bytes_of(const std::vector<T>& v) {
    return v.capacity() * sizeof(T);
}

}  // namespace

std::uint32_t TraceModel::lane_of(TaskId task) const {
    TW_CHECK(task < size());
    const auto after = std::partition_point(lanes_.begin(), lanes_.end(),
                                            [&](const Lane& lane) { return lane.end <= task; });
    return static_cast<std::uint32_t>(after - lanes_.begin());
}

std::string TraceModel::name(TaskId task) const {
    if (const TraceEvent* e = event(task)) return event_name(e->instruction);
    return names_[ref_[task]];
}

std::uint64_t TraceModel::name_key(TaskId task) const {
    const TraceEvent* e = event(task);
    if (e == nullptr) return ref_[task];
    const Instruction& i = e->instruction;
    std::uint64_t h = mixed(0, static_cast<std::uint64_t>(i.opcode));
    h = mixed(h, std::uint64_t{i.stage} << 32U | static_cast<std::uint32_t>(i.microbatch));
    h = mixed(h, i.part);
    if (i.opcode == Opcode::OverlapForwardBackward)
        h = mixed(h, std::uint64_t{i.stage2} << 32U | static_cast<std::uint32_t>(i.microbatch2));
    return h;
}

std::vector<std::pair<std::string, std::string>> TraceModel::details(TaskId task) const {
    std::vector<std::pair<std::string, std::string>> out;
    const Lane& lane = lanes_[lane_of(task)];
    const ModelRank& rank = ranks_[lane.rank];
    out.emplace_back("task", name(task));
    out.emplace_back("kind", std::string(tw::title(kind(task))));
    const std::string& node = nodes_[rank.node].name;
    out.emplace_back("rank", node.empty() ? rank.name : rank.name + " @ " + node);
    out.emplace_back("stream", lane.name);
    out.emplace_back("start", format_sim_time(start(task), 6));
    out.emplace_back("duration", format_sim_time(duration(task), 4));
    const TraceEvent* e = event(task);
    if (e == nullptr) {
        if (microbatch(task) != kNoMicrobatch)
            out.emplace_back("microbatch", fmt::format("{}", microbatch(task)));
        return out;
    }
    const Instruction& i = e->instruction;
    if (e->start > e->arrival) out.emplace_back("waited before", format_sim_time(e->start - e->arrival, 4));
    if (i.microbatch != kNoMicrobatch) out.emplace_back("microbatch", fmt::format("{}", i.microbatch));
    std::string stage = fmt::format("{}", i.stage);
    if (i.stage < source_->stage_labels.size()) stage += ": " + source_->stage_labels[i.stage];
    out.emplace_back("stage", stage);
    if (source_->steps > 1) out.emplace_back("step", fmt::format("{}", e->step));
    if (is_transfer(i.opcode))
        out.emplace_back(is_send(i.opcode) ? "to" : "from", fmt::format("pipeline rank {}", i.peer));
    if (is_collective(i.opcode)) {
        out.emplace_back("group", i.group == 0 ? "replicas of this rank" : fmt::format("{}", i.group));
    }
    if (i.size_class > 0 && i.size_class < source_->size_class_bytes.size()) {
        const double bytes = source_->size_class_bytes[i.size_class];
        if (bytes > 0) {
            out.emplace_back("moves", format_bytes(bytes));
            if (duration(task) > 0)
                out.emplace_back("rate", format_rate(bytes / to_seconds(duration(task)).value, "B/s"));
        }
    }
    if (i.weight_version > 0) out.emplace_back("weight version", fmt::format("{}", i.weight_version));
    return out;
}

TaskId TraceModel::first_ending_after(const Lane& lane, SimTime time) const {
    // Tasks of a lane do not overlap: ends ascend as starts do.
    const std::size_t after = detail_.first_starting_at(start_, lane.begin, lane.end, time);
    std::size_t task = after;
    while (task > lane.begin && finish_[task - 1] > time)
        --task;
    return static_cast<TaskId>(task);
}

TaskId TraceModel::task_at(std::uint32_t lane, SimTime time) const {
    const Lane& l = lanes_[lane];
    const TaskId task = first_ending_after(l, time);
    return task < l.end && start_[task] <= time ? task : kNoTask;
}

std::span<const MemorySample> TraceModel::memory(std::size_t rank) const {
    if (source_ != nullptr) return source_->ranks[ranks_[rank].source].memory;
    return ranks_[rank].memory;
}

std::int64_t TraceModel::memory_capacity(std::size_t rank) const {
    return source_ == nullptr ? memory_capacity_ : source_->capacity_of(source_->ranks[ranks_[rank].source]);
}

const TraceEvent* TraceModel::event(TaskId task) const {
    if (source_ == nullptr) return nullptr;
    const EventRef ref = event_ref(task);
    return &source_->ranks[ref.rank].events[ref.event];
}

EventRef TraceModel::event_ref(TaskId task) const {
    TW_CHECK(source_ != nullptr);
    return {ranks_[rank_of(task)].source, ref_[task]};
}

TaskId TraceModel::task_of(EventRef event) const {
    TW_CHECK(source_ != nullptr);
    const TraceEvent& e = source_->ranks[event.rank].events[event.event];
    const ModelRank& rank = ranks_[rank_of_source_[event.rank]];
    for (std::uint32_t l = rank.lane_begin; l < rank.lane_end; ++l) {
        const Lane& lane = lanes_[l];
        if (lane.stream != e.instruction.stream || lane.communicator != e.instruction.communicator) continue;
        std::size_t at = detail_.first_starting_at(start_, lane.begin, lane.end, e.start);
        for (; at < lane.end && start_[at] == e.start; ++at) {
            if (ref_[at] == event.event) return static_cast<TaskId>(at);
        }
    }
    return kNoTask;
}

std::size_t TraceModel::bytes() const {
    std::size_t sum = bytes_of(start_) + bytes_of(finish_) + bytes_of(ref_) + bytes_of(microbatch_) +
                      bytes_of(stage_) + bytes_of(kind_) + detail_.bytes() + bytes_of(lanes_) +
                      bytes_of(ranks_) + bytes_of(nodes_) + bytes_of(names_);
    for (const std::string& name : names_)
        sum += name.capacity();
    if (flows_ != nullptr) sum += bytes_of(flows_->begin) + bytes_of(flows_->members);
    return sum;
}

std::shared_ptr<const TraceModel> make_trace_model(std::shared_ptr<const Trace> trace) {
    return TraceModelBuilder::build(std::move(trace));
}

}  // namespace tw
