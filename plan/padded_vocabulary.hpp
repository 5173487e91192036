// How many rows a plan pads the model's vocabulary to: another number makes another model, whose losses and
// checkpoints are not the same.
#pragma once

#include <cstdint>
#include <string>

#include "models/graph/layer_graph.hpp"
#include "plan/parallel_plan.hpp"

namespace tw {

// ceil(vocab / (divisor * tp)) * divisor * tp (layer_graph.hpp); 0 where the model has no vocabulary.
[[nodiscard]] inline std::int64_t padded_vocab(const LayerGraph& graph, const ParallelPlan& plan) {
    return graph.vocab > 0 ? padded_vocab(graph.vocab, plan.vocab_divisor, plan.mesh.tp) : 0;
}

// "vocabulary 32002 padded to 32256: 254 dummy rows"; "" where nothing is padded.
[[nodiscard]] inline std::string padding_sentence(const LayerGraph& graph, const ParallelPlan& plan) {
    const std::int64_t padded = padded_vocab(graph, plan), dummy = padded - graph.vocab;
    if (padded == 0 || dummy == 0) return {};
    return "vocabulary " + std::to_string(graph.vocab) + " padded to " + std::to_string(padded) + ": " +
           std::to_string(dummy) + (dummy == 1 ? " dummy row" : " dummy rows");
}

}  // namespace tw
