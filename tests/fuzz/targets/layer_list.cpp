// trainwright/layer-list documents.
#include "models/formats/layer_list.hpp"

#include "tests/fuzz/use_model.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto model = tw::load_layer_list(tw::fuzz::text_of(data, size), "layers.json");
    tw::fuzz::require_value_or_refusal(model);
    if (model) tw::fuzz::use_model(*model);
    return 0;
}
