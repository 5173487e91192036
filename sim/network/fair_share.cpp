#include "sim/network/fair_share.hpp"

#include <algorithm>
#include <functional>

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

void FairShare::mark(LinkId id) {
    Link& link = at(links_, id);
    if (link.dirty) return;
    link.dirty = true;
    dirty_.push_back(id);
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
    flow.links.assign(links);
    for (const LinkId link : links) {
        TW_CHECK(has(links_, link));
        demand = std::min(demand, at(links_, link).capacity);
    }
    flow.demand = flow.rate = demand;
    flow.live = true;
    for (const LinkId link_id : links) {
        Link& link = at(links_, link_id);
        TW_CHECK_MSG(link.flows.empty() || link.flows.back() != id, "a flow crosses a link once");
        link.flows.push_back(id);
        link.demand += demand;
        if (link.crowded()) mark(link_id);
    }
    ++live_;
    if (!flow.fresh) fresh_.push_back(id);
    flow.fresh = true;
    return id;
}

void FairShare::remove(FlowId id) {
    TW_CHECK(has(flows_, id));
    Flow& flow = at(flows_, id);
    TW_CHECK(flow.live);
    for (const LinkId link_id : flow.links) {
        Link& link = at(links_, link_id);
        if (link.crowded()) mark(link_id);
        *std::find(link.flows.begin(), link.flows.end(), id) = link.flows.back();
        link.flows.pop_back();
        link.demand = link.flows.empty() ? 0 : link.demand - flow.demand;
    }
    flow.live = false;
    flow.links.clear();
    if (free_.empty() || free_.back() > id) {
        free_.push_back(id);
    } else {
        free_.insert(std::lower_bound(free_.begin(), free_.end(), id, std::greater<>()), id);
    }
    --live_;
}

void FairShare::solve() {
    touched_.clear();
    // The crowded links that what has changed reaches through crowded links, and all flows on them.
    component_.assign(dirty_.begin(), dirty_.end());
    for (const LinkId id : component_) {
        Link& link = at(links_, id);
        link.dirty = false;
        link.in_component = true;
    }
    dirty_.clear();
    for (std::size_t i = 0; i < component_.size(); ++i) {  // grows while it is walked
        for (const FlowId flow_id : at(links_, component_[i]).flows) {
            Flow& flow = at(flows_, flow_id);
            if (flow.open) continue;
            flow.open = true;
            touched_.push_back(flow_id);
            for (const LinkId id : flow.links) {
                Link& link = at(links_, id);
                if (link.in_component || !link.crowded()) continue;
                link.in_component = true;
                component_.push_back(id);
            }
        }
    }
    for (const FlowId id : fresh_) {
        Flow& flow = at(flows_, id);
        flow.fresh = false;
        if (flow.live && !flow.open) touched_.push_back(id);  // on no crowded link: it has its demand
    }
    fresh_.clear();
    if (!component_.empty()) fill();
    if (touched_.size() > 1) std::sort(touched_.begin(), touched_.end());
}

// One crowded link alone: its flows share it evenly, where none asks for less than its share.
bool FairShare::fill_link(Link& link) {
    const double level = link.capacity / static_cast<double>(link.flows.size());
    for (const FlowId id : link.flows)
        if (at(flows_, id).demand < level) return false;
    for (const FlowId id : link.flows) {
        at(flows_, id).rate = level;
        at(flows_, id).open = false;
    }
    link.in_component = false;
    return true;
}

void FairShare::fill() {
    if (component_.size() == 1 && fill_link(at(links_, component_.front()))) return;
    open_.clear();
    for (const FlowId id : touched_)
        if (at(flows_, id).open) open_.push_back(id);
    for (const LinkId id : component_) {
        Link& link = at(links_, id);
        link.left = link.capacity;
        link.open = static_cast<int>(link.flows.size());
    }
    while (!open_.empty()) {
        double level = std::numeric_limits<double>::infinity();
        for (const LinkId id : component_) {
            Link& link = at(links_, id);
            if (link.open == 0) continue;
            link.level = std::max(link.left, 0.0) / link.open;
            level = std::min(level, link.level);
        }
        for (const FlowId id : open_)
            level = std::min(level, at(flows_, id).demand);
        // Every flow that this level stops; compared without a tolerance, so that the order of flows does not
        // matter.
        const auto stops = [&](const Flow& flow) {
            if (flow.demand <= level) return true;
            return std::any_of(flow.links.begin(), flow.links.end(), [&](LinkId id) {
                const Link& link = at(links_, id);
                return link.in_component && link.level <= level;
            });
        };
        stopped_.clear();
        for (const FlowId id : open_)
            if (stops(at(flows_, id))) stopped_.push_back(id);
        for (const FlowId id : stopped_) {
            Flow& flow = at(flows_, id);
            flow.rate = level;
            flow.open = false;
            for (const LinkId link_id : flow.links) {
                Link& link = at(links_, link_id);
                if (!link.in_component) continue;
                link.left -= level;
                --link.open;
            }
        }
        std::erase_if(open_, [&](FlowId id) { return !at(flows_, id).open; });
    }
    for (const LinkId id : component_)
        at(links_, id).in_component = false;
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
