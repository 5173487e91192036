// trainwright/session documents: read, written and read back.
#include "gui/app/session_json.hpp"
#include "tests/fuzz/fuzz_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto session = tw::gui::session_from_text(tw::fuzz::text_of(data, size), "session.json");
    if (!session) {
        for (const tw::Error& error : session.errors())
            tw::fuzz::require(!error.message.empty(), "an error without a message");
        return 0;
    }
    const std::string text = tw::gui::session_to_text(*session);
    const auto again = tw::gui::session_from_text(text, "again.json");
    tw::fuzz::require(again.has_value(), "what was written is not read", text);
    tw::fuzz::require(tw::gui::session_to_text(*again) == text, "a session changes by being read", text);
    return 0;
}
