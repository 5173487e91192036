// accelerate's YAML.
#include "tests/fuzz/use_config.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    tw::fuzz::use_config(tw::TargetFramework::Accelerate, tw::fuzz::text_of(data, size), "config.yaml");
    return 0;
}
