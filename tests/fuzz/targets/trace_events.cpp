// Traces in Chrome's format: what is read is inside the text, whole or in the events before a refusal.
#include "models/formats/trace_events.hpp"

#include "models/formats/json_slice.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace {

struct Visitor : tw::TraceVisitor {
    std::int64_t events = 0;
    void on_event(const tw::ForeignEvent& event) override {
        ++events;
        tw::fuzz::require(event.text.front() == '{' && event.text.back() == '}',
                          "an event without its braces");
        tw::fuzz::require(event.start_ps >= 0 && event.start_ps < 1000, "picoseconds out of range");
        tw::fuzz::require(event.duration_ps >= -1, "a negative duration");
        (void)event.start_since_ps(0);
        (void)tw::json_slice::decoded(event.name);
        tw::json_slice::Members members(event.args);
        while (members.next())
            (void)tw::json_slice::number(members.value());
    }
    void on_member(std::string_view, std::string_view value) override {
        tw::fuzz::require(!value.empty(), "a member without a value");
        (void)tw::json_slice::find(value, "rank");
    }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text = tw::fuzz::text_of(data, size);
    (void)tw::looks_like_trace_events(text);
    Visitor visitor;
    const auto summary = tw::read_trace_events_text(text, "trace.json", visitor);
    tw::fuzz::require_value_or_refusal(summary);
    if (summary)
        tw::fuzz::require(summary->events == visitor.events, "the count is not that of the events seen");
    return 0;
}
