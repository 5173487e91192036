#include "sim/network/fair_share.hpp"

#include <algorithm>
#include <functional>

#include "base/check.hpp"

namespace tw {

namespace {

template <class T>
auto& at(std::vector<T>& values, int index) {
    TW_CHECK(index >= 0 && static_cast<std::size_t>(index) < values.size());
    return values[static_cast<std::size_t>(index)];
}

}  // namespace

FairShare::FairShare(std::vector<double> capacities) : links_(capacities.size()) {
    for (std::size_t i = 0; i < capacities.size(); ++i) {
        TW_CHECK_MSG(capacities[i] >= 0, "a link's capacity is not negative");
        links_[i].capacity = capacities[i];
    }
}

void FairShare::mark(const Flow& flow) {
    for (const LinkId id : flow.links) {
        Link& link = at(links_, id);
        if (link.dirty) continue;
        link.dirty = true;
        dirty_.push_back(id);
    }
}

FairShare::FlowId FairShare::add(std::span<const LinkId> links, double demand) {
    FlowId id = static_cast<FlowId>(flows_.size());
    if (free_.empty()) {
        flows_.emplace_back();
    } else {
        id = free_.back();
        free_.pop_back();
    }
    Flow& flow = at(flows_, id);
    flow.links.assign(links.begin(), links.end());
    flow.demand = demand;
    flow.live = true;
    flow.rate = flow.links.empty() ? demand : 0;
    for (const LinkId link_id : flow.links) {
        std::vector<FlowId>& sharing = at(links_, link_id).flows;
        const auto place = std::lower_bound(sharing.begin(), sharing.end(), id);
        TW_CHECK_MSG(place == sharing.end() || *place != id, "a flow crosses a link once");
        sharing.insert(place, id);
    }
    ++live_;
    mark(flow);
    return id;
}

void FairShare::remove(FlowId id) {
    Flow& flow = at(flows_, id);
    TW_CHECK(flow.live);
    mark(flow);
    for (const LinkId link_id : flow.links) {
        std::vector<FlowId>& sharing = at(links_, link_id).flows;
        sharing.erase(std::lower_bound(sharing.begin(), sharing.end(), id));
    }
    flow = Flow{};
    free_.insert(std::lower_bound(free_.begin(), free_.end(), id, std::greater<>()), id);
    --live_;
}

void FairShare::solve() {
    touched_.clear();
    if (dirty_.empty()) return;
    std::vector<LinkId> component = dirty_;
    for (const LinkId id : component) {
        Link& link = at(links_, id);
        link.dirty = false;
        link.in_component = true;
    }
    dirty_.clear();
    for (std::size_t i = 0; i < component.size(); ++i) {  // grows while it is walked
        for (const FlowId flow_id : at(links_, component[i]).flows) {
            Flow& flow = at(flows_, flow_id);
            if (flow.open) continue;
            flow.open = true;
            touched_.push_back(flow_id);
            for (const LinkId id : flow.links) {
                Link& link = at(links_, id);
                if (link.in_component) continue;
                link.in_component = true;
                component.push_back(id);
            }
        }
    }
    std::sort(touched_.begin(), touched_.end());
    fill(component);
}

void FairShare::fill(const std::vector<LinkId>& component) {
    for (const LinkId id : component) {
        Link& link = at(links_, id);
        link.left = link.capacity;
        link.open = static_cast<int>(link.flows.size());
        link.in_component = false;
    }
    std::vector<FlowId> open = touched_;
    while (!open.empty()) {
        double level = std::numeric_limits<double>::infinity();
        for (const LinkId id : component) {
            const Link& link = at(links_, id);
            if (link.open > 0) level = std::min(level, std::max(link.left, 0.0) / link.open);
        }
        for (const FlowId id : open)
            level = std::min(level, at(flows_, id).demand);
        // Every flow that this level stops; compared without a tolerance, so that the order of flows does not
        // matter.
        const auto stops = [&](const Flow& flow) {
            if (flow.demand <= level) return true;
            return std::any_of(flow.links.begin(), flow.links.end(), [&](LinkId id) {
                const Link& link = at(links_, id);
                return std::max(link.left, 0.0) / link.open <= level;
            });
        };
        std::vector<FlowId> stopped;
        for (const FlowId id : open)
            if (stops(at(flows_, id))) stopped.push_back(id);
        for (const FlowId id : stopped) {
            Flow& flow = at(flows_, id);
            flow.rate = level;
            flow.open = false;
            for (const LinkId link_id : flow.links) {
                Link& link = at(links_, link_id);
                link.left -= level;
                --link.open;
            }
        }
        std::erase_if(open, [&](FlowId id) { return !at(flows_, id).open; });
    }
}

double FairShare::rate(FlowId id) {
    solve();
    TW_CHECK(at(flows_, id).live);
    return at(flows_, id).rate;
}

double FairShare::load(LinkId id) {
    solve();
    double sum = 0;
    for (const FlowId flow : at(links_, id).flows)
        sum += at(flows_, flow).rate;
    return sum;
}

}  // namespace tw
