#include "gui/view/trace_model_builder.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.hpp"
#include "gui/view/lane_filler.hpp"

namespace tw {

std::shared_ptr<const TraceModel> TraceModelBuilder::build(std::shared_ptr<const Trace> trace) {
    TW_CHECK(trace != nullptr);
    auto model = std::make_shared<TraceModel>();
    model->source_ = trace;
    model->title_ = trace->title;
    model->origin_ = trace->origin;
    model->step_ends_ = trace->step_end;
    model->memory_categories_ = trace->memory_categories;
    model->memory_capacity_ = trace->memory_capacity_bytes;
    // Nodes in the order of their first rank; a node's ranks together.
    std::vector<std::uint32_t> order(trace->ranks.size());
    std::map<std::string_view, std::uint32_t> node_of;
    for (std::uint32_t r = 0; r < trace->ranks.size(); ++r) {
        order[r] = r;
        if (node_of.emplace(trace->ranks[r].node, node_of.size()).second)
            model->nodes_.push_back({trace->ranks[r].node, 0, 0});
    }
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
        return node_of.at(trace->ranks[a].node) < node_of.at(trace->ranks[b].node);
    });
    Filler filler{*model, {}, {}, {}};
    std::size_t count = 0;
    for (const RankTrace& rank : trace->ranks)
        count += rank.events.size();
    filler.reserve(count);
    model->rank_of_source_.resize(order.size());
    for (const std::uint32_t source : order) {
        const RankTrace& from = trace->ranks[source];
        const auto index = static_cast<std::uint32_t>(model->ranks_.size());
        model->rank_of_source_[source] = index;
        ModelRank rank;
        rank.rank = from.rank;
        rank.name = from.name.empty() ? fmt::format("rank {}", from.rank) : from.name;
        rank.node = node_of.at(from.node);
        rank.source = source;
        rank.lane_begin = static_cast<std::uint32_t>(model->lanes_.size());
        ModelNode& node = model->nodes_[rank.node];
        if (node.rank_begin == node.rank_end) node.rank_begin = index;
        node.rank_end = index + 1;
        // One pass for the lanes' sizes, one for their tasks.
        std::map<std::pair<Stream, std::uint16_t>, std::vector<std::uint32_t>> lanes;
        for (std::uint32_t e = 0; e < from.events.size(); ++e) {
            const Instruction& i = from.events[e].instruction;
            lanes[{i.stream, i.communicator}].push_back(e);
        }
        for (const auto& [key, events] : lanes) {
            for (const std::uint32_t e : events) {
                const TraceEvent& event = from.events[e];
                const Instruction& i = event.instruction;
                filler.tasks.push_back(
                    {event.start, event.end, e, i.microbatch, i.stage, kind_of(work_of(i))});
            }
            Lane lane;
            lane.rank = index;
            lane.stream = key.first;
            lane.communicator = key.second;
            lane.name = lane_name(key.first, key.second);
            filler.flush(lane);
        }
        rank.lane_end = static_cast<std::uint32_t>(model->lanes_.size());
        model->ranks_.push_back(std::move(rank));
    }
    filler.finish();
    return model;
}

}  // namespace tw
