// Lowered schedules as text: read, proven, written and read back.
#include "plan/schedule/check.hpp"
#include "plan/schedule/text.hpp"
#include "tests/fuzz/fuzz_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto schedule = tw::parse_schedule(tw::fuzz::text_of(data, size));
    if (!schedule) {
        for (const tw::Error& error : schedule.errors())
            tw::fuzz::require(!error.message.empty(), "an error without a message");
        return 0;
    }
    (void)tw::check_schedule(*schedule);
    const std::string text = tw::format_schedule(*schedule);
    const auto again = tw::parse_schedule(text);
    tw::fuzz::require(again.has_value(), "what was written is not read", text);
    tw::fuzz::require(tw::format_schedule(*again) == text, "another schedule is read back", text);
    return 0;
}
