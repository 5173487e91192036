// Pipeline schedules: one generator a file in generators/, listed in registry.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/sim_time.hpp"
#include "plan/schedule/schedule.hpp"

namespace tw {

struct ScheduleShape {
    int ranks = 1;               // pipeline ranks p
    int virtual_stages = 1;      // per rank v; stages = p * v
    int microbatches = 1;        // m, a step
    int microbatch_group = 0;    // interleaved: microbatches a rank runs of one chunk before the next; 0: p
    bool vertical_sync = false;  // PipeDream 2019, section 3.3
    // PipeDream's replicated stages: replicas[s] ranks run stage s, round robin over microbatches. Empty: one
    // each.
    std::vector<int> replicas;
    // Schedules that never flush: steps that the order spans; 0: as many as show a steady period.
    int steps = 0;
};

// Costs that drive some orders (zb-auto); the others ignore them. One entry a virtual stage.
struct StageCosts {
    std::vector<SimTime> forward, backward_input, backward_weight;
    SimTime transfer = 0;                    // one activation or gradient between neighbours
    std::vector<double> activation_bytes;    // held from F to W
    std::vector<double> weight_grad_bytes;   // of these, held from B to W
    std::vector<double> memory_limit_bytes;  // per pipeline rank, for activations; empty: unlimited
};

struct GeneratorInfo {
    std::string name;    // "zb-h1"
    std::string title;   // "Zero Bubble H1"
    std::string source;  // paper and section
    Semantics semantics = Semantics::Synchronous;
    StepBoundary boundary = StepBoundary::Barrier;
    bool virtual_stages = false;   // v > 1 is allowed
    int fixed_virtual_stages = 0;  // ZB-V, DualPipeV: exactly this v; 0: free
    bool overlaps_passes = false;  // has OverlapForwardBackward (DualPipeV)
    // 1F1B with the chunks of a rank in turn, each for a group of microbatches (ScheduleShape's
    // microbatch_group).
    bool interleaved = false;
    bool combines_passes = false;  // ... with each backward beside a forward, to hide experts' exchanges
    bool splits_backward = false;
    bool uses_costs = false;
    bool uses_memory_limit = false;  // ... and StageCosts::memory_limit_bytes
    bool replicates = false;         // replicas > 1 are allowed
};

// Virtual stages that a schedule is made for where nobody says: its own number, two where it may hold
// several, else one.
[[nodiscard]] inline int own_virtual_stages(const GeneratorInfo& info) {
    if (info.fixed_virtual_stages > 0) return info.fixed_virtual_stages;
    return info.virtual_stages ? 2 : 1;
}

class ScheduleGenerator {
  public:
    virtual ~ScheduleGenerator() = default;
    [[nodiscard]] virtual GeneratorInfo info() const = 0;
    // Rules on (p, v, m) that this schedule adds to check_plan's; empty where legal. Each names a legal
    // neighbour.
    [[nodiscard]] virtual Errors check(const ScheduleShape& shape) const = 0;
    // The order; `shape` has passed check(). `costs` may be null: unit costs F = B = W = 1.
    [[nodiscard]] virtual ComputeOrder generate(const ScheduleShape& shape,
                                                const StageCosts* costs) const = 0;
    // Microbatches whose activations a rank holds at most, by stage: min(m, p - s) for 1F1B, m for GPipe.
    [[nodiscard]] virtual std::vector<int> peak_in_flight(
        const ScheduleShape& shape) const;  // by replaying the order
};

// All generators in the order of the table; pointers live for ever.
std::span<const ScheduleGenerator* const> schedule_generators();
Result<const ScheduleGenerator*> find_schedule(std::string_view name);  // unknown: the nearest name and all
std::vector<std::string> schedule_names();
// GeneratorInfo's flags of a schedule by its name; false of a name that no schedule has.
bool is_interleaved(std::string_view schedule);
bool combines_passes(std::string_view schedule);

// check + generate.
Result<ComputeOrder> generate_order(std::string_view name, const ScheduleShape& shape,
                                    const StageCosts* costs = nullptr);

}  // namespace tw
