#include "real_exec/runtime/trace_gather.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <type_traits>

#include <fmt/format.h>

#include "plan/trace/rendezvous.hpp"
#include "real_exec/backend/backend.hpp"
#include "real_exec/runtime/gather.hpp"
#include "real_exec/runtime/sync_method.hpp"

namespace tw {
namespace {

// Flat bytes: all ranks run the same binary.
class Writer {
  public:
    template <class T>
    void put(const T& value) {
        static_assert(std::is_trivially_copyable_v<T>);
        const auto* bytes = reinterpret_cast<const char*>(&value);
        text_.append(bytes, sizeof(T));
    }
    [[nodiscard]] std::string take() { return std::move(text_); }

  private:
    std::string text_;
};

class Reader {
  public:
    explicit Reader(const std::string& text) : text_(text) {}
    template <class T>
    T get() {
        T value{};
        TW_CHECK(at_ + sizeof(T) <= text_.size());
        std::memcpy(&value, text_.data() + at_, sizeof(T));
        at_ += sizeof(T);
        return value;
    }

  private:
    const std::string& text_;
    std::size_t at_ = 0;
};

struct Place {
    int pipeline_rank = 0, dp_rank = 0, tp_rank = 0;
};

std::string name_of(const Place& place) {
    return fmt::format("PP{} DP{} TP{}", place.pipeline_rank, place.dp_rank, place.tp_rank);
}

std::string pack(const RankLayout& layout, const RankRecord& record) {
    Writer writer;
    writer.put(Place{layout.pipeline_rank, layout.dp_rank, layout.tp_rank});
    writer.put(record.clock);
    writer.put(record.events.size());
    for (const TraceEvent& event : record.events)
        writer.put(event);
    writer.put(record.memory.size());
    for (const MemorySample& sample : record.memory) {
        writer.put(sample.time);
        for (const std::int64_t bytes : sample.bytes)
            writer.put(bytes);
    }
    return writer.take();
}

RankTrace unpack(const std::string& text, int rank, int tp) {
    Reader reader(text);
    RankTrace out;
    const auto place = reader.get<Place>();
    const auto clock = reader.get<ClockOffset>();
    out.rank = rank;
    out.name = name_of(place);
    out.pipeline_rank = place.pipeline_rank;
    out.replica = place.dp_rank * tp + place.tp_rank;
    out.clock_offset_s = clock.offset_s;
    out.clock_uncertainty_s = clock.uncertainty_s;
    out.events.resize(reader.get<std::size_t>());
    for (TraceEvent& event : out.events)
        event = reader.get<TraceEvent>();
    out.memory.resize(reader.get<std::size_t>());
    for (MemorySample& sample : out.memory) {
        sample.time = reader.get<SimTime>();
        sample.bytes.resize(kMemoryUses);
        for (std::int64_t& bytes : sample.bytes)
            bytes = reader.get<std::int64_t>();
    }
    return out;
}

// A transfer or collective begins when the last of those who meet has come to it, on a device where one runs
// it; before, its ranks wait.
// Replicas that step by themselves do not meet in collectives (group 0).
void start_together(Trace& trace, bool replicas_meet) {
    const Rendezvous meetings = match_rendezvous(trace);
    for (std::size_t m = 0; m < meetings.size(); ++m) {
        SimTime last = 0;
        const EventRef first = meetings.members_of(m).front();
        const Instruction& in = trace.ranks[first.rank].events[first.event].instruction;
        if (!replicas_meet && is_collective(in.opcode) && in.group == 0) continue;
        for (const EventRef& member : meetings.members_of(m))
            last = std::max(last, trace.ranks[member.rank].events[member.event].start);
        for (const EventRef& member : meetings.members_of(m)) {
            TraceEvent& event = trace.ranks[member.rank].events[member.event];
            event.start = std::clamp(last, event.arrival, event.end);
        }
    }
}

}  // namespace

std::string rank_name(const RankLayout& layout) {
    return name_of({layout.pipeline_rank, layout.dp_rank, layout.tp_rank});
}

Result<Trace> gather_trace(Communicator& world, const RankLayout& layout, const PlanDocument& document,
                           const Schedule& schedule, const RankRecord& record, std::int64_t steps) {
    const auto texts = gather_texts(world, pack(layout, record));
    if (!texts) return texts.errors();
    Trace trace;
    if (world.rank() != 0) return trace;
    trace.title = fmt::format("{}, {}", document.model_name, summary(document.plan));
    trace.origin = "measured";
    trace.steps = static_cast<int>(steps);
    for (int use = 0; use < kMemoryUses; ++use)
        trace.memory_categories.emplace_back(to_string(static_cast<MemoryUse>(use)));
    for (const StageSpec& stage : document.plan.stages)
        trace.stage_labels.push_back(fmt::format("layers {}-{}", stage.first_layer, stage.last_layer - 1));
    for (std::size_t r = 0; r < texts->size(); ++r)
        trace.ranks.push_back(unpack((*texts)[r], static_cast<int>(r), document.plan.mesh.tp));
    trace = align_clocks(std::move(trace));
    const auto method = sync_method_of(document.plan.gradient_sync);
    start_together(trace, !(method && steps_alone(*method)));
    std::map<std::int32_t, SimTime> ends;
    for (const RankTrace& rank : trace.ranks) {
        for (const TraceEvent& event : rank.events)
            ends[event.step] = std::max(ends[event.step], event.end);
    }
    for (const auto& [step, end] : ends)
        trace.step_end.push_back(end);
    if (schedule.boundary == StepBoundary::None) std::sort(trace.step_end.begin(), trace.step_end.end());
    return trace;
}

}  // namespace tw
