// NCCL_TOPO_DUMP_FILE.
#include "models/formats/nccl_xml.hpp"
#include "tests/fuzz/fuzz_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    tw::fuzz::require_value_or_refusal(tw::parse_nccl_topology(tw::fuzz::text_of(data, size), "topo.xml"));
    return 0;
}
