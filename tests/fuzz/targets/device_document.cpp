// trainwright/device documents: read, written and read back.
#include "models/hardware/cluster_json.hpp"
#include "tests/fuzz/fuzz_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto json = tw::parse_json(tw::fuzz::text_of(data, size), "device.json");
    if (!json) return 0;
    (void)tw::device_from_json(*json, "", false);
    const auto device = tw::device_from_json(*json, "", true);
    tw::fuzz::require_value_or_refusal(device);
    if (!device) return 0;
    const tw::Json document = tw::device_to_json(*device);
    const auto again = tw::device_from_json(document, "", true);
    tw::fuzz::require(again.has_value() && *again == *device, "another device is read back",
                      document.dump(-1, ' ', false, tw::Json::error_handler_t::replace));
    return 0;
}
