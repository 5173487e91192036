// "12.5ms", "80 GiB": what is accepted is finite.
#include <cmath>

#include "base/si_format.hpp"
#include "tests/fuzz/fuzz_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text = tw::fuzz::text_of(data, size);
    for (const auto parse : {tw::parse_duration, tw::parse_bytes}) {
        const auto value = parse(text);
        if (!value) {
            tw::fuzz::require(!value.error().message.empty(), "an error without a message", text);
            continue;
        }
        tw::fuzz::require(std::isfinite(*value), "a value that is not finite", text);
        (void)tw::format_duration(*value);
        (void)tw::format_bytes(*value);
    }
    return 0;
}
