#include "sim/engine/event_engine.hpp"

#include <algorithm>

namespace tw {
namespace {

constexpr std::uint32_t kNone = CompiledSchedule::kNone;

}  // namespace

FlowTable::FlowTable(const CompiledSchedule& compiled, std::vector<double> capacities)
    : capacities_(std::move(capacities)),
      flow_of_slot_(static_cast<std::size_t>(compiled.ranks) *
                    static_cast<std::size_t>(compiled.classes + 1)) {}

void FlowTable::add(std::uint32_t slot, std::span<const int> links, double demand, SimTime latency) {
    if (links.empty() || demand <= 0) return;
    TW_CHECK_MSG(flow(slot) == nullptr, "a slot has one flow");
    for (const int link : links)
        demand = std::min(demand, capacities_[static_cast<std::size_t>(link)]);
    flow_of_slot_[slot] = {demand, latency, static_cast<std::uint32_t>(routes_.size()),
                           static_cast<std::uint32_t>(links.size())};
    ++flows_;
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
    pending_.assign(nodes_, 0);
    carry_pending_.assign(ranks, 0);
    std::vector<std::uint32_t> begin(entities_ + 2);
    for_each_edge([&](std::uint32_t from, std::uint32_t to) {
        ++begin[from + 2];
        if (to < nodes_) {
            ++pending_[to];
        } else {
            ++carry_pending_[to - nodes_];
        }
    });
    for (std::uint32_t e = 0; e < entities_; ++e)
        begin[e + 2] += begin[e + 1];
    successors_.resize(begin.back());
    for_each_edge([&](std::uint32_t from, std::uint32_t to) { successors_[begin[from + 1]++] = to; });
    node_.resize(entities_ + 1);
    for (std::uint32_t e = 0; e <= entities_; ++e) {
        if (e < nodes_) node_[e] = {c.pred0[e], c.pred1[e], c.slot[e]};
        node_[e].successors = begin[e];
    }
}

// As engine.cpp: the host's time after its anchor at which each instruction is dispatched, then each
// program's total.
void EventEngine::make_host_offsets(std::span<const StepCosts> steps) {
    const CompiledSchedule& c = compiled_;
    host_ = !steps.front().table->dispatch.empty();
    host_offset_.clear();
    if (!host_) return;
    host_offset_.reserve(steps.size());
    for (std::size_t s = 0; s < steps.size(); ++s) {
        TW_CHECK(!steps[s].table->dispatch.empty());
        if (s > 0 && steps[s].table == steps[s - 1].table) {
            steps_[s].host_offset = steps_[s - 1].host_offset;
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
        steps_[s].host_offset = offsets.data();
    }
}

// Steps of the event loop are inlined: a call would cost as much as some of them.
//
// Everything that the node waits for is known.
inline void EventEngine::make_ready(std::uint32_t s, std::uint32_t e) {
    const Step& step = steps_[s];
    const Node& node = node_[e];
    const SimTime d = step.duration(e, node.slot);
    SimTime end = std::max(step.time[node.pred0], step.time[node.pred1]) + d;
    if (host_) {
        const CompiledSchedule& c = compiled_;
        for (const std::uint32_t i : {c.host0[e], c.host1[e]}) {
            if (i == kNone) continue;
            end = std::max(end,
                           step.time[c.anchor[i]] + step.host_offset[i] + step.table->host_path[node.slot]);
        }
    }
    ++out_->counts.nodes;
    const FlowTable::Flow* flow = flows_ != nullptr ? flows_->flow(node.slot) : nullptr;
    if (flow != nullptr && d > flow->latency) {
        queue_start(s, e, end - d, d, *flow);
        return;
    }
    step.time[compiled_.lane_count + e] = end;
    known_.push_back({s, e});
}

// Lane states for the program's next step, as engine.cpp's carry().
inline void EventEngine::make_carry(std::uint32_t s, std::uint32_t rank) {
    const CompiledSchedule& c = compiled_;
    const Step& step = steps_[s];
    SimTime end = 0;
    for (std::uint32_t lane = lane_begin_[rank]; lane < lane_begin_[rank + 1]; ++lane)
        end = std::max(end, step.time[c.lane_end[lane]]);
    out_->rank_end[s][rank] = end;
    known_.push_back({s, nodes_ + rank});
    if (s + 1 == steps_.size()) return;
    const Step& next = steps_[s + 1];
    for (std::uint32_t lane = lane_begin_[rank]; lane < lane_begin_[rank + 1]; ++lane)
        next.time[lane] = end;
    if (!host_) return;
    const std::uint32_t last = c.program_begin[rank + 1];
    const std::uint32_t anchor = last > c.program_begin[rank] ? c.anchor[last - 1] : c.host_lane[rank];
    SimTime clock = step.time[anchor] + step.host_offset[c.anchor.size() + rank];
    for (const std::uint32_t barrier : c.barrier_nodes)
        clock = std::max(clock, step.time[barrier]);
    next.time[c.host_lane[rank]] = clock;
}

void EventEngine::tell_successors(std::uint32_t s, std::uint32_t e) {
    known_.push_back({s, e});
    while (!known_.empty()) {
        const Known known = known_.back();
        known_.pop_back();
        const std::uint32_t target = known.entity >= nodes_ ? known.step + 1 : known.step;
        if (target == steps_.size()) continue;
        const Step& step = steps_[target];
        const std::uint32_t end = node_[known.entity + 1].successors;
        for (std::uint32_t k = node_[known.entity].successors; k < end; ++k) {
            const std::uint32_t successor = successors_[k];
            if (successor >= nodes_) {
                if (--step.carry_waiting[successor - nodes_] == 0) make_carry(target, successor - nodes_);
            } else if (--step.waiting[successor] == 0) {
                make_ready(target, successor);
            }
        }
    }
}

// From here on the flow has an id and an event.
inline void EventEngine::queue_start(std::uint32_t step, std::uint32_t node, SimTime start, SimTime duration,
                                     const FlowTable::Flow& flow) {
    const FairShare::FlowId id = share_.make(flows_->links(flow), flow.demand);
    if (static_cast<std::size_t>(id) >= active_.size()) active_.resize(static_cast<std::size_t>(id) + 1);
    active_flow(id) = {.step = step,
                       .node = node,
                       .demand = flow.demand,
                       .remaining = static_cast<double>(duration - flow.latency),
                       .since = start,
                       .end = kNever,
                       .latency = flow.latency};
    events_.set(id, start);
    ++out_->counts.flows;
}

inline void EventEngine::start_flow(FairShare::FlowId id, SimTime now) {
    ActiveFlow& active = active_flow(id);
    share_.start(id);
    active.end = now + static_cast<SimTime>(active.remaining);  // as long as nothing slows it
    events_.set(id, active.end);
}

inline void EventEngine::end_flow(FairShare::FlowId id, SimTime now) {
    const ActiveFlow active = active_flow(id);
    active_flow(id).end = kEnded;
    // What its successors need is far away in memory: it comes while the links are told.
    for (std::uint32_t k = node_[active.node].successors; k < node_[active.node + 1].successors; ++k) {
        __builtin_prefetch(&node_[successors_[k]]);
        __builtin_prefetch(steps_[active.step].waiting + successors_[k]);
    }
    share_.remove(id);
    steps_[active.step].time[compiled_.lane_count + active.node] = now + active.latency;
    tell_successors(active.step, active.node);
    // Most often a successor is a flow, which has got the id.
    if (active_flow(id).end == kEnded) events_.set(id, kNever);
}

inline void EventEngine::retime_flows(SimTime now) {
    share_.solve();
    for (const FairShare::FlowId id : share_.changed()) {
        ActiveFlow& active = active_flow(id);
        const double rate = share_.solved_rate(id);
        const double speed = rate >= active.demand ? 1.0 : rate / active.demand;
        if (speed == active.speed) continue;
        out_->counts.retimed += active.speed > 0 ? 1 : 0;
        if (speed < 1 && !active.slowed) {
            active.slowed = true;
            ++out_->counts.slowed;
        }
        active.remaining -= static_cast<double>(now - active.since) * active.speed;
        active.since = now;
        active.speed = speed;
        const double left = std::max(active.remaining, 0.0);
        const SimTime end = now + static_cast<SimTime>((speed < 1 ? left / speed : left) + 0.5);  // nearest
        if (end == active.end) continue;
        active.end = end;
        events_.set(id, end);
    }
}

void EventEngine::run(std::span<const StepCosts> steps, EventRun& out) {
    const CompiledSchedule& c = compiled_;
    TW_CHECK_MSG(!steps.empty() && (steps.size() == 1 || c.boundary != StepBoundary::None),
                 "a schedule without flush runs once");
    TW_CHECK_MSG(steps.size() * entities_ < kNone, "too many nodes for one run");
    out_ = &out;
    out.counts = {};
    out.entries = c.time_entries();
    out.time.resize(out.entries * steps.size());
    std::fill_n(out.time.begin(), c.lane_count, 0);
    out.rank_end.assign(steps.size(), std::vector<SimTime>(static_cast<std::size_t>(c.ranks), 0));
    waiting_.resize(pending_.size() * steps.size());
    carry_waiting_.resize(carry_pending_.size() * steps.size());
    steps_.assign(steps.size(), {});
    for (std::size_t s = 0; s < steps.size(); ++s) {
        steps_[s].time = out.time.data() + s * out.entries;
        steps_[s].waiting = waiting_.data() + s * pending_.size();
        steps_[s].carry_waiting = carry_waiting_.data() + s * carry_pending_.size();
        std::copy(pending_.begin(), pending_.end(), steps_[s].waiting);
        std::copy(carry_pending_.begin(), carry_pending_.end(), steps_[s].carry_waiting);
        steps_[s].table = steps[s].table;
        steps_[s].slot_duration = steps[s].table->duration.data();
        if (!steps[s].node_duration.empty()) steps_[s].node_duration = steps[s].node_duration.data();
    }
    make_host_offsets(steps);
    events_.clear();
    active_.clear();
    if (flows_ != nullptr) share_ = FairShare({flows_->capacities().begin(), flows_->capacities().end()});

    // What precedes the first step is known: every program is idle at time 0.
    constexpr std::uint32_t kBeforeFirst = 0U - 1;
    for (std::uint32_t carry = nodes_; carry < entities_; ++carry)
        tell_successors(kBeforeFirst, carry);
    while (events_.time() != kNever) {
        const SimTime now = events_.time();
        do {
            const FairShare::FlowId id = events_.id();
            if (active_flow(id).end == kNever) {
                start_flow(id, now);
            } else {
                end_flow(id, now);
            }
        } while (events_.time() == now);
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
