// The event-driven engine: the same compiled schedule and costs as engine.hpp, but transfers and collectives
// that cross the same links slow each other down. Each flow gets its max-min fair share of its links
// (sim/network/fair_share.hpp), solved again whenever a flow starts or ends; compute keeps its durations.
//
// A flow alone on its links takes exactly the duration that its cost table says, so without contention every
// time equals run_engine's to the picosecond. With contention an end is rounded to the nearest picosecond at
// each change of its rate.
//
// Only starts and ends of flows are events in time's order; between them the longest paths of compute are
// known as soon as what they wait for is known. All events of one instant are taken before rates are solved,
// which do not depend on their order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/compiled_schedule.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/event_tree.hpp"
#include "sim/network/fair_share.hpp"

namespace tw {

// Which slots of a cost table are flows over shared links; the others have fixed durations.
class FlowTable {
  public:
    struct Flow {
        double demand = 0;  // bytes per second that it uses when alone
        SimTime latency =
            0;  // the part of its duration that does not load the links: after the last byte left
        std::uint32_t first_link = 0, link_count = 0;  // none: not a flow
    };

    // Capacities in bytes per second, above zero; demands never exceed the rate of the narrowest link.
    FlowTable(const CompiledSchedule& compiled, std::vector<double> capacities);

    // `links` must not repeat one; without any the slot keeps its fixed duration.
    void add(std::uint32_t slot, std::span<const int> links, double demand, SimTime latency);
    // After the flows are there: a slower link slows them, their demands stay.
    void set_capacity(int link, double bytes_per_second);

    [[nodiscard]] const Flow* flow(std::uint32_t slot) const {
        return flow_of_slot_[slot].link_count == 0 ? nullptr : &flow_of_slot_[slot];
    }
    [[nodiscard]] std::span<const int> links(const Flow& flow) const {
        return {routes_.data() + flow.first_link, flow.link_count};
    }
    [[nodiscard]] std::span<const double> capacities() const { return capacities_; }
    [[nodiscard]] std::size_t flows() const { return flows_; }

  private:
    std::vector<double> capacities_;
    std::vector<Flow> flow_of_slot_;
    std::size_t flows_ = 0;
    std::vector<int> routes_;
};

// Costs of one step. Where node_duration is not empty it holds every node's duration by position and the
// table only the host's part (jitter: instructions of one class differ).
struct StepCosts {
    const CostTable* table = nullptr;
    std::span<const SimTime> node_duration{};
};

struct EventCounts {
    std::int64_t nodes = 0;    // completed
    std::int64_t flows = 0;    // of them, over links
    std::int64_t slowed = 0;   // flows that had less than their demand for a while
    std::int64_t retimed = 0;  // changes of a flow's end
    [[nodiscard]] std::int64_t events() const { return nodes + flows + retimed; }  // a flow starts and ends
};

// All times of a run; reused buffers.
struct EventRun {
    StepTimes times;
    EventCounts counts;
    std::size_t entries = 0;    // time entries of a step
    std::vector<SimTime> time;  // steps one after the other, as CompiledSchedule indexes them
    std::vector<std::vector<SimTime>> rank_end;  // by step and program
    [[nodiscard]] std::span<const SimTime> step(std::size_t s) const {
        return {time.data() + s * entries, entries};
    }
};

class EventEngine {
  public:
    // Keeps references to both; `flows` may be null.
    explicit EventEngine(const CompiledSchedule& compiled, const FlowTable* flows = nullptr);

    // Simulates one step for each entry (one alone where the schedule never flushes: it spans its own steps).
    // The tables agree on whether there is a host.
    void run(std::span<const StepCosts> steps, EventRun& out);

  private:
    static constexpr SimTime kEnded = -1;  // the end of a flow that has ended, until its id is used again
    // A flow from when its start is known until it ends. A cache line: a change of rates hops among them.
    struct alignas(64) ActiveFlow {
        std::uint32_t step = 0, node = 0;
        double demand = 0;     // bytes per second
        double remaining = 0;  // picoseconds at full speed, at `since`
        double speed = 0;      // share of the demand; 0: not solved yet
        SimTime since = 0;
        SimTime end = 0;  // if no rate changes; kNever: it has not started
        SimTime latency = 0;
        bool slowed = false;
    };
    // What running an entity takes, side by side; a carry has successors alone.
    struct Node {
        std::uint32_t pred0 = 0, pred1 = 0, slot = 0;
        std::uint32_t successors = 0;  // the first; those of the next entity follow
    };
    // A step of a run: views into what the run holds.
    struct Step {
        SimTime* time = nullptr;
        // Predecessors not yet known, by node and by program: a node has at most four.
        std::uint8_t* waiting = nullptr;
        std::uint32_t* carry_waiting = nullptr;
        const SimTime* slot_duration = nullptr;  // where node_duration is null
        const SimTime* node_duration = nullptr;
        const CostTable* table = nullptr;
        const SimTime* host_offset = nullptr;
        [[nodiscard]] SimTime duration(std::uint32_t node, std::uint32_t slot) const {
            return node_duration != nullptr ? node_duration[node] : slot_duration[slot];
        }
    };
    struct Known {
        std::uint32_t step, entity;
    };
    void link();
    void make_host_offsets(std::span<const StepCosts> steps);
    void make_ready(std::uint32_t step, std::uint32_t entity);
    void make_carry(std::uint32_t step, std::uint32_t rank);
    void tell_successors(std::uint32_t step, std::uint32_t entity);  // that it is known
    void queue_start(std::uint32_t step, std::uint32_t node, SimTime start, SimTime duration,
                     const FlowTable::Flow& flow);
    [[nodiscard]] ActiveFlow& active_flow(FairShare::FlowId id) {
        return active_[static_cast<std::size_t>(id)];
    }
    void start_flow(FairShare::FlowId id, SimTime now);
    void end_flow(FairShare::FlowId id, SimTime now);
    void retime_flows(SimTime now);
    void summarise();

    const CompiledSchedule& compiled_;
    const FlowTable* flows_;
    std::uint32_t nodes_, entities_;  // nodes, then one carry a program: what it hands to its next step
    std::vector<Node> node_;          // by entity, and one behind the last
    std::vector<std::uint32_t> successors_, lane_begin_;
    std::vector<std::uint8_t> pending_;         // predecessors, by node
    std::vector<std::uint32_t> carry_pending_;  // and by program

    // Of a run.
    std::vector<Step> steps_;
    EventRun* out_ = nullptr;
    bool host_ = false;
    std::vector<std::uint8_t> waiting_;              // by step and node
    std::vector<std::uint32_t> carry_waiting_;       // by step and program
    std::vector<Known> known_;                       // whose successors have not been told yet
    EventTree events_;                               // by flow id: its start or its end
    std::vector<std::vector<SimTime>> host_offset_;  // by table
    FairShare share_{{}};
    std::vector<ActiveFlow> active_;  // by flow id
};

}  // namespace tw
