// torchtitan's TOML.
#include "tests/fuzz/use_config.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    tw::fuzz::use_config(tw::TargetFramework::Torchtitan, tw::fuzz::text_of(data, size), "job.toml");
    return 0;
}
