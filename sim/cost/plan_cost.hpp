// PlanCost: the duration of every instruction of a plan's schedule, with what it is made of.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "plan/schedule/generator.hpp"
#include "sim/cost/shape_cost.hpp"
#include "sim/engine/engine.hpp"

namespace tw {

struct FrameworkDefaults;

inline SimTime sim_time(double seconds) {
    return to_sim_time(Seconds(seconds));
}

struct TransferCost {
    double seconds = 0, sigma_s = 0, bytes = 0;
    double taken_s = 0;  // from the kernels beside it (sim/collectives/multiprocessors.hpp)
    ErrorSource source = ErrorSource::IntraNode;
    std::string_view algorithm;
    bool out_of_range = false;
};

// What a synchronisation other than all-reduce and ZeRO costs one rank of a stage, each time that gradients
// are synchronised (plan/gradient_sync); of local steps, its share of a step.
struct SyncTraffic {
    double wire_bytes = 0;                  // sent by the rank
    double server_bytes = 0;                // through one server's port, of all workers, the busier direction
    double server_s = 0;                    // of that port
    double memory_bytes = 0;                // error feedback, buffers
    double kernel_bytes = 0, kernel_s = 0;  // to compress and decompress; in optimizer_s
};

struct StageCostSet {
    PhaseCost forward, backward, backward_input, backward_weight;
    double dense_parameters = 0, expert_parameters = 0;  // held by one rank
    double optimizer_s = 0, optimizer_sigma_s = 0;       // one step's update, gradient norm included
    double step_dispatches = 0;                          // of the host, for one update
    TransferCost gradient_sync;                          // all of the stage's gradients, once
    TransferCost parameter_gather;                       // ZeRO-1/2
    double gather_pieces = 1;                            // collectives that it is made of
    SyncTraffic sync;
    TransferCost average;          // local SGD: of the parameters, behind the update; a step's share
    TransferCost send_activation;  // to the next stage
    TransferCost send_gradient;    // to the previous stage
    double stash_s = 0;            // copy of the weights (PipeDream)
    // Activations that are offloaded cross PCIe layer by layer: each layer's beside the next layer's forward,
    // and before its backward beside that of the layer behind it, two layers' buffers in turn (Transformer
    // Engine, cpu_offload.py: AsyncDoubleBufferGroupOffloadHandler, which Megatron-LM's
    // --cpu-offloading-num-layers uses). A forward or backward takes no less than the copies beside it
    // (PhaseCost::offload_wait_s); this is the copy of the last layer, which stands beside none.
    double offload_s = 0;
};

class PlanCost {
  public:
    // `plan` has passed check_plan; rank_of_stage is its schedule's placement. Equal stages share one
    // computation. Keeps references to `environment` and `plan`.
    PlanCost(const Environment& environment, const ParallelPlan& plan,
             std::span<const std::uint16_t> rank_of_stage, ShapeCostCache& cache);
    PlanCost(const Environment& environment, ParallelPlan&& temporary,
             std::span<const std::uint16_t> rank_of_stage, ShapeCostCache& cache) = delete;

    [[nodiscard]] const StageCostSet& stage(int s) const { return *stages_[static_cast<std::size_t>(s)]; }
    [[nodiscard]] int stages() const { return static_cast<int>(stages_.size()); }
    [[nodiscard]] const ShapeCost& shape(int s) const { return *shapes_[static_cast<std::size_t>(s)]; }
    [[nodiscard]] std::vector<double> parameters() const;  // of each virtual stage, one rank
    [[nodiscard]] const TransferCost& tied_embeddings() const { return tied_; }
    [[nodiscard]] const TransferCost& gradient_norm() const { return norm_; }

    // Relative standard deviation of the host's time per dispatched operation.
    [[nodiscard]] double dispatch_sigma() const;

    // Of a stage's gather of updated parameters, what the stage's first forward waits for, in seconds: all of
    // it, or where it stands beside the forward, its first piece, and what of the others outlasts the
    // forward. A layer waits for its own piece alone, which lets the next one go (Megatron-LM
    // core/distributed/param_and_grad_buffer.py, finish_param_sync: next_param_gather_bucket_group; FSDP
    // likewise, layer by layer).
    [[nodiscard]] double waited_gather(int s) const;

    // What drives cost-driven generators.
    [[nodiscard]] StageCosts stage_costs() const;

    struct InstructionCost {
        SimTime duration = 0, dispatch = 0, host_path = 0;
    };
    // `schedule` is the one the key belongs to: it says into how many chunks a last backward is cut.
    [[nodiscard]] InstructionCost cost(const DurationKey& key, const std::vector<int>& chunks) const;
    // The least that a step takes of asynchronous parameter servers. A worker waits for nobody but the
    // server, so its own step takes what it computes, pushes and pulls alone (Dean et al. 2012, section 4.1).
    // Each of n workers makes a step in a period, and all of their bytes pass the servers' ports: the period
    // is at least the time that one port needs for them. The step time is the larger of the two, the bound of
    // a closed network of queues (Denning and Buzen 1978, section 5); how long pushes that meet at a port
    // wait for each other below that bound is not modelled. 0 of any other synchronisation.
    [[nodiscard]] SimTime least_period(const Schedule& schedule) const;
    [[nodiscard]] CostTable table(const Schedule& schedule, const CompiledSchedule& compiled) const;

  private:
    [[nodiscard]] StageCostSet make_stage(int s, const ShapeCost& shape,
                                          const std::vector<StageSegment>& segments) const;
    [[nodiscard]] TransferCost transfer(Axis axis, CollectiveKind kind, double bytes,
                                        const GroupPlacement& group, int node_group) const;
    // Gradients and parameters of a stage by the plan's registered method (plan/gradient_sync).
    void synchronise_by_method(StageCostSet& stage, int node_group) const;
    // Into how many collectives the framework cuts so many parameters of the stage.
    [[nodiscard]] double pieces(int stage, double parameters, double element_bytes) const;
    // So many parameters of the stage, of `element_bytes` each, in pieces of at most one bucket.
    [[nodiscard]] TransferCost bucketed(CollectiveKind kind, int stage, double parameters,
                                        double element_bytes, const GroupPlacement& group) const;

    const Environment& environment_;
    const ParallelPlan& plan_;
    const FrameworkDefaults& framework_;
    RankPlacement placement_;
    AxisCollectives collectives_;
    std::vector<std::uint16_t> rank_of_stage_;
    std::vector<GroupPlacement> links_;  // from each pipeline rank to the next
    std::vector<std::shared_ptr<const ShapeCost>> shapes_;
    std::vector<std::shared_ptr<const StageCostSet>> stages_;
    TransferCost tied_, norm_;
};

// Of one dispatch of what the framework's host does beside its layers.
double dispatch_seconds(const Environment& environment, const FrameworkDefaults& framework, int node_group);

// Chunks of each stage's last backward in a schedule: 1 where it is whole.
std::vector<int> backward_chunks(const Schedule& schedule);

}  // namespace tw
