#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plan/rules/rule.hpp"
#include "plan/stage_partition.hpp"

namespace tw {
namespace {

// Blocks per virtual stage that give every pipeline rank the same whole number: 80 blocks, pp 16: 1 (vpp 5)
// or 5 (vpp 1).
std::string even_chunks(std::int64_t blocks, int pp, std::int64_t wanted) {
    if (blocks % pp != 0) return {};
    return nearest_legal("layers per virtual stage", divisors(blocks / pp), wanted);
}

// Blocks are split evenly where a plan lists no stages: embedding and head fill none of their own.
std::string most_stages(const LayerGraph& graph) {
    return graph.blocks > 0 ? fmt::format("at most {0} stages for {0} blocks", graph.blocks)
                            : fmt::format("at most {0} stages for {0} layers", graph.size());
}

void check_cover(const RuleContext& context, PlanCheck& check) {
    const ParallelPlan& plan = context.plan;
    const LayerGraph& graph = context.graph;
    int next = 0;
    bool consecutive = true;
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
        const StageSpec& stage = plan.stages[s];
        if (stage.first_layer != next || stage.last_layer < stage.first_layer ||
            stage.last_layer > graph.size()) {
            refuse(context, check, PlanKnob::Stages,
                   fmt::format("stage {} holds layers [{}, {}), expected to begin at {} and to end by {}", s,
                               stage.first_layer, stage.last_layer, next, graph.size()));
            consecutive = false;
        } else if (stage.first_layer == stage.last_layer) {
            refuse(context, check, PlanKnob::Stages, fmt::format("stage {} is empty", s), most_stages(graph));
        }
        next = stage.last_layer;
    }
    if (!consecutive || next == graph.size()) return;
    const std::vector<int> counts = blocks_per_stage(graph, plan.stages);
    std::int64_t sum = 0;
    for (const int count : counts)
        sum += count;
    const std::vector<int> split =
        blocks_per_stage(graph, uniform_partition(graph, plan.stage_count(), RecomputeMode::None));
    std::string hint = fmt::format("a legal split is {}", fmt::join(split, ","));
    const std::string chunks = even_chunks(graph.blocks, plan.mesh.pp, counts.front());
    if (plan.virtual_stages > 1 && !chunks.empty()) hint += "; even splits: " + chunks;
    refuse(context, check, PlanKnob::Stages,
           fmt::format("the stages hold {} of {} blocks ({}) and end at layer {} of {}", sum, graph.blocks,
                       fmt::join(counts, ","), next, graph.size()),
           hint);
}

}  // namespace

void check_layers(const RuleContext& context, PlanCheck& check) {
    const ParallelPlan& plan = context.plan;
    const std::int64_t expected = static_cast<std::int64_t>(plan.mesh.pp) * plan.virtual_stages;
    if (plan.stage_count() != expected) {
        refuse(context, check, PlanKnob::Stages,
               fmt::format("{} stages, expected pp {} * vpp {} = {}", plan.stage_count(), plan.mesh.pp,
                           plan.virtual_stages, expected),
               fmt::format("list {} stages", expected));
    }
    if (!plan.stages.empty()) check_cover(context, check);
}

}  // namespace tw
