// Strict JSON: what is accepted is written and read back to the same document.
#include "base/json.hpp"

#include "tests/fuzz/fuzz_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto document = tw::parse_json(tw::fuzz::text_of(data, size), "fuzz.json");
    tw::fuzz::require_value_or_refusal(document);
    if (!document) return 0;
    const std::string text = document->dump();
    const auto again = tw::parse_json(text, "again.json");
    tw::fuzz::require(again.has_value(), "what was written is not read", text);
    tw::fuzz::require(*again == *document, "another document is read back", text);
    return 0;
}
