// What --fix takes: read, written and read back.
#include "plan/fix_spec.hpp"

#include "tests/fuzz/fuzz_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto constraints = tw::parse_fix(tw::fuzz::text_of(data, size));
    tw::fuzz::require_value_or_refusal(constraints, tw::ErrorCode::Usage);
    if (!constraints) return 0;
    const std::string text = tw::to_string(*constraints);
    const auto again = tw::parse_fix(text);
    tw::fuzz::require(again.has_value() && *again == *constraints, "other constraints are read back", text);
    return 0;
}
