#include "sim/memory/peak_formulas.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "plan/stage_program/stage_program.hpp"

namespace tw {
namespace {

// One rank's part of a stage, layer by layer.
class StageWords {
  public:
    StageWords(const LayerGraph& graph, const ParallelPlan& plan, const PlanCost& costs, int s)
        : graph_(graph),
          stage_(plan.stages[static_cast<std::size_t>(s)]),
          shape_(costs.shape(s)),
          segments_(stage_segments(graph, stage_)) {
        const WorkShape& w = shape_.shape;
        tokens_ = w.microbatch * w.seq_len / std::max(1, w.cp);
        columns_ = (w.padded_vocab > 0 ? w.padded_vocab : graph.vocab) / std::max(1, w.tp);
    }

    // What one microbatch leaves from forward to backward.
    [[nodiscard]] std::string held(double all) const {
        std::vector<std::pair<StageSegment, int>> kinds;  // with their layers together
        for (const StageSegment& segment : segments_) {
            const auto same = std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) {
                return kind.first.layer_class == segment.layer_class &&
                       kind.first.recompute == segment.recompute;
            });
            if (same == kinds.end()) {
                kinds.emplace_back(segment, segment.count);
            } else {
                same->second += segment.count;
            }
        }
        std::vector<std::string> terms;
        for (const auto& [segment, count] : kinds) {
            const double bytes = saved_bytes(work(segment), segment.recompute);
            if (bytes <= 0) continue;
            all -= bytes * count;
            const char* again = segment.recompute == RecomputeMode::Full ? "recomputed " : "";
            const std::string name = fmt::format("{}{}", again, role_name(segment));
            terms.push_back(count == 1 ? fmt::format("{} {}{}", name, format_bytes(bytes), tensors(segment))
                                       : fmt::format("{} {}s x {}", count, name, format_bytes(bytes)));
        }
        if (all >= 1) terms.push_back(fmt::format("tokens and targets {}", format_bytes(all)));
        return fmt::format("{}", fmt::join(terms, " + "));
    }

    // The layer that needs most while it runs, beyond what is held: those behind it hold nothing then.
    [[nodiscard]] std::string at_work(bool backward) const {
        double later = 0, most = 0;
        std::string words;
        for (auto segment = segments_.rbegin(); segment != segments_.rend(); ++segment) {
            const LayerWork& w = work(*segment);
            const double own = backward ? w.transient_backward_bytes : w.transient_forward_bytes;
            const double again = backward ? recomputed_bytes(w, segment->recompute) : 0;
            if (own + again - later > most) {
                most = own + again - later;
                words = fmt::format("{} {}", role_name(*segment), size(*segment, own));
                if (again > 0) words += fmt::format(" + recomputed {}", format_bytes(again));
                if (later > 0)
                    words += fmt::format(" - {} that layers behind it do not hold", format_bytes(later));
            }
            later += saved_bytes(w, segment->recompute) * segment->count;
        }
        return words;
    }

  private:
    [[nodiscard]] const LayerWork& work(const StageSegment& segment) const {
        return shape_.works[static_cast<std::size_t>(segment.layer_class)];
    }
    [[nodiscard]] LayerRole role(const StageSegment& segment) const {
        for (int i = stage_.first_layer; i < stage_.last_layer; ++i)
            if (graph_.layer(i).layer_class == segment.layer_class) return graph_.layer(i).role;
        return LayerRole::Other;
    }
    [[nodiscard]] const char* role_name(const StageSegment& segment) const {
        switch (role(segment)) {
            case LayerRole::Embedding:
                return "embedding";
            case LayerRole::Block:
                return "block";
            case LayerRole::Head:
                return "head";
            default:
                return "layer";
        }
    }
    // Bytes of an element where so many bytes are of the rank's logits; 0 where they are of something else.
    [[nodiscard]] int element(const StageSegment& segment, double bytes) const {
        const double elements = static_cast<double>(tokens_) * static_cast<double>(columns_);
        if (role(segment) != LayerRole::Head || elements <= 0 || bytes < elements) return 0;
        const double each = bytes / elements;
        return each <= 16 && std::abs(each - std::round(each)) < 1e-9 ? static_cast<int>(std::lround(each))
                                                                      : 0;
    }
    // " (probs [8192, 16064] fp32)": a head's tensors over the vocabulary.
    [[nodiscard]] std::string tensors(const StageSegment& segment) const {
        std::vector<std::string> large;
        for (const SavedTensor& tensor : work(segment).saved) {
            const int each = element(segment, tensor.bytes);
            if (each == 0) continue;
            const std::string name = tensor.name.substr(tensor.name.rfind('.') + 1);
            const std::string type = each == 4 ? "fp32" : fmt::format("of {} B", each);
            large.push_back(fmt::format("{} [{}, {}] {}", name, tokens_, columns_, type));
        }
        return large.empty() ? "" : fmt::format(" ({})", fmt::join(large, ", "));
    }
    [[nodiscard]] std::string size(const StageSegment& segment, double bytes) const {
        const int each = element(segment, bytes);
        if (each > 0) return fmt::format("{} B x [{}, {}]", each, tokens_, columns_);
        return format_bytes(bytes);
    }

    const LayerGraph& graph_;
    const StageSpec& stage_;
    const ShapeCost& shape_;
    std::vector<StageSegment> segments_;
    std::int64_t tokens_ = 0, columns_ = 0;
};

}  // namespace

std::string activations_formula(const LayerGraph& graph, const ParallelPlan& plan, const PlanCost& costs,
                                const RankMemoryProfile& profile, std::size_t snapshot,
                                const std::vector<StageFootprint>& stages) {
    const std::size_t own = profile.stages.size();
    const std::uint16_t* counts = profile.counts_of(snapshot).data();
    std::vector<std::pair<std::string, int>> held;  // what a microbatch holds, how many of them
    std::vector<std::string> terms;
    for (std::size_t k = 0; k < own; ++k) {
        const StageFootprint& f = stages[profile.stages[k]];
        if (counts[k] == 0 || f.activations <= 0) continue;
        std::string words = f.activations < f.all_activations
                                ? fmt::format("two layers {}, of {} on the host", format_bytes(f.activations),
                                              format_bytes(f.all_activations))
                                : StageWords(graph, plan, costs, profile.stages[k]).held(f.activations);
        const auto same =
            std::find_if(held.begin(), held.end(), [&](const auto& h) { return h.first == words; });
        if (same == held.end()) {
            held.emplace_back(std::move(words), counts[k]);
        } else {
            same->second += counts[k];
        }
    }
    for (const auto& [words, count] : held)
        terms.push_back(fmt::format("{} microbatch{} x ({})", count, count == 1 ? "" : "es", words));
    for (std::size_t k = 0; k < own; ++k) {
        const StageFootprint& f = stages[profile.stages[k]];
        if (counts[own + k] == 0) continue;
        if (f.held_for_weight > 0)
            terms.push_back(fmt::format("{} x {} for weight gradients to come", counts[own + k],
                                        format_bytes(f.held_for_weight)));
        if (f.gradients_for_weight > 0)
            terms.push_back(fmt::format("whole gradients {}", format_bytes(f.gradients_for_weight)));
    }
    return fmt::format("{}", fmt::join(terms, " + "));
}

std::string temporaries_formula(const LayerGraph& graph, const ParallelPlan& plan, const PlanCost& costs,
                                const MemorySnapshot& snapshot) {
    if (plan.offload_activations) return "one layer at work, beside what two layers hold";
    if (costs.shape(0).executor) return "one layer at work, with what is gathered for it and sent from it";
    const auto words = [&](int stage, bool backward) {
        return StageWords(graph, plan, costs, stage).at_work(backward);
    };
    if (snapshot.running == Opcode::OverlapForwardBackward) {
        const std::string forward = words(snapshot.stage, false), backward = words(snapshot.stage2, true);
        return forward.empty() || backward.empty() ? forward + backward : forward + " + " + backward;
    }
    return words(snapshot.stage, snapshot.running != Opcode::Forward);
}

}  // namespace tw
