#include "sim/engine/event_engine.hpp"

#include <algorithm>

namespace tw {
namespace {

constexpr std::uint32_t kNone = CompiledSchedule::kNone;

}  // namespace

FlowTable::FlowTable(const CompiledSchedule& compiled, std::vector<double> capacities)
    : capacities_(std::move(capacities)),
      flow_of_slot_(static_cast<std::size_t>(compiled.ranks) * static_cast<std::size_t>(compiled.classes + 1),
                    kNone) {}

void FlowTable::add(std::uint32_t slot, std::span<const int> links, double demand, SimTime latency) {
    if (links.empty() || demand <= 0) return;
    TW_CHECK_MSG(flow_of_slot_[slot] == kNone, "a slot has one flow");
    for (const int link : links)
        demand = std::min(demand, capacities_[static_cast<std::size_t>(link)]);
    flow_of_slot_[slot] = static_cast<std::uint32_t>(flows_.size());
    flows_.push_back({demand, latency, static_cast<std::uint32_t>(routes_.size()),
                      static_cast<std::uint32_t>(links.size())});
    routes_.insert(routes_.end(), links.begin(), links.end());
}

void FlowTable::set_capacity(int link, double bytes_per_second) {
    TW_CHECK_MSG(bytes_per_second > 0, "flows over a link without capacity never end");
    capacities_[static_cast<std::size_t>(link)] = bytes_per_second;
}

EventEngine::EventEngine(const CompiledSchedule& compiled, const FlowTable* flows)
    : compiled_(compiled),
      flows_(flows != nullptr && flows->flows() > 0 ? flows : nullptr),
      nodes_(static_cast<std::uint32_t>(compiled.nodes())),
      entities_(nodes_ + static_cast<std::uint32_t>(compiled.ranks)) {
    link();
}

// Successors of every entity. Those of a node and a carry's own successor belong to the same step's carries
// and nodes; a carry's are in the next step.
void EventEngine::link() {
    const CompiledSchedule& c = compiled_;
    const auto ranks = static_cast<std::uint32_t>(c.ranks);
    lane_begin_.assign(ranks + 1, 0);
    for (const std::uint32_t rank : c.lane_rank)
        ++lane_begin_[rank + 1];
    for (std::uint32_t r = 0; r < ranks; ++r)
        lane_begin_[r + 1] += lane_begin_[r];
    const auto for_each_edge = [&](auto&& visit) {
        const auto from = [&](std::uint32_t time_index) {
            return time_index < c.lane_count ? nodes_ + c.lane_rank[time_index] : time_index - c.lane_count;
        };
        for (std::uint32_t i = 0; i < nodes_; ++i) {
            const std::uint32_t a = from(c.pred0[i]), b = from(c.pred1[i]);
            visit(a, i);
            if (b != a) visit(b, i);
            for (const std::uint32_t host : {c.host0[i], c.host1[i]}) {
                if (host != kNone && c.anchor[host] >= c.lane_count) visit(from(c.anchor[host]), i);
            }
        }
        for (std::uint32_t r = 0; r < ranks; ++r) {
            visit(nodes_ + r, nodes_ + r);
            for (std::uint32_t lane = lane_begin_[r]; lane < lane_begin_[r + 1]; ++lane) {
                if (c.lane_end[lane] >= c.lane_count) visit(c.lane_end[lane] - c.lane_count, nodes_ + r);
            }
            for (const std::uint32_t barrier : c.barrier_nodes)
                visit(barrier - c.lane_count, nodes_ + r);
            if (c.program_begin[r + 1] > c.program_begin[r]) {
                const std::uint32_t anchor = c.anchor[c.program_begin[r + 1] - 1];
                if (anchor >= c.lane_count) visit(anchor - c.lane_count, nodes_ + r);
            }
        }
    };
    pending_.assign(entities_, 0);
    successor_begin_.assign(entities_ + 2, 0);
    for_each_edge([&](std::uint32_t from, std::uint32_t to) {
        ++successor_begin_[from + 2];
        ++pending_[to];
    });
    for (std::uint32_t e = 0; e < entities_; ++e)
        successor_begin_[e + 2] += successor_begin_[e + 1];
    successors_.resize(successor_begin_.back());
    for_each_edge(
        [&](std::uint32_t from, std::uint32_t to) { successors_[successor_begin_[from + 1]++] = to; });
}

// As engine.cpp: the host's time after its anchor at which each instruction is dispatched, then each
// program's total.
void EventEngine::make_host_offsets(std::span<const StepCosts> steps) {
    const CompiledSchedule& c = compiled_;
    host_ = !steps.front().table->dispatch.empty();
    host_offset_.clear();
    step_offset_.clear();
    if (!host_) return;
    host_offset_.reserve(steps.size());
    for (std::size_t s = 0; s < steps.size(); ++s) {
        TW_CHECK(!steps[s].table->dispatch.empty());
        if (s > 0 && steps[s].table == steps[s - 1].table) {
            step_offset_.push_back(step_offset_.back());
            continue;
        }
        std::vector<SimTime>& offsets =
            host_offset_.emplace_back(c.anchor.size() + static_cast<std::size_t>(c.ranks));
        for (std::size_t r = 0; r < static_cast<std::size_t>(c.ranks); ++r) {
            SimTime offset = 0;
            std::uint32_t anchor = c.host_lane[r];
            for (std::uint32_t i = c.program_begin[r]; i < c.program_begin[r + 1]; ++i) {
                if (c.anchor[i] != anchor) {
                    anchor = c.anchor[i];
                    offset = 0;
                }
                offsets[i] = offset;
                offset += steps[s].table->dispatch[c.slot[c.end_node[i] - c.lane_count]];
            }
            offsets[c.anchor.size() + r] = offset;
        }
        step_offset_.push_back(&offsets);
    }
}

void EventEngine::satisfy(std::uint32_t step, std::uint32_t entity) {
    if (--waiting_[step * entities_ + entity] == 0) make_ready(step, entity);
}

void EventEngine::make_ready(std::uint32_t step, std::uint32_t e) {
    const CompiledSchedule& c = compiled_;
    if (e >= nodes_) {
        make_carry(step, e - nodes_);
        known_.push_back({step, e});
        return;
    }
    SimTime* time = out_->time.data() + step * out_->entries;
    const StepCosts& costs = steps_[step];
    const std::uint32_t slot = c.slot[e];
    const SimTime d = costs.node_duration.empty() ? costs.table->duration[slot] : costs.node_duration[e];
    SimTime end = std::max(time[c.pred0[e]], time[c.pred1[e]]) + d;
    if (host_) {
        const std::vector<SimTime>& offsets = *step_offset_[step];
        for (const std::uint32_t i : {c.host0[e], c.host1[e]}) {
            if (i != kNone)
                end = std::max(end, time[c.anchor[i]] + offsets[i] + costs.table->host_path[slot]);
        }
    }
    ++out_->counts.nodes;
    const FlowTable::Flow* flow = flows_ != nullptr ? flows_->flow(slot) : nullptr;
    if (flow != nullptr && d > flow->latency) {
        heap_.push({end - d, step * entities_ + e, -1 - static_cast<FairShare::FlowId>(step)});
        return;
    }
    time[c.lane_count + e] = end;
    known_.push_back({step, e});
}

// Lane states for the program's next step, as engine.cpp's carry().
void EventEngine::make_carry(std::uint32_t step, std::uint32_t rank) {
    const CompiledSchedule& c = compiled_;
    const SimTime* time = out_->time.data() + step * out_->entries;
    SimTime end = 0;
    for (std::uint32_t lane = lane_begin_[rank]; lane < lane_begin_[rank + 1]; ++lane)
        end = std::max(end, time[c.lane_end[lane]]);
    out_->rank_end[step][rank] = end;
    if (step + 1 == steps_.size()) return;
    SimTime* next = out_->time.data() + (step + 1) * out_->entries;
    for (std::uint32_t lane = lane_begin_[rank]; lane < lane_begin_[rank + 1]; ++lane)
        next[lane] = end;
    if (!host_) return;
    const std::uint32_t last = c.program_begin[rank + 1];
    const std::uint32_t anchor = last > c.program_begin[rank] ? c.anchor[last - 1] : c.host_lane[rank];
    SimTime clock = time[anchor] + (*step_offset_[step])[c.anchor.size() + rank];
    for (const std::uint32_t barrier : c.barrier_nodes)
        clock = std::max(clock, time[barrier]);
    next[c.host_lane[rank]] = clock;
}

void EventEngine::propagate() {
    while (!known_.empty()) {
        const auto [step, e] = known_.back();
        known_.pop_back();
        const std::uint32_t target = e >= nodes_ ? step + 1 : step;
        if (target == steps_.size()) continue;
        for (std::uint32_t k = successor_begin_[e]; k < successor_begin_[e + 1]; ++k)
            satisfy(target, successors_[k]);
    }
}

void EventEngine::start_flow(const Event& event) {
    const auto step = static_cast<std::uint32_t>(-1 - event.flow);
    const std::uint32_t e = event.entity - step * entities_;
    const StepCosts& costs = steps_[step];
    const std::uint32_t slot = compiled_.slot[e];
    const SimTime d = costs.node_duration.empty() ? costs.table->duration[slot] : costs.node_duration[e];
    const FlowTable::Flow* flow = flows_->flow(slot);
    const FairShare::FlowId id = share_.add(flows_->links(*flow), flow->demand);
    if (static_cast<std::size_t>(id) >= active_.size()) active_.resize(static_cast<std::size_t>(id) + 1);
    active_[static_cast<std::size_t>(id)] = {
        event.entity, step,   e,      flow, static_cast<double>(d - flow->latency), 0, 0,
        event.time,   kNever, kNever, false};
    ++out_->counts.flows;
}

void EventEngine::end_flow(const Event& event) {
    ActiveFlow& active = active_[static_cast<std::size_t>(event.flow)];
    if (active.entity != event.entity) return;  // it has ended already
    if (active.end != event.time) {             // its rate has changed since
        if (active.queued == event.time) queue_end(active, event.flow);
        return;
    }
    out_->time[active.step * out_->entries + compiled_.lane_count + active.node] =
        event.time + active.flow->latency;
    active.entity = kNone;
    share_.remove(event.flow);
    known_.push_back({active.step, active.node});
    propagate();
}

void EventEngine::queue_end(ActiveFlow& active, FairShare::FlowId id) {
    active.queued = active.end;
    heap_.push({active.end, active.entity, id});
}

void EventEngine::retime_flows(SimTime now) {
    share_.solve();
    for (const FairShare::FlowId id : share_.touched()) {
        ActiveFlow& active = active_[static_cast<std::size_t>(id)];
        const double rate = share_.solved_rate(id);
        if (rate == active.rate) continue;
        active.rate = rate;
        const double speed = rate >= active.flow->demand ? 1.0 : rate / active.flow->demand;
        if (speed == active.speed) continue;
        if (active.end != kNever) ++out_->counts.retimed;
        active.remaining -= static_cast<double>(now - active.since) * active.speed;
        active.since = now;
        active.speed = speed;
        if (speed < 1 && !active.slowed) {
            active.slowed = true;
            ++out_->counts.slowed;
        }
        const double left = std::max(active.remaining, 0.0);
        active.end = now + static_cast<SimTime>((speed < 1 ? left / speed : left) + 0.5);  // nearest
        // A later end is looked up when the event comes that is in the heap.
        if (active.end < active.queued) queue_end(active, id);
    }
}

void EventEngine::run(std::span<const StepCosts> steps, EventRun& out) {
    const CompiledSchedule& c = compiled_;
    TW_CHECK_MSG(!steps.empty() && (steps.size() == 1 || c.boundary != StepBoundary::None),
                 "a schedule without flush runs once");
    TW_CHECK_MSG(steps.size() * entities_ < kNone, "too many nodes for one run");
    steps_ = steps;
    out_ = &out;
    out.counts = {};
    out.entries = c.time_entries();
    out.time.assign(out.entries * steps.size(), 0);
    out.rank_end.assign(steps.size(), std::vector<SimTime>(static_cast<std::size_t>(c.ranks), 0));
    make_host_offsets(steps);
    waiting_.resize(pending_.size() * steps.size());
    for (std::size_t s = 0; s < steps.size(); ++s)
        std::copy(pending_.begin(), pending_.end(),
                  waiting_.begin() + static_cast<std::ptrdiff_t>(s * entities_));
    heap_.clear();
    active_.clear();
    if (flows_ != nullptr) share_ = FairShare({flows_->capacities().begin(), flows_->capacities().end()});

    // What precedes the first step is known: every program is idle at time 0.
    for (std::uint32_t carry = nodes_; carry < entities_; ++carry) {
        for (std::uint32_t k = successor_begin_[carry]; k < successor_begin_[carry + 1]; ++k)
            satisfy(0, successors_[k]);
        propagate();
    }
    while (!heap_.empty()) {
        const auto time_of = [](const Event& event) { return event.time; };
        const SimTime now = heap_.top_key(time_of);
        do {
            const Event event = heap_.take();
            if (event.flow < 0) {
                start_flow(event);
            } else {
                end_flow(event);
            }
        } while (!heap_.empty() && heap_.top_key(time_of) == now);
        retime_flows(now);
    }
    TW_CHECK_MSG(out.counts.nodes == static_cast<std::int64_t>(nodes_ * steps.size()), "not every node ran");
    summarise();
}

// As run_engine: ends of the steps and the period between the last two.
void EventEngine::summarise() {
    const CompiledSchedule& c = compiled_;
    StepTimes& t = out_->times;
    t = {};
    if (c.boundary == StepBoundary::None) {
        for (const std::uint32_t mark : c.step_marks)
            t.step_end.push_back(out_->time[mark]);
        const std::size_t n = t.step_end.size();
        TW_CHECK_MSG(n >= 2, "a schedule without flush spans at least two steps");
        t.makespan = t.step_end.front();
        t.period = n >= 4 ? (t.step_end[n - 2] - t.step_end[1]) / static_cast<SimTime>(n - 3)
                          : (t.step_end[n - 1] - t.step_end[0]) / static_cast<SimTime>(n - 1);
        return;
    }
    for (const std::vector<SimTime>& ends : out_->rank_end)
        t.step_end.push_back(*std::max_element(ends.begin(), ends.end()));
    t.makespan = t.step_end.front();
    if (t.step_end.size() < 2) return;
    const std::vector<SimTime>& last = out_->rank_end.back();
    const std::vector<SimTime>& before = out_->rank_end[out_->rank_end.size() - 2];
    if (c.boundary == StepBoundary::Barrier) {
        t.period = t.step_end.back() - t.step_end[t.step_end.size() - 2];
        return;
    }
    for (std::size_t r = 0; r < last.size(); ++r) {
        t.period = std::max(t.period, last[r] - before[r]);
        t.steady &= last[r] - before[r] == last[0] - before[0];
    }
}

}  // namespace tw
