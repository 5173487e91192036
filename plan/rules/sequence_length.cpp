#include <cmath>

#include <fmt/format.h>

#include "models/families/embedding.hpp"
#include "plan/rules/rule.hpp"

namespace tw {
namespace {

// The model's first input layer; null where layers were measured or listed.
const EmbeddingSpec* embedding_of(const LayerGraph& graph) {
    for (int i = 0; i < graph.size(); ++i) {
        const auto* layer = dynamic_cast<const EmbeddingLayer*>(graph.layer(i).model.get());
        if (layer != nullptr) return &layer->spec();
    }
    return nullptr;
}

// Tokens that a table of learned positions has rows for. RoBERTa's, BART's and OPT's begin with two rows of
// padding (transformers, modeling_roberta.py: padding_idx + 1).
std::int64_t longest_sequence(const LayerGraph& graph, const EmbeddingSpec& spec) {
    constexpr std::int64_t kPaddingRows = 2;
    return spec.position_rows - graph.default_seq_len == kPaddingRows ? graph.default_seq_len
                                                                      : spec.position_rows;
}

}  // namespace

void check_sequence_length(const RuleContext& context, PlanCheck& check) {
    const LayerGraph& graph = context.graph;
    const std::int64_t seq_len = context.plan.seq_len;
    const EmbeddingSpec* spec = embedding_of(graph);
    if (spec == nullptr) return;
    const std::int64_t own = graph.default_seq_len;
    // Dosovitskiy et al. 2021, section 3.1: N = HW / P^2 patches, and a class token.
    if (spec->patch > 0 && seq_len != own) {
        const auto side = std::llround(std::sqrt(static_cast<double>(own - spec->extra_tokens)));
        refuse(
            context, check, PlanKnob::SeqLen,
            fmt::format(
                "seq_len {}, but an image is {} x {} patches and {} more: (image / patch)^2 + {} = {} tokens",
                seq_len, side, side, spec->extra_tokens, spec->extra_tokens, own),
            fmt::format("seq_len {}, or leave it out", own));
        return;
    }
    if (spec->position_rows == 0) return;
    if (const std::int64_t longest = longest_sequence(graph, *spec); seq_len > longest) {
        refuse(context, check, PlanKnob::SeqLen,
               fmt::format("seq_len {} is longer than the {} positions that the model has learned", seq_len,
                           longest),
               fmt::format("seq_len {}, or a model with a longer table of positions", longest));
    }
}

}  // namespace tw
