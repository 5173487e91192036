// trainwright/profile documents; the times of a profile that was accepted are finite.
#include <cmath>

#include "base/json.hpp"
#include "models/hardware/profile.hpp"
#include "models/hardware/profile_json.hpp"
#include "tests/fuzz/fuzz_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto json = tw::parse_json(tw::fuzz::text_of(data, size), "profile.json");
    if (!json) return 0;
    const auto profile = tw::decode_profile(*json, "profile.json");
    tw::fuzz::require_value_or_refusal(profile);
    if (!profile) return 0;
    const tw::Json document = tw::encode_profile(*profile);
    const auto again = tw::decode_profile(document, "again.json");
    tw::fuzz::require(again.has_value(), "what was written is not read",
                      document.dump(-1, ' ', false, tw::Json::error_handler_t::replace));
    for (const double bytes : {1.0, 1e6, 1e12}) {
        const auto estimate = tw::measured_collective(*profile, tw::CollectiveKind::AllReduce, 8, bytes);
        if (estimate) tw::fuzz::require(std::isfinite(estimate->seconds), "a time that is not finite");
    }
    return 0;
}
