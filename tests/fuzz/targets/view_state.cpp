// What a session keeps of a timeline, read against a small trace: read, written and read back.
#include "gui/view/view_state_json.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/gui/view/view_fixtures.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const auto model = tw::view_test::model_of(tw::view_test::pipeline_trace());
    const auto json = tw::parse_json(tw::fuzz::text_of(data, size), "view.json");
    if (!json) return 0;
    const auto state = tw::view_state_from_json(*json, *model, "/view");
    tw::fuzz::require_value_or_refusal(state);
    if (!state) return 0;
    const tw::Json written = tw::to_json(*state, *model);
    const auto again = tw::view_state_from_json(written, *model, "/again");
    tw::fuzz::require(again.has_value(), "what was written is not read", written.dump());
    tw::fuzz::require(*again == *state, "what was written reads back as something else", written.dump());
    return 0;
}
