// Chakra execution traces: protobuf's wire format from anybody.
#include "models/formats/chakra.hpp"
#include "tests/fuzz/fuzz_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view bytes = tw::fuzz::text_of(data, size);
    (void)tw::looks_like_chakra(bytes);
    const auto trace = tw::parse_chakra(bytes, "trace.et");
    tw::fuzz::require_value_or_refusal(trace);
    if (trace) tw::fuzz::require(trace->collective_bytes >= 0 && trace->sent_bytes >= 0, "a negative sum");
    // What was read is written and read back.
    const auto nodes = tw::read_chakra(bytes, "trace.et");
    tw::fuzz::require_value_or_refusal(nodes);
    tw::fuzz::require(trace.has_value() == nodes.has_value(), "one reader refuses what the other takes");
    if (!nodes) return 0;
    std::string written = tw::chakra_head();
    for (const tw::ChakraNode& node : *nodes)
        written += tw::chakra_message(node);
    const auto again = tw::read_chakra(written, "again.et");
    tw::fuzz::require(again && *again == *nodes, "nodes do not read back");
    return 0;
}
