#include "models/formats/trace_events.hpp"

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "models/formats/json_slice.hpp"
#include "models/formats/text_lines.hpp"

namespace tw {
namespace {

using json_slice::skip_blanks;
using json_slice::skip_value;

constexpr std::size_t kNone = std::string_view::npos;
constexpr std::int64_t kProgressBytes = std::int64_t{4} << 20;
constexpr std::size_t kLongestValue = std::size_t{256} << 20;  // of one event or member of a compressed file
constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

// Microseconds with an exponent or more digits than an integer holds.
bool parse_wide_time(std::string_view text, std::int64_t& ns, std::int32_t& ps) {
    double us = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), us);
    if (error != std::errc() || end != text.data() + text.size() || !(std::fabs(us) < 9e15)) return false;
    const double whole = std::floor(us * 1e3);
    ns = static_cast<std::int64_t>(whole);
    ps = static_cast<std::int32_t>(std::min(999.0, std::max(0.0, std::floor((us * 1e3 - whole) * 1e3))));
    return true;
}

// A duration: at most 106 days.
std::int64_t parse_duration(std::string_view text) {
    std::int64_t ns = 0;
    std::int32_t ps = 0;
    if (!parse_trace_time(text, ns, ps) || ns < 0) return -1;
    if (ns > kLargest / 1000 - 1) return kLargest;
    return ns * 1000 + ps;
}

// The members that every event has are told apart by length and first letter.
void set_member(ForeignEvent& event, std::string_view key, std::string_view value) {
    using json_slice::unquoted;
    switch (key.size()) {
        case 2:
            if (key == "ph") {
                const auto phase = unquoted(value);
                event.phase = phase.empty() ? '\0' : phase[0];
            } else if (key == "ts") {
                event.timed = parse_trace_time(unquoted(value), event.start_ns, event.start_ps);
            } else if (key == "id") {
                event.id = unquoted(value);
            } else if (key == "bp") {
                event.binds_enclosing = unquoted(value) == "e";
            }
            break;
        case 3:
            if (key == "dur") {
                event.duration_ps = parse_duration(unquoted(value));
            } else if (key == "pid") {
                event.pid = unquoted(value);
            } else if (key == "tid") {
                event.tid = unquoted(value);
            } else if (key == "cat") {
                event.category = unquoted(value);
            }
            break;
        case 4:
            if (key == "name") {
                event.name = unquoted(value);
            } else if (key == "args" && value.front() == '{') {
                event.args = value;
            }
            break;
        case 7:
            if (key == "bind_id") {
                event.bind_id = unquoted(value);
            } else if (key == "flow_in") {
                event.flow_in = value == "true";
            }
            break;
        case 8:
            if (key == "flow_out") event.flow_out = value == "true";
            break;
        default:
            break;
    }
}

enum class Found { Yes, Incomplete, Wrong };

// The event whose brace is text[0]; `end` is behind it.
Found parse_event(std::string_view text, ForeignEvent& event, std::size_t& end) {
    std::size_t at = 1;
    for (;;) {
        at = skip_blanks(text, at);
        if (at < text.size() && text[at] == ',') at = skip_blanks(text, at + 1);
        if (at >= text.size()) return Found::Incomplete;
        if (text[at] == '}') {
            end = at + 1;
            event.text = text.substr(0, end);
            return Found::Yes;
        }
        if (text[at] != '"') return Found::Wrong;
        const std::size_t key_end = skip_value(text, at);
        if (key_end == kNone) return Found::Incomplete;
        const std::string_view key = text.substr(at + 1, key_end - at - 2);
        at = skip_blanks(text, key_end);
        if (at >= text.size()) return Found::Incomplete;
        if (text[at] != ':') return Found::Wrong;
        at = skip_blanks(text, at + 1);
        const std::size_t value_end = skip_value(text, at);
        if (value_end == kNone) return Found::Incomplete;
        if (value_end == at) return Found::Wrong;
        set_member(event, key, text.substr(at, value_end - at));
        at = value_end;
    }
}

bool needs_time(char phase) {
    return phase != 'M' && phase != '\0' && phase != 'c';
}

class Reader {
  public:
    Reader(ByteStream& stream, std::string_view name, TraceVisitor& visitor, const TraceReadOptions& options)
        : stream_(stream), name_(name), visitor_(visitor), options_(options) {}

    Result<TraceReadSummary> read() {
        const auto first = peek();
        if (stream_.window().starts_with("\xef\xbb\xbf")) stream_.consume(3);
        const auto open = first == '\xef' ? peek() : first;
        if (open == '[') {
            stream_.consume(1);
            found_array_ = true;
            read_events();
        } else if (open == '{') {
            stream_.consume(1);
            read_members();
        } else if (open) {
            fail("is no trace: it begins with neither { nor [");
        }
        return finish();
    }

  private:
    // The next character that is no blank, which becomes the window's first; nothing at the end of the file.
    std::optional<char> peek() {
        for (;;) {
            const std::string_view window = stream_.window();
            const std::size_t at = skip_blanks(window, 0);
            stream_.consume(at);
            if (at < window.size()) return window[at];
            if (!stream_.grow()) return std::nullopt;
        }
    }

    // The value that begins at the window's first byte: nothing where the file ends inside it, "" where there
    // is none.
    std::optional<std::string_view> whole_value() {
        for (;;) {
            const std::string_view window = stream_.window();
            const std::size_t end = skip_value(window, 0);
            if (end != kNone) return window.substr(0, end);
            if (window.size() > kLongestValue || !stream_.grow()) return std::nullopt;
        }
    }

    void read_members() {
        for (;;) {
            auto next = peek();
            if (next == ',') {
                stream_.consume(1);
                next = peek();
            }
            if (!next) return truncate();
            if (next == '}') return;
            if (next != '"') return fail("a member's name is expected");
            const auto quoted = whole_value();
            if (!quoted) return truncate();
            const std::string key(json_slice::unquoted(*quoted));
            stream_.consume(quoted->size());
            next = peek();
            if (!next) return truncate();
            if (next != ':') return fail("a colon is expected behind " + quote(key));
            stream_.consume(1);
            next = peek();
            if (!next) return truncate();
            if (key == "traceEvents" && next == '[') {
                found_array_ = true;
                stream_.consume(1);
                read_events();
                if (stopped_ || summary_.truncated) return;
                continue;
            }
            const auto value = whole_value();
            if (!value) return truncate();
            if (value->empty()) return fail("a value is expected behind " + quote(key));
            visitor_.on_member(key, *value);
            stream_.consume(value->size());
            if (!report_progress()) return;
        }
    }

    void read_events() {
        for (;;) {
            auto next = peek();
            if (next == ',') {
                stream_.consume(1);
                next = peek();
            }
            if (!next) return truncate();
            if (next == ']') {
                stream_.consume(1);
                return;
            }
            if (next != '{') return fail("an event is expected");
            if (!read_event() || !report_progress()) return;
        }
    }

    bool read_event() {
        for (;;) {
            ForeignEvent event;
            std::size_t end = 0;
            const std::string_view window = stream_.window();
            const Found found = parse_event(window, event, end);
            if (found == Found::Wrong) {
                fail("an event that is no JSON object");
                return false;
            }
            if (found == Found::Incomplete) {
                if (window.size() < kLongestValue && stream_.grow()) continue;
                truncate();
                return false;
            }
            event.offset = stream_.offset();
            if (!event.timed && needs_time(event.phase)) ++summary_.untimed;
            ++summary_.events;
            visitor_.on_event(event);
            stream_.consume(end);
            return true;
        }
    }

    bool report_progress() {
        if (!options_.progress || stream_.offset() < next_progress_) return true;
        next_progress_ = stream_.offset() + kProgressBytes;
        if (options_.progress(stream_.bytes_read(), stream_.file_bytes())) return true;
        error_ = Error{ErrorCode::Interrupted, "reading was stopped", name_, ""};
        stopped_ = true;
        return false;
    }

    void truncate() { summary_.truncated = true; }

    void fail(const std::string& why) {
        stopped_ = true;
        error_ = Error{ErrorCode::Unreadable, why + ", found " + quote(stream_.window().substr(0, 30), 30),
                       name_ + ": byte " + std::to_string(stream_.offset()),
                       summary_.events > 0
                           ? "did several ranks write into one file? each rank needs a file of its own"
                           : ""};
    }

    Result<TraceReadSummary> finish() {
        if (error_) return *error_;
        summary_.bytes = stream_.offset();
        const std::string failure(stream_.failure());
        if (!found_array_) {
            return Error{ErrorCode::Unreadable, failure.empty() ? "no traceEvents" : failure, name_,
                         "a trace is {\"traceEvents\": [...]} or an array of events"};
        }
        if (!failure.empty()) {
            if (summary_.events == 0) return Error{ErrorCode::Unreadable, failure, name_, ""};
            summary_.warnings.push_back(failure);
        } else if (summary_.truncated) {
            summary_.warnings.push_back(
                "the file ends before its list of events does: the run that wrote it ended early, "
                "or the copy is cut; what is there was read");
        }
        if (summary_.untimed > 0)
            summary_.warnings.push_back(std::to_string(summary_.untimed) + " events without a readable ts");
        return std::move(summary_);
    }

    ByteStream& stream_;
    std::string name_;
    TraceVisitor& visitor_;
    const TraceReadOptions& options_;
    TraceReadSummary summary_;
    std::optional<Error> error_;
    std::int64_t next_progress_ = 0;
    bool found_array_ = false, stopped_ = false;
};

}  // namespace

bool parse_trace_time(std::string_view text, std::int64_t& ns, std::int32_t& ps) {
    std::size_t at = 0;
    const bool negative = !text.empty() && text[0] == '-';
    if (negative) ++at;
    std::int64_t whole = 0;
    const std::size_t first = at;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
        if (at - first >= 16) return parse_wide_time(text, ns, ps);
        whole = 10 * whole + (text[at] - '0');
    }
    if (at == first) return false;
    if (whole > 9'000'000'000'000'000) return false;
    std::int64_t fraction = 0;  // picoseconds
    if (at < text.size() && text[at] == '.') {
        std::int64_t digit_worth = 100'000;
        for (++at; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
            fraction += digit_worth * (text[at] - '0');
            digit_worth /= 10;
        }
    }
    if (at != text.size()) return parse_wide_time(text, ns, ps);
    if (negative && fraction > 0) {
        ns = -whole * 1000 - (fraction + 999) / 1000;
        ps = static_cast<std::int32_t>((1000 - fraction % 1000) % 1000);
    } else {
        ns = (negative ? -whole : whole) * 1000 + fraction / 1000;
        ps = static_cast<std::int32_t>(fraction % 1000);
    }
    return true;
}

std::int64_t ForeignEvent::start_since_ps(std::int64_t origin_ns) const {
    constexpr std::int64_t kMost = kLargest / 1000 - 1;
    std::int64_t ns = 0;
    if (__builtin_sub_overflow(start_ns, origin_ns, &ns)) return start_ns > 0 ? kLargest : -kLargest;
    if (ns > kMost) return kLargest;
    if (ns < -kMost) return -kLargest;
    return ns * 1000 + start_ps;
}

bool looks_like_trace_events(std::string_view head) {
    head = head.substr(0, std::size_t{1} << 16);
    if (head.starts_with("\xef\xbb\xbf")) head.remove_prefix(3);
    const std::size_t at = skip_blanks(head, 0);
    if (at >= head.size()) return false;
    if (head[at] == '[') {
        const std::size_t event = skip_blanks(head, at + 1);
        if (event >= head.size() || head[event] != '{') return false;
        const std::size_t end = skip_value(head, event);
        return !json_slice::find(head.substr(event, end == kNone ? kNone : end - event), "ph").empty();
    }
    if (head[at] != '{') return false;
    json_slice::Members members(head.substr(at));
    bool kineto = false;
    while (members.next()) {
        if (members.key() == "traceEvents") return members.value().starts_with('[');
        if (members.key() == "schemaVersion" || members.key() == "deviceProperties" ||
            members.key() == "distributedInfo" || members.key() == "displayTimeUnit")
            kineto = true;
        if (members.key() == "schema") return false;
    }
    // The list of events, or of the ranks of a process group, is longer than the head.
    return head.find("\"traceEvents\"") != kNone || kineto;
}

Result<TraceReadSummary> read_trace_events_stream(ByteStream& stream, std::string_view name,
                                                  TraceVisitor& visitor, const TraceReadOptions& options) {
    return Reader(stream, name, visitor, options).read();
}

Result<TraceReadSummary> read_trace_events_text(std::string_view text, std::string_view name,
                                                TraceVisitor& visitor, const TraceReadOptions& options) {
    ByteStream stream = ByteStream::over(text);
    return read_trace_events_stream(stream, name, visitor, options);
}

Result<TraceReadSummary> read_trace_events(const std::filesystem::path& path, TraceVisitor& visitor,
                                           const TraceReadOptions& options) {
    auto stream = ByteStream::open(path);
    if (!stream) return stream.errors();
    return read_trace_events_stream(*stream, path.string(), visitor, options);
}

}  // namespace tw
