// trainwright/scenario documents: read, written and read back.
#include "sim/scenario/scenario_json.hpp"
#include "tests/fuzz/fuzz_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto json = tw::parse_json(tw::fuzz::text_of(data, size), "scenario.json");
    if (!json) return 0;
    const auto scenario = tw::scenario_from_json(*json, "scenario.json");
    tw::fuzz::require_value_or_refusal(scenario);
    if (!scenario) return 0;
    const tw::Json document = tw::scenario_to_json(*scenario);
    tw::fuzz::require(tw::scenario_from_json(document, "again.json").has_value(),
                      "what was written is not read", document.dump());
    return 0;
}
