// nvidia-smi topo -m.
#include "models/formats/topo_matrix.hpp"

#include "tests/fuzz/fuzz_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    tw::fuzz::require_value_or_refusal(tw::parse_topo_matrix(tw::fuzz::text_of(data, size), "topo.txt"));
    return 0;
}
