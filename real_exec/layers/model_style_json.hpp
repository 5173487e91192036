// What a model's own document says of its arithmetic beyond the sizes: epsilon of norms, base of the rotary
// angles, form of GELU, deviation of initial weights. Keys are those of Hugging Face configurations; a
// document that does not state one, and every other kind of document, has the family's value
// (model_style.hpp).
#pragma once

#include "base/json.hpp"
#include "real_exec/layers/model_style.hpp"

namespace tw {

ModelStyle style_of(const LayerGraph& graph, const Json& model_document);

// What of such a document the layers compute otherwise; empty: nothing. `trained`: weights come from
// elsewhere, so that scaled rotary angles are wrong, and not only another model.
Errors unsupported_style(const Json& model_document, bool trained);

}  // namespace tw
