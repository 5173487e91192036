// trainwright/layer-list: a convolutional network as the list of its layers, in execution order.
//
//   {"schema": "trainwright/layer-list", "version": 1, "name": "tiny", "source": "who says so",
//    "input": {"channels": 3, "height": 32, "width": 32}, "parameters": 1234,
//    "layers": [
//      {"name": "conv1", "type": "conv", "out_channels": 16, "kernel": 3, "stride": 1, "padding": 1, "bias":
//      false},
//      {"name": "bn1", "type": "norm"}, {"name": "relu1", "type": "activation"},
//      {"name": "pool", "type": "pool", "kind": "max", "kernel": 2},
//      {"name": "flat", "type": "flatten"}, {"name": "fc", "type": "linear", "out_features": 10}]}
//
// Every layer reads the one before it unless "inputs" names others ("input" is the images). "block" joins
// consecutive layers into a unit that no pipeline cut separates. By type (defaults in brackets):
//   conv        out_channels, kernel (n or [h, w]), stride [1], padding [0] (n or [h, w]), groups [1], bias
//   [true] linear      out_features, bias [true] pool        kind "max" | "average" | "global-average"
//   ["max"], kernel, stride [kernel], padding [0] norm        kind "batch" [batch] activation  kind "relu" |
//   "sigmoid" | "tanh" | "gelu" | "silu" ["relu"] add, concat inputs (two or more) dropout     p [0.5]
//   flatten
// "parameters", where given, is the published count and must equal the sum.
#pragma once

#include <string_view>

#include "base/json.hpp"
#include "models/families/cnn_network.hpp"
#include "models/load_model.hpp"

namespace tw {

// Errors: Unreadable with JSON pointers, all at once; unknown keys and types suggest the nearest.
Result<CnnNetwork> parse_layer_list(std::string_view text, std::string_view name);
Result<LoadedModel> load_layer_list(std::string_view text, std::string_view name);
// The same for a document that is parsed already; `name` is the graph's where the document has none.
Result<LoadedModel> layer_list_from_json(const Json& document, std::string_view name);

}  // namespace tw
