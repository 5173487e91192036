// PipeDream's profile graphs.
#include "models/formats/pipedream_graph.hpp"

#include "tests/fuzz/use_model.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text = tw::fuzz::text_of(data, size);
    (void)tw::looks_like_pipedream_graph(text);
    const auto model = tw::load_pipedream_graph(text, "graph.txt");
    tw::fuzz::require_value_or_refusal(model);
    if (model) tw::fuzz::use_model(*model);
    return 0;
}
