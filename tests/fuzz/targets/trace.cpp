// trainwright/trace documents: read, written and read back, analysed, compared and drawn.
#include <sstream>

#include "plan/trace/analyze.hpp"
#include "plan/trace/ascii_timeline.hpp"
#include "plan/trace/chrome.hpp"
#include "plan/trace/compare.hpp"
#include "plan/trace/svg_timeline.hpp"
#include "plan/trace/trace_json.hpp"
#include "tests/fuzz/fuzz_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto json = tw::parse_json(tw::fuzz::text_of(data, size), "trace.json");
    if (!json) return 0;
    const auto trace = tw::trace_from_json(*json);
    tw::fuzz::require_value_or_refusal(trace);
    if (!trace) return 0;
    std::ostringstream text, chrome;
    tw::write_trace(*trace, text);
    const auto written = tw::parse_json(text.str(), "again.json");
    tw::fuzz::require(written.has_value(), "what was written is no JSON document", text.str());
    tw::fuzz::require(tw::trace_from_json(*written).has_value(), "what was written is not read", text.str());
    (void)tw::analyze(*trace);
    (void)tw::error_table(tw::compare_traces(*trace, *trace));
    (void)tw::ascii_timeline(*trace);
    (void)tw::render_svg(*trace);
    tw::write_chrome_trace(*trace, chrome);
    tw::fuzz::require(tw::parse_json(chrome.str(), "chrome.json").has_value(),
                      "the Chrome trace is no JSON document", chrome.str());
    return 0;
}
