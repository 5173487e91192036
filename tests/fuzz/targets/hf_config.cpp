// Hugging Face configurations, and any other document that --model takes.
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/use_model.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto model = tw::load_model_text(tw::fuzz::text_of(data, size), "config.json");
    tw::fuzz::require_value_or_refusal(model);
    if (model) tw::fuzz::use_model(*model);
    return 0;
}
