// Traces in Chrome's format (the Trace Event Format document of Chromium's tracing; written by PyTorch's
// Kineto, by our own exports, and by many others), read event by event in bounded memory:
//
//   {"schemaVersion": 1, "distributedInfo": {"rank": 3}, ..., "traceEvents": [
//     {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1661203462598738.25, "dur": 19,
//     "args": {...}},
//     ...]}
//
// or the array alone, whose closing bracket may be missing. ts and dur are microseconds, whole or not, from
// any epoch; they are kept as integers, since a double cannot hold 1.67e15 us to the nanosecond. Strings are
// slices of the file with their escapes (json_slice::decoded). Control characters in strings pass
// (pytorch#130622).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "models/formats/byte_stream.hpp"

namespace tw {

// Slices hold until the visitor returns.
struct ForeignEvent {
    char phase = '\0';  // 'X' complete, 'B' 'E' begin and end, 'i' instant, 'C' counter, 'M' metadata, 's'
                        // 't' 'f' flow
    std::string_view name, category;
    std::string_view pid, tid, id;  // numbers or text, without quotes; "" where absent
    std::string_view bind_id;       // of a complete event that a flow leaves or reaches; "" where absent
    bool flow_out = false, flow_in = false;  // with bind_id: which of the two
    bool binds_enclosing = false;            // "bp": "e": an 'f' belongs to the slice around it
    bool timed = false;                      // ts is there and readable
    std::int64_t start_ns = 0;               // ts, rounded down
    std::int32_t start_ps = 0;               // what is beyond it, 0 to 999
    std::int64_t duration_ps = -1;           // dur; -1 where absent
    std::string_view args;                   // the object with its braces; "" where absent
    std::string_view text;                   // all of the event
    std::int64_t offset = 0;                 // of its first byte in the uncompressed file

    // Since an instant; saturates at 106 days.
    [[nodiscard]] std::int64_t start_since_ps(std::int64_t origin_ns) const;
};

class TraceVisitor {
  public:
    virtual ~TraceVisitor() = default;
    virtual void on_event(const ForeignEvent& event) = 0;
    // Members of the document beside traceEvents ("distributedInfo"), before or behind it. The value is JSON
    // text.
    virtual void on_member(std::string_view /*key*/, std::string_view /*value*/) {}
};

struct TraceReadOptions {
    // Called about every 4 MB with the bytes of the file that were read and its size (0: unknown); false
    // stops.
    std::function<bool(std::int64_t read, std::int64_t size)> progress;
};

struct TraceReadSummary {
    std::int64_t events = 0;   // that the visitor saw
    std::int64_t untimed = 0;  // of these: no readable ts though their phase needs one
    std::int64_t bytes = 0;    // uncompressed
    bool truncated = false;    // the file ends before its array does
    std::vector<std::string> warnings;
};

// Errors: Unreadable (no such array; text between events that is none, with its byte; damaged compression
// before the first event), Interrupted where progress returned false. What the visitor saw before stays seen.
Result<TraceReadSummary> read_trace_events(const std::filesystem::path& path, TraceVisitor& visitor,
                                           const TraceReadOptions& options = {});
Result<TraceReadSummary> read_trace_events_text(std::string_view text, std::string_view name,
                                                TraceVisitor& visitor, const TraceReadOptions& options = {});
Result<TraceReadSummary> read_trace_events_stream(ByteStream& stream, std::string_view name,
                                                  TraceVisitor& visitor,
                                                  const TraceReadOptions& options = {});

// From the beginning of a document (64 KB are enough): an object with traceEvents or Kineto's members before
// it, or an array of objects with "ph".
bool looks_like_trace_events(std::string_view head);

// Microseconds in decimal, possibly with exponent or in quotes, as whole picoseconds or nanoseconds; false
// where it is no number or out of range.
bool parse_trace_time(std::string_view text, std::int64_t& ns, std::int32_t& ps);

}  // namespace tw
