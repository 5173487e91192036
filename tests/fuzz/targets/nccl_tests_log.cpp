// Logs of nccl-tests.
#include "models/formats/nccl_tests.hpp"
#include "tests/fuzz/fuzz_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    tw::fuzz::require_value_or_refusal(tw::parse_nccl_tests(tw::fuzz::text_of(data, size), "nccl.log"));
    return 0;
}
