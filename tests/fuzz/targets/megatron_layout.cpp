// Megatron-LM's --pipeline-model-parallel-layout; what export writes is read back.
#include "plan/frameworks/export/export_plan.hpp"
#include "plan/frameworks/import/import_config.hpp"
#include "tests/fuzz/fuzz_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto layout = tw::parse_megatron_layout(tw::fuzz::text_of(data, size));
    tw::fuzz::require_value_or_refusal(layout);
    if (!layout) return 0;
    const std::string written = tw::megatron_layout(layout->blocks, layout->mtp);
    const auto again = tw::parse_megatron_layout(written);
    tw::fuzz::require(again && again->blocks == layout->blocks && again->mtp == layout->mtp,
                      "another layout is read back", written);
    return 0;
}
