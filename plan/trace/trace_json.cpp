#include "plan/trace/trace_json.hpp"

#include <algorithm>
#include <limits>
#include <ostream>
#include <set>

#include <fmt/format.h>

#include "base/document_kind.hpp"
#include "base/nearest.hpp"

namespace tw {
namespace {

constexpr int kVersion = 1;
constexpr std::int64_t kMaxU16 = std::numeric_limits<std::uint16_t>::max();
constexpr std::int64_t kMaxI32 = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxU32 = std::numeric_limits<std::uint32_t>::max();
constexpr SimTime kMaxTime = kNever;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 60;
constexpr std::int64_t kMaxCapacity = std::numeric_limits<std::int64_t>::max() / 2;

std::string quoted(std::string_view text) {
    return Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

void append(std::string& out, std::string_view key, std::int64_t value, std::int64_t fallback) {
    if (value != fallback) out += fmt::format(",\"{}\":{}", key, value);
}

std::string event_text(const TraceEvent& event) {
    static const Instruction defaults;
    const Instruction& i = event.instruction;
    std::string out = fmt::format("{{\"opcode\":\"{}\"", to_string(i.opcode));
    if (i.stream != defaults.stream) out += fmt::format(",\"stream\":\"{}\"", to_string(i.stream));
    out += fmt::format(",\"stage\":{}", i.stage);
    append(out, "microbatch", i.microbatch, kNoMicrobatch);
    append(out, "stage2", i.stage2, 0);
    append(out, "microbatch2", i.microbatch2, kNoMicrobatch);
    append(out, "peer", i.peer, 0);
    append(out, "communicator", i.communicator, 0);
    append(out, "batch_group", i.batch_group, 0);
    append(out, "group", i.group, 0);
    append(out, "duration_class", i.duration_class, 0);
    append(out, "size_class", i.size_class, 0);
    append(out, "weight_version", i.weight_version, 0);
    append(out, "part", i.part, 0);
    append(out, "step", event.step, 0);
    out += fmt::format(",\"index\":{}", event.index);
    append(out, "arrival_ps", event.arrival, event.start);
    append(out, "waited_ps", event.waited, 0);
    return out + fmt::format(",\"start_ps\":{},\"end_ps\":{}}}", event.start, event.end);
}

template <class T, class Write>
std::string list_text(const std::vector<T>& values, Write write) {
    std::string out = "[";
    for (const T& value : values)
        out += (out.size() > 1 ? "," : "") + write(value);
    return out + "]";
}

template <class Name>
bool find_name(const JsonObject& object, std::string_view key, const std::string& text, int last,
               Name& found) {
    std::vector<std::string> names;
    for (int k = 0; k <= last; ++k) {
        names.emplace_back(to_string(static_cast<Name>(k)));
        if (names.back() == text) {
            found = static_cast<Name>(k);
            return true;
        }
    }
    object.error(key, fmt::format("unknown {} '{}'", key, text), unknown_name_hint(text, names));
    return false;
}

class TraceReader {
  public:
    explicit TraceReader(Errors& errors) : errors_(errors) {}

    Trace read(const Json& json) {
        Trace trace;
        const JsonObject object(json, "", errors_);
        read_schema(object, "trace", kVersion);
        trace.title = object.string_or("title", "");
        trace.origin = object.string("origin");
        const Json* const origin = object.find("origin");
        if (origin != nullptr && origin->is_string() && trace.origin != "simulated" &&
            trace.origin != "measured") {
            object.error("origin",
                         fmt::format("'{}' is neither \"simulated\" nor \"measured\"", trace.origin));
        }
        trace.steps = static_cast<int>(object.integer("steps", 1, kMaxI32));
        for (const Json& end : list(object, "step_end_ps"))
            trace.step_end.push_back(time(end, "/step_end_ps"));
        for (const Json& name : list(object, "memory_categories"))
            trace.memory_categories.push_back(text(name, "/memory_categories"));
        trace.memory_capacity_bytes = object.integer_or("memory_capacity_bytes", 0, 0, kMaxCapacity);
        for (const Json& bytes : list(object, "size_class_bytes")) {
            if (!bytes.is_number() || bytes.get<double>() < 0)
                complain("/size_class_bytes", "not a number of bytes");
            trace.size_class_bytes.push_back(bytes.is_number() ? bytes.get<double>() : 0);
        }
        for (const Json& label : list(object, "stage_labels"))
            trace.stage_labels.push_back(text(label, "/stage_labels"));
        std::size_t at = 0;
        for (const Json& rank : object.array("ranks"))
            trace.ranks.push_back(read_rank(rank, trace, fmt::format("/ranks/{}", at++)));
        std::set<int> seen;
        for (const RankTrace& rank : trace.ranks) {
            if (!seen.insert(rank.rank).second)
                complain("/ranks", fmt::format("rank {} occurs twice", rank.rank));
        }
        if (!std::is_sorted(trace.step_end.begin(), trace.step_end.end()))
            complain("/step_end_ps", "steps end out of order");
        check_totals(object, trace);
        object.finish();
        return trace;
    }

  private:
    void complain(std::string pointer, std::string message) {
        errors_.push_back({ErrorCode::Unreadable, std::move(message), std::move(pointer), {}});
    }

    // What an analysis holds for each step, and the sums that it makes, must have a size.
    static void check_totals(const JsonObject& object, const Trace& trace) {
        std::size_t events = 0;
        double total = 0;
        for (const RankTrace& rank : trace.ranks) {
            events += rank.events.size();
            for (const TraceEvent& event : rank.events)
                total += static_cast<double>(event.end - event.start) +
                         static_cast<double>(event.start - event.arrival);
        }
        if (static_cast<std::size_t>(trace.steps) > std::max<std::size_t>(1, events))
            object.error("steps", fmt::format("{} steps, but only {} events", trace.steps, events));
        if (total > static_cast<double>(kMaxTime))
            object.error("ranks", fmt::format("the events take {:.3g} s together", total * 1e-12));
    }

    static const Json& list(const JsonObject& object, std::string_view key) {
        static const Json kEmpty = Json::array();
        return object.has(key) ? object.array(key) : kEmpty;
    }

    SimTime time(const Json& value, const std::string& pointer) {
        if (value.is_number_integer() &&
            !(value.is_number_unsigned() &&
              value.get<std::uint64_t>() > static_cast<std::uint64_t>(kMaxTime)) &&
            value.get<std::int64_t>() >= -kMaxTime) {
            return value.get<SimTime>();
        }
        complain(pointer, "not an integer number of picoseconds in range");
        return 0;
    }

    std::string text(const Json& value, const std::string& pointer) {
        if (value.is_string()) return value.get<std::string>();
        complain(pointer, "not a string");
        return {};
    }

    RankTrace read_rank(const Json& json, const Trace& trace, const std::string& pointer) {
        RankTrace rank;
        const JsonObject object(json, pointer, errors_);
        rank.rank = static_cast<int>(object.integer("rank", 0, kMaxI32));
        rank.name = object.string_or("name", "");
        rank.node = object.string_or("node", "");
        rank.clock_offset_s = object.number_or("clock_offset_s", 0, -1e6, 1e6);
        rank.clock_uncertainty_s = object.number_or("clock_uncertainty_s", 0, 0, 1e6);
        rank.pipeline_rank = static_cast<int>(object.integer_or("pipeline_rank", -1, 0, kMaxU16));
        rank.replica = static_cast<int>(object.integer_or("replica", 0, 0, kMaxI32));
        rank.memory_capacity_bytes = object.integer_or("memory_capacity_bytes", 0, 0, kMaxCapacity);
        std::size_t at = 0;
        for (const Json& event : object.array("events")) {
            rank.events.push_back(read_event(event, trace, fmt::format("{}/events/{}", pointer, at++)));
        }
        at = 0;
        for (const Json& sample : list(object, "memory")) {
            const std::string here = fmt::format("{}/memory/{}", pointer, at++);
            rank.memory.push_back(read_sample(sample, trace, here));
            if (at > 1 && rank.memory[at - 1].time < rank.memory[at - 2].time)
                complain(here, "samples are out of order");
        }
        object.finish();
        return rank;
    }

    TraceEvent read_event(const Json& json, const Trace& trace, const std::string& pointer) {
        TraceEvent event;
        Instruction& i = event.instruction;
        const JsonObject o(json, pointer, errors_);
        if (const std::string opcode = o.string("opcode"); o.has("opcode")) {
            find_name(o, "opcode", opcode, static_cast<int>(Opcode::Wait), i.opcode);
        }
        find_name(o, "stream", o.string_or("stream", "compute"), static_cast<int>(Stream::DeviceToHost),
                  i.stream);
        const auto u16 = [&](std::string_view key) {
            return static_cast<std::uint16_t>(o.integer_or(key, 0, 0, kMaxU16));
        };
        i.stage = static_cast<std::uint16_t>(o.integer("stage", 0, kMaxU16));
        i.microbatch = static_cast<std::int32_t>(o.integer_or("microbatch", kNoMicrobatch, 0, kMaxI32));
        i.stage2 = u16("stage2");
        i.microbatch2 = static_cast<std::int32_t>(o.integer_or("microbatch2", kNoMicrobatch, 0, kMaxI32));
        i.peer = u16("peer");
        i.communicator = u16("communicator");
        i.batch_group = u16("batch_group");
        i.group = u16("group");
        i.duration_class = u16("duration_class");
        i.size_class = u16("size_class");
        i.weight_version = u16("weight_version");
        i.part = static_cast<std::uint32_t>(o.integer_or("part", 0, 0, kMaxU32));
        event.step = static_cast<std::int32_t>(o.integer_or("step", 0, 0, std::max(0, trace.steps - 1)));
        event.index = static_cast<std::uint32_t>(o.integer("index", 0, kMaxU32));
        event.start = o.integer("start_ps", -kMaxTime, kMaxTime);
        event.end = o.integer("end_ps", -kMaxTime, kMaxTime);
        event.arrival = o.integer_or("arrival_ps", event.start, -kMaxTime, kMaxTime);
        if (event.end < event.start) o.error("end_ps", "the event ends before it starts");
        event.waited = o.integer_or("waited_ps", 0, 0, kMaxTime);
        if (event.arrival > event.start) o.error("arrival_ps", "the event starts before it arrives");
        o.finish();
        return event;
    }

    MemorySample read_sample(const Json& json, const Trace& trace, const std::string& pointer) {
        MemorySample sample;
        const JsonObject object(json, pointer, errors_);
        sample.time = object.integer("time_ps", -kMaxTime, kMaxTime);
        const Json& bytes = object.array("bytes");
        for (const Json& value : bytes) {
            const bool legal = value.is_number_integer() && value.get<double>() >= 0 &&
                               value.get<double>() <= static_cast<double>(kMaxBytes);
            if (!legal) complain(object.pointer("bytes"), "not an integer number of bytes");
            sample.bytes.push_back(legal ? value.get<std::int64_t>() : 0);
        }
        if (sample.bytes.size() != trace.memory_categories.size()) {
            object.error("bytes", fmt::format("{} numbers for {} categories", sample.bytes.size(),
                                              trace.memory_categories.size()));
        }
        object.finish();
        return sample;
    }

    Errors& errors_;
};

}  // namespace

void write_trace(const Trace& trace, std::ostream& out) {
    const auto number = [](SimTime time) { return std::to_string(time); };
    out << "{\"schema\":\"trainwright/trace\",\"version\":" << kVersion
        << ",\n\"title\":" << quoted(trace.title) << ",\"origin\":" << quoted(trace.origin)
        << ",\"steps\":" << trace.steps << ",\"step_end_ps\":" << list_text(trace.step_end, number)
        << ",\n\"memory_categories\":" << list_text(trace.memory_categories, quoted)
        << ",\"memory_capacity_bytes\":" << trace.memory_capacity_bytes << ",\"size_class_bytes\":"
        << list_text(trace.size_class_bytes, [](double b) { return fmt::format("{}", b); })
        << ",\"stage_labels\":" << list_text(trace.stage_labels, quoted) << ",\n\"ranks\":[";
    for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
        const RankTrace& rank = trace.ranks[r];
        out << (r > 0 ? ",\n" : "\n") << "{\"rank\":" << rank.rank << ",\"name\":" << quoted(rank.name)
            << ",\"node\":" << quoted(rank.node)
            << ",\"clock_offset_s\":" << fmt::format("{}", rank.clock_offset_s)
            << ",\"clock_uncertainty_s\":" << fmt::format("{}", rank.clock_uncertainty_s);
        if (rank.pipeline_rank >= 0) out << ",\"pipeline_rank\":" << rank.pipeline_rank;
        if (rank.replica != 0) out << ",\"replica\":" << rank.replica;
        if (rank.memory_capacity_bytes > 0)
            out << ",\"memory_capacity_bytes\":" << rank.memory_capacity_bytes;
        out << ",\n\"events\":[";
        for (std::size_t e = 0; e < rank.events.size(); ++e)
            out << (e > 0 ? ",\n" : "\n") << event_text(rank.events[e]);
        out << "],\n\"memory\":[";
        for (std::size_t m = 0; m < rank.memory.size(); ++m) {
            out << (m > 0 ? ",\n" : "\n") << "{\"time_ps\":" << rank.memory[m].time
                << ",\"bytes\":" << list_text(rank.memory[m].bytes, number) << "}";
        }
        out << "]}";
    }
    out << "\n]}\n";
}

Result<Trace> trace_from_json(const Json& json) {
    if (const Status kind = check_document_kind(json, "trace"); !kind) return kind.errors();
    Errors errors;
    Trace trace = TraceReader(errors).read(json);
    if (!errors.empty()) return errors;
    return trace;
}

Result<Trace> read_trace(std::string_view path) {
    const Result<Json> json = read_json_file(path);
    if (!json) return json.errors();
    Result<Trace> trace = trace_from_json(*json);
    if (trace) return trace;
    Errors errors = trace.errors();
    for (Error& error : errors)
        error.context = fmt::format("{}: {}", path, error.context);
    return errors;
}

}  // namespace tw
