#include "plan/trace/chrome.hpp"

#include <algorithm>
#include <map>
#include <ostream>

#include <fmt/format.h>

#include "plan/trace/analyze.hpp"

namespace tw {
namespace {

std::string json_string(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (static_cast<unsigned char>(c) < 0x20) {
            out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
            out += c;
        }
    }
    return out + "\"";
}

// Microseconds, exactly: 1234567 ps is "1.234567".
std::string microseconds(SimTime time) {
    const SimTime magnitude = time < 0 ? -time : time;
    std::string out = fmt::format("{}{}", time < 0 ? "-" : "", magnitude / 1'000'000);
    if (const SimTime rest = magnitude % 1'000'000; rest != 0) {
        std::string digits = fmt::format("{:06}", rest);
        digits.erase(digits.find_last_not_of('0') + 1);
        out += '.' + digits;
    }
    return out;
}

// Thread numbers: the streams in their order, communicators within.
int thread_of(const Instruction& i) {
    return static_cast<int>(i.stream) * 65536 + i.communicator;
}

class ChromeWriter {
  public:
    ChromeWriter(const Trace& trace, std::ostream& out)
        : trace_(trace), out_(out), rendezvous_(match_rendezvous(trace)) {
        SimTime first = kNever;
        for (const RankTrace& rank : trace.ranks) {
            shifts_.push_back(to_sim_time(Seconds(rank.clock_offset_s)));
            for (const TraceEvent& event : rank.events)
                first = std::min(first, event.start + shifts_.back());
        }
        if (first == kNever) first = 0;
        for (SimTime& shift : shifts_)
            shift -= first;
        first_ = first;
    }

    void write() {
        out_ << "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"title\":" << json_string(trace_.title)
             << ",\"origin\":" << json_string(trace_.origin) << "},\n\"traceEvents\":[";
        for (std::size_t r = 0; r < trace_.ranks.size(); ++r)
            write_rank(r);
        const std::vector<SimTime> ends = step_ends(trace_);
        for (std::size_t s = 0; s < ends.size(); ++s) {
            emit(fmt::format(
                "{{\"ph\":\"i\",\"s\":\"g\",\"name\":\"end of step {}\",\"pid\":{},\"tid\":0,\"ts\":{}}}", s,
                trace_.ranks.empty() ? 0 : trace_.ranks.front().rank, microseconds(ends[s] - first_)));
        }
        out_ << "\n]}\n";
    }

  private:
    void emit(const std::string& event) {
        out_ << (any_ ? ",\n" : "\n") << event;
        any_ = true;
    }

    void write_rank(std::size_t r) {
        const RankTrace& rank = trace_.ranks[r];
        std::string name = rank.name.empty() ? fmt::format("rank {}", rank.rank) : rank.name;
        if (!rank.node.empty()) name += " @ " + rank.node;
        emit(fmt::format("{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{},\"args\":{{\"name\":{}}}}}",
                         rank.rank, json_string(name)));
        emit(fmt::format(
            "{{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":{},\"args\":{{\"sort_index\":{}}}}}",
            rank.rank, r));
        std::map<int, std::string> threads;
        for (const TraceEvent& event : rank.events) {
            const Instruction& i = event.instruction;
            threads.emplace(thread_of(i), lane_name(i.stream, i.communicator));
        }
        for (const auto& [thread, lane] : threads) {
            emit(fmt::format(
                "{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":{}}}}}",
                rank.rank, thread, json_string(lane)));
            emit(
                fmt::format("{{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":{},\"tid\":{},\"args\":{{"
                            "\"sort_index\":{}}}}}",
                            rank.rank, thread, thread));
        }
        for (std::uint32_t e = 0; e < rank.events.size(); ++e)
            write_event(r, e);
        for (const MemorySample& sample : rank.memory)
            write_memory(r, sample);
    }

    void write_event(std::size_t r, std::uint32_t e) {
        const RankTrace& rank = trace_.ranks[r];
        const TraceEvent& event = rank.events[e];
        const Instruction& i = event.instruction;
        std::string args =
            fmt::format("\"step\":{},\"index\":{},\"stage\":{}", event.step, event.index, i.stage);
        if (i.microbatch != kNoMicrobatch) args += fmt::format(",\"microbatch\":{}", i.microbatch);
        if (i.opcode == Opcode::OverlapForwardBackward) {
            args += fmt::format(",\"stage2\":{},\"microbatch2\":{}", i.stage2, i.microbatch2);
        }
        if (i.stage < trace_.stage_labels.size())
            args += ",\"layers\":" + json_string(trace_.stage_labels[i.stage]);
        if (is_transfer(i.opcode)) args += fmt::format(",\"peer\":{}", i.peer);
        if (is_collective(i.opcode)) args += fmt::format(",\"group\":{},\"part\":{}", i.group, i.part);
        if (i.size_class > 0 && i.size_class < trace_.size_class_bytes.size() &&
            trace_.size_class_bytes[i.size_class] > 0) {
            args += fmt::format(",\"bytes\":{}", trace_.size_class_bytes[i.size_class]);
        }
        if (i.weight_version > 0) args += fmt::format(",\"weight_version\":{}", i.weight_version);
        if (event.start > event.arrival)
            args += fmt::format(",\"waited_us\":{}", microseconds(event.start - event.arrival));
        const std::string start = microseconds(event.start + shifts_[r]);
        emit(
            fmt::format("{{\"ph\":\"X\",\"name\":{},\"cat\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{}"
                        ",\"args\":{{{}}}}}",
                        json_string(event_name(i)), short_name(work_of(i)), rank.rank, thread_of(i), start,
                        microseconds(event.end - event.start), args));
        const std::uint32_t meeting = rendezvous_.meeting_of[r][e];
        if (is_transfer(i.opcode) && meeting != Rendezvous::kNone) {
            emit(
                fmt::format("{{\"ph\":\"{}\",\"id\":{},\"name\":\"transfer\",\"cat\":\"flow\",\"pid\":{},"
                            "\"tid\":{},\"ts\":{}{}}}",
                            is_send(i.opcode) ? "s" : "f", meeting, rank.rank, thread_of(i), start,
                            is_send(i.opcode) ? "" : ",\"bp\":\"e\""));
        }
    }

    void write_memory(std::size_t r, const MemorySample& sample) {
        std::string args;
        for (std::size_t c = 0; c < sample.bytes.size() && c < trace_.memory_categories.size(); ++c) {
            args += fmt::format("{}{}:{}", c > 0 ? "," : "", json_string(trace_.memory_categories[c]),
                                sample.bytes[c]);
        }
        emit(fmt::format(
            "{{\"ph\":\"C\",\"name\":\"memory (bytes)\",\"pid\":{},\"tid\":0,\"ts\":{},\"args\":{{{}}}}}",
            trace_.ranks[r].rank, microseconds(sample.time + shifts_[r]), args));
    }

    const Trace& trace_;
    std::ostream& out_;
    Rendezvous rendezvous_;
    std::vector<SimTime> shifts_;
    SimTime first_ = 0;
    bool any_ = false;
};

}  // namespace

void write_chrome_trace(const Trace& trace, std::ostream& out) {
    ChromeWriter(trace, out).write();
}

}  // namespace tw
