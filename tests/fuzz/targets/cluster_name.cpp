// "h100:64": a preset with a size. Words that name files are another target's (cluster_document).
#include "models/hardware/cluster.hpp"
#include "tests/fuzz/fuzz_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text = tw::fuzz::text_of(data, size);
    if (text.find('/') != std::string_view::npos || text.ends_with(".json")) return 0;
    const auto cluster = tw::load_cluster(text);
    tw::fuzz::require_value_or_refusal(cluster, tw::ErrorCode::Usage);
    if (cluster) tw::fuzz::require(cluster->devices() > 0, "a cluster without devices", text);
    return 0;
}
