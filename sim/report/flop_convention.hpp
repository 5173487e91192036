// What counts as a model's FLOPs in MFU: papers and frameworks differ, by as much as the whole attention. A
// report is made by the first of these conventions; restate_flops states it by another.
//
//   causal    products of the model, a causal attention's half of its matrices, a window's tokens; times 3
//             for the backward (Megatron-LM's convention without its padding).
//   full      the same, causal attention's matrices whole (Korthikanti et al. 2022, arXiv 2205.05198,
//   appendix A:
//             72 B L s h^2 (1 + s/6h + V/12hL) of GPT's; Narayanan et al. 2021, appendix, less
//             recomputation).
//   megatron  as Megatron-LM's log counts them (training/training.py, num_floating_point_operations): half of
//             every attention matrix, causal or not, windows as if there were none, the padded vocabulary.
//   palm      6 N + 12 L H Q T a token (Chowdhery et al. 2022, arXiv 2204.02311, appendix B): N parameters
//             (of experts those that a token uses), L layers of H heads of Q channels, T tokens a sequence,
//             embeddings counted as products, attention whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "sim/environment.hpp"
#include "sim/report/report.hpp"

namespace tw {

enum class FlopConvention : std::uint8_t { Causal, Full, Megatron, Palm };

const std::vector<std::string>& flop_convention_names();  // "causal", "full", "megatron", "palm"
// Usage error where it is none of them, context "--flops".
Result<FlopConvention> parse_flop_convention(std::string_view name);
// "Megatron: causal attention halved, head included, 3 x forward": for reports.
std::string flop_convention_text(FlopConvention convention, const LayerGraph& graph);

// Usage error where the convention does not count such a model: megatron and palm count tokens, no images.
Status check_flop_convention(FlopConvention convention, const LayerGraph& graph);

// Of one step, forward and backward, all ranks together. Nothing where the convention does not count the
// model.
std::optional<double> step_model_flops(const LayerGraph& graph, const ParallelPlan& plan,
                                       FlopConvention convention);

// The report with its model and hardware FLOPs, MFU, HFU and their warning by another convention than the one
// it was made by. Recomputed attention counts as the convention counts attention. Usage error where the
// convention does not count the model.
Status restate_flops(SimulationReport& report, const Environment& environment, FlopConvention convention);

// "MFU of 82.1 % is outside 5-75 %": predictions outside are suspicious whatever made them; "" inside.
std::string implausible_mfu(double mfu);

}  // namespace tw
