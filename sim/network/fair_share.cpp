#include "sim/network/fair_share.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace tw {

namespace {

template <class T>
auto& at(std::vector<T>& values, int index) {
    return values[static_cast<std::size_t>(index)];
}

template <class T>
bool has(const std::vector<T>& values, int index) {
    return index >= 0 && static_cast<std::size_t>(index) < values.size();
}

}  // namespace

FairShare::FairShare(std::vector<double> capacities) : links_(capacities.size()) {
    for (std::size_t i = 0; i < capacities.size(); ++i) {
        TW_CHECK_MSG(capacities[i] >= 0, "a link's capacity is not negative");
        links_[i].capacity = capacities[i];
    }
}

// Steps of solving are inlined: many take less time than a call.
inline void FairShare::join_component(LinkId id) {
    Link& link = at(links_, id);
    if (link.in_component) return;
    link.in_component = true;
    component_.push_back(id);
}

FairShare::FlowId FairShare::make(std::span<const LinkId> links, double demand) {
    FlowId id = static_cast<FlowId>(flows_.size());
    if (free_.empty()) {
        flows_.emplace_back();
    } else {
        id = free_.back();
        free_.pop_back();
    }
    for (const LinkId link : links) {
        TW_CHECK(has(links_, link));
        demand = std::min(demand, at(links_, link).capacity);
    }
    Flow& flow = at(flows_, id);
    flow.demand = demand;
    flow.rate = kFresh;
    flow.link_count = static_cast<std::uint32_t>(links.size());
    if (links.size() <= Flow::kNear) {
        std::copy(links.begin(), links.end(), flow.near.begin());
    } else {
        if (!has(far_, id)) far_.resize(flows_.size());
        at(far_, id).assign(links.begin(), links.end());
    }
    return id;
}

void FairShare::start(FlowId id) {
    TW_CHECK(has(flows_, id));
    Flow& flow = at(flows_, id);
    TW_CHECK(!flow.live);
    flow.live = true;
    for (const LinkId link_id : way(id)) {
        Link& link = at(links_, link_id);
        TW_CHECK_MSG(link.flows.empty() || link.flows.back() != id, "a flow crosses a link once");
        link.flows.push_back(id);
        link.set_demand(link.demand + flow.demand);
        if (link.crowded) join_component(link_id);
    }
    ++live_;
    fresh_.push_back(id);
}

void FairShare::remove(FlowId id) {
    TW_CHECK(has(flows_, id));
    Flow& flow = at(flows_, id);
    TW_CHECK(flow.live);
    for (const LinkId link_id : way(id)) {
        Link& link = at(links_, link_id);
        if (link.crowded) join_component(link_id);
        *std::find(link.flows.begin(), link.flows.end(), id) = link.flows.back();
        link.flows.pop_back();
        link.set_demand(link.flows.empty() ? 0 : link.demand - flow.demand);
    }
    flow.live = false;
    free_.push_back(id);
    --live_;
}

void FairShare::solve_changes() {
    if (!component_.empty()) fill(collect());
    for (const FlowId id : fresh_) {  // those on no crowded link have their demand
        const Flow& flow = at(flows_, id);
        if (flow.live && flow.rate == kFresh) set_rate(id, flow.demand);
    }
    fresh_.clear();
}

inline void FairShare::set_rate(FlowId id, double rate) {
    Flow& flow = at(flows_, id);
    if (flow.rate == rate) return;
    flow.rate = rate;
    changed_.push_back(id);
}

// The crowded links that the component reaches through crowded links join it; all flows on its links are
// open. The least demand of them.
inline double FairShare::collect() {
    double least_demand = std::numeric_limits<double>::infinity();
    open_.clear();
    for (std::size_t i = 0; i < component_.size(); ++i) {  // grows while it is walked
        Link& link = at(links_, component_[i]);
        link.left = link.capacity;
        link.open = static_cast<int>(link.flows.size());
        for (const FlowId flow_id : link.flows) {
            Flow& flow = at(flows_, flow_id);
            if (flow.open) continue;
            flow.open = true;
            open_.push_back(flow_id);
            least_demand = std::min(least_demand, flow.demand);
            for (const LinkId id : way(flow_id))
                if (at(links_, id).crowded) join_component(id);
        }
    }
    return least_demand;
}

// An open flow has its rate.
inline void FairShare::stop(FlowId id, double level) {
    at(flows_, id).open = false;
    set_rate(id, level);
    for (const LinkId link_id : way(id)) {  // those outside of the component do not mind
        Link& link = at(links_, link_id);
        link.left -= level;
        --link.open;
    }
}

// Raises the level of all open flows until a link is full or a demand met, and again without the flows that
// stop there. Levels are compared without a tolerance, so that the order of flows and links does not matter.
inline void FairShare::fill(double least_demand) {
    std::size_t open = open_.size();
    while (open > 0) {
        double level = std::numeric_limits<double>::infinity();
        for (const LinkId id : component_) {
            Link& link = at(links_, id);
            if (link.open == 0) continue;
            link.level = std::max(link.left, 0.0) / link.open;
            level = std::min(level, link.level);
        }
        if (least_demand <= level) {  // of an open flow?
            std::erase_if(open_, [&](FlowId id) { return !at(flows_, id).open; });
            least_demand = std::numeric_limits<double>::infinity();
            for (const FlowId id : open_)
                least_demand = std::min(least_demand, at(flows_, id).demand);
            level = std::min(level, least_demand);
        }
        const auto stop_at_level = [&](FlowId id) {
            stop(id, level);
            --open;
        };
        for (const LinkId link_id : component_) {
            const Link& link = at(links_, link_id);
            if (link.open == 0 || link.level > level) continue;
            for (const FlowId id : link.flows)
                if (at(flows_, id).open) stop_at_level(id);
        }
        if (least_demand > level) continue;
        for (const FlowId id : open_)
            if (at(flows_, id).open && at(flows_, id).demand <= level) stop_at_level(id);
    }
    for (const LinkId id : component_)
        at(links_, id).in_component = false;
    component_.clear();
}

double FairShare::rate(FlowId id) {
    solve();
    TW_CHECK(has(flows_, id) && at(flows_, id).live);
    return at(flows_, id).rate;
}

double FairShare::load(LinkId id) {
    TW_CHECK(has(links_, id));
    solve();
    double sum = 0;
    for (const FlowId flow : at(links_, id).flows)
        sum += at(flows_, flow).rate;
    return sum;
}

}  // namespace tw
