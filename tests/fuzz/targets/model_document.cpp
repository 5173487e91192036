// trainwright/model documents: read, built, written and read back.
#include "models/families/model_config_json.hpp"
#include "models/families/registry.hpp"
#include "tests/fuzz/use_model.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto config = tw::parse_model_config(tw::fuzz::text_of(data, size), "model.json");
    tw::fuzz::require_value_or_refusal(config);
    if (!config) return 0;
    const tw::Json document = tw::model_config_to_json(*config);
    const auto again = tw::model_config_from_json(document);
    tw::fuzz::require(again.has_value() && *again == *config, "another model is read back",
                      document.dump(-1, ' ', false, tw::Json::error_handler_t::replace));
    auto graph = tw::build_model(*config, "");
    tw::fuzz::require_value_or_refusal(graph);
    if (graph) tw::fuzz::use_model({std::move(*graph), {}, *config});
    return 0;
}
