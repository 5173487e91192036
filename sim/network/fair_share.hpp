// Max-min fair rates of flows that share links, by progressive filling (Bertsekas and Gallager 1992,
// section 6.5.2): all rates grow together; a flow stops when one of its links is full or its own demand is
// met. The result is unique: no rate can grow without taking from a flow that has no more.
//
// Adding or removing a flow solves again only the flows that it shares crowded links with, directly or
// through others; a link whose flows could all have their demand at once is not crowded and couples nothing.
// While no link is crowded, adding and removing a flow costs a few nanoseconds a link.
#pragma once

#include <algorithm>
#include <array>
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
    // per second. Ids of removed flows are used again, the lowest first.
    FlowId add(std::span<const LinkId> links, double demand = std::numeric_limits<double>::infinity());
    void remove(FlowId flow);

    // Bytes per second; solves what has changed since the last call.
    double rate(FlowId flow);
    // Sum of the rates over a link.
    double load(LinkId link);
    // Flows that the last solve looked at, ascending: the only ones whose rates may have changed since the
    // solve before.
    [[nodiscard]] std::span<const FlowId> touched() const { return touched_; }
    void solve();
    // As rate(), where nothing has changed since the last solve().
    [[nodiscard]] double solved_rate(FlowId flow) const {
        return flows_[static_cast<std::size_t>(flow)].rate;
    }

    [[nodiscard]] int flows() const { return live_; }
    [[nodiscard]] int links() const { return static_cast<int>(links_.size()); }

  private:
    struct Link {
        double capacity = 0;
        double demand = 0;          // sum over its flows
        std::vector<FlowId> flows;  // in no order
        bool dirty = false;
        // While solving:
        double left = 0;
        int open = 0;
        double level = 0;  // of its open flows, were it the next to be full
        bool in_component = false;
        [[nodiscard]] bool crowded() const { return demand > capacity * (1 + kSlack); }
    };
    // A flow crosses few links: beside the flow itself they are nearer than in an allocation of their own.
    class Route {
      public:
        void assign(std::span<const LinkId> links) {
            size_ = links.size();
            if (size_ <= near_.size()) {
                std::copy(links.begin(), links.end(), near_.begin());
            } else {
                far_.assign(links.begin(), links.end());
            }
        }
        void clear() { size_ = 0; }
        [[nodiscard]] const LinkId* begin() const {
            return size_ <= near_.size() ? near_.data() : far_.data();
        }
        [[nodiscard]] const LinkId* end() const { return begin() + size_; }

      private:
        std::size_t size_ = 0;
        std::array<LinkId, 4> near_{};
        std::vector<LinkId> far_;
    };
    struct Flow {
        Route links;
        double demand = 0;  // no more than its narrowest link takes
        double rate = 0;
        bool live = false;
        bool fresh = false;  // added since the last solve
        bool open = false;
    };
    static constexpr double kSlack = 1e-12;  // rounding of sums of demands

    void mark(LinkId id);
    void fill();
    bool fill_link(Link& link);

    std::vector<Link> links_;
    std::vector<Flow> flows_;
    std::vector<FlowId> free_;  // descending
    std::vector<LinkId> dirty_;
    std::vector<FlowId> fresh_;
    std::vector<FlowId> touched_;
    int live_ = 0;
    // Scratch of solve().
    std::vector<LinkId> component_;
    std::vector<FlowId> open_, stopped_;
};

}  // namespace tw
