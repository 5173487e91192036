// Max-min fair rates of flows that share links, by progressive filling (Bertsekas and Gallager 1992,
// section 6.5.2): all rates grow together; a flow stops when one of its links is full or its own demand is
// met. The result is unique: no rate can grow without taking from a flow that has no more.
//
// Adding or removing a flow solves again only the flows that it shares crowded links with, directly or
// through others; a link whose flows could all have their demand at once is not crowded and couples nothing.
// While no link is crowded, adding and removing a flow costs a few nanoseconds a link.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace tw {

class FairShare {
  public:
    using FlowId = int;
    using LinkId = int;

    // One capacity a link, bytes per second, >= 0.
    explicit FairShare(std::vector<double> capacities);

    // A flow over these links (each at most once; none: limited by its demand alone), at most `demand` bytes
    // per second. Ids of removed flows are used again, the last removed first.
    FlowId add(std::span<const LinkId> links, double demand = std::numeric_limits<double>::infinity()) {
        const FlowId flow = make(links, demand);
        start(flow);
        return flow;
    }
    // The same in two steps: a flow that is made loads nothing until it starts.
    FlowId make(std::span<const LinkId> links, double demand);
    void start(FlowId flow);
    void remove(FlowId flow);  // one that has started

    // Bytes per second; solves what has changed since the last call.
    double rate(FlowId flow);
    // Sum of the rates over a link.
    double load(LinkId link);
    // Flows whose rates the last solve changed, those added before it among them; in no order.
    [[nodiscard]] std::span<const FlowId> changed() const { return changed_; }
    void solve() {
        changed_.clear();
        if (!component_.empty() || !fresh_.empty()) solve_changes();
    }
    // As rate(), where nothing has changed since the last solve().
    [[nodiscard]] double solved_rate(FlowId flow) const {
        return flows_[static_cast<std::size_t>(flow)].rate;
    }

    [[nodiscard]] int flows() const { return live_; }
    [[nodiscard]] int links() const { return static_cast<int>(links_.size()); }

  private:
    // A link, and a flow with its way, are a cache line each: solving hops among them.
    struct alignas(64) Link {
        double capacity = 0;
        double demand = 0;  // sum over its flows
        // Of a component:
        double left = 0;   // of the capacity, without the flows that have stopped
        double level = 0;  // rate of its open flows, were it the next to be full
        int open = 0;
        bool in_component = false;  // or to be in the next one
        bool crowded = false;       // its flows would have more than its capacity
        std::vector<FlowId> flows;  // in no order
        void set_demand(double sum) {
            demand = sum;
            crowded = demand > capacity * (1 + kSlack);
        }
    };
    struct alignas(64) Flow {
        static constexpr std::uint32_t kNear = 10;  // links of a longer way are in far_
        double demand = 0;                          // no more than its narrowest link takes
        double rate = 0;                            // kFresh until it is solved
        std::uint32_t link_count = 0;
        bool live = false;
        bool open = false;  // in a component and not stopped yet
        std::array<LinkId, kNear> near{};
    };
    static constexpr double kSlack = 1e-12;  // rounding of sums of demands
    static constexpr double kFresh = -1;

    [[nodiscard]] std::span<const LinkId> way(FlowId id) const {
        const Flow& flow = flows_[static_cast<std::size_t>(id)];
        return {flow.link_count <= Flow::kNear ? flow.near.data() : far_[static_cast<std::size_t>(id)].data(),
                flow.link_count};
    }
    void join_component(LinkId id);
    void set_rate(FlowId id, double rate);
    void stop(FlowId id, double level);
    void solve_changes();
    double collect();
    void fill(double least_demand);

    std::vector<Link> links_;
    std::vector<Flow> flows_;
    std::vector<std::vector<LinkId>> far_;  // by flow, as far as there are long ways
    std::vector<FlowId> free_;
    std::vector<FlowId> fresh_;  // added since the last solve; some are gone again
    std::vector<FlowId> changed_;
    int live_ = 0;
    // What has to be solved again: links, at first those that flows joined or left; then all flows on them.
    std::vector<LinkId> component_;
    std::vector<FlowId> open_;
};

}  // namespace tw
