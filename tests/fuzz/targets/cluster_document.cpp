// trainwright/cluster documents: read, written and read back.
#include "models/hardware/cluster_json.hpp"
#include "tests/fuzz/fuzz_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto json = tw::parse_json(tw::fuzz::text_of(data, size), "cluster.json");
    if (!json) return 0;
    const auto cluster = tw::cluster_from_json(*json, "");
    tw::fuzz::require_value_or_refusal(cluster);
    if (!cluster) return 0;
    tw::fuzz::require(cluster->devices() > 0, "a cluster without devices");
    const tw::Json document = tw::cluster_to_json(*cluster);
    const auto again = tw::cluster_from_json(document, "");
    tw::fuzz::require(again.has_value() && *again == *cluster, "another cluster is read back",
                      document.dump(-1, ' ', false, tw::Json::error_handler_t::replace));
    return 0;
}
