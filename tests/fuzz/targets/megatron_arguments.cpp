// Scripts and lists of Megatron-LM's flags, with the shell words they are made of.
#include "tests/fuzz/use_config.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    tw::fuzz::use_config(tw::TargetFramework::Megatron, tw::fuzz::text_of(data, size), "run.sh");
    return 0;
}
