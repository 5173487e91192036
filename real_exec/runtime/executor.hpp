// Executor: interprets a Schedule on one rank. Computes run on the host's thread in program order; transfers
// and collectives run on their lanes, as the simulator has them. One object a rank; all ranks of the run call
// the same functions.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/result.hpp"
#include "plan/plan_json.hpp"
#include "plan/schedule/schedule.hpp"
#include "real_exec/backend/backend.hpp"
#include "real_exec/data/dataset.hpp"
#include "real_exec/data/prefetcher.hpp"
#include "real_exec/layers/stage_module.hpp"
#include "real_exec/runtime/compressed_reduce.hpp"
#include "real_exec/runtime/gather.hpp"
#include "real_exec/runtime/groups.hpp"
#include "real_exec/runtime/lanes.hpp"
#include "real_exec/runtime/layer_sharding.hpp"
#include "real_exec/runtime/loss_scaler.hpp"
#include "real_exec/runtime/parameter_server.hpp"
#include "real_exec/runtime/rank_layout.hpp"
#include "real_exec/runtime/stage_state.hpp"
#include "real_exec/runtime/train_options.hpp"

namespace tw {

// What one step was on this rank.
struct StepNumbers {
    double loss_sum = 0;  // of this rank's targets, where it has the last stage
    double loss_count = 0;
    double square_sum = 0;  // of the gradients that this rank owns, before clipping
    double norm = -1;       // of the whole model's gradient; < 0: not known on this rank
    double waited_s = 0;
    double loss_scale = 0;  // of fp16; 0: none
    bool skipped = false;   // the gradient overflowed: nothing was updated
};

class Executor final : public LaneHandler {
  public:
    // Everything but the options is kept by reference and outlives the executor. Creates communicators and
    // memory: all ranks call it together.
    static Result<std::unique_ptr<Executor>> create(const PlanDocument& document, const Schedule& schedule,
                                                    Transport& transport, Backend& backend,
                                                    const Dataset& dataset, const RunClock& clock,
                                                    const TrainOptions& options);
    ~Executor() override;

    // Between the state's first values and the first step, `first_step`; and after the last one, when
    // `steps_done` are done, earlier runs' among them: fewer than asked for where the run ends early. All
    // ranks call them together.
    void begin(std::int64_t first_step);
    void finish(std::int64_t steps_done);

    // Runs the program once: step `step` of a schedule that flushes, all steps of one that does not, from
    // `step` on. `after_step` is called when this rank is done with a step, before it begins the next.
    // `ends_before` is asked before this rank begins anything of a further step of a schedule that does not
    // flush: true leaves that step and all after it out, so that the pipeline drains as that of a shorter
    // run does. All ranks are told the same.
    using AfterStep = std::function<Status(std::int64_t step, const StepNumbers& numbers)>;
    using EndsBefore = std::function<bool(std::int64_t step)>;
    Status run(std::int64_t step, const AfterStep& after_step, const EndsBefore& ends_before);
    // How many steps any rank may have begun beyond the oldest that it is not done with; 0 where all flush.
    [[nodiscard]] std::int64_t steps_ahead() const;

    // Local SGD: averages the replicas' parameters unless step `last_step` did; others are equal already. All
    // ranks call it together, between two steps.
    void make_replicas_equal(std::int64_t last_step);

    [[nodiscard]] const RankLayout& layout() const { return layout_; }
    [[nodiscard]] Groups& groups() { return groups_; }
    [[nodiscard]] Lanes& lanes() { return *lanes_; }
    // By virtual stage; null where another rank has it.
    [[nodiscard]] std::vector<std::unique_ptr<StageState>>& states() { return states_; }
    // Optimizer updates so far of this rank's layers, those before a checkpoint included.
    [[nodiscard]] std::map<int, std::int64_t> layer_updates() const;
    [[nodiscard]] LossScaler& loss_scaler() { return scaler_; }
    [[nodiscard]] const LossScaler& loss_scaler() const { return scaler_; }
    [[nodiscard]] const std::string& who() const { return who_; }
    // While a trace is asked for: what is held after each of the host's instructions where that changed, and
    // the peak inside of one where it is the run's so far. The caller takes them out.
    [[nodiscard]] std::vector<MemorySample>& memory_samples() { return memory_; }

    std::vector<RequestPtr> start(std::uint32_t index) override;
    void complete(std::uint32_t index) override;
    bool serve() override;

  private:
    using Cell = std::pair<int, int>;  // stage, microbatch
    struct BatchMemory {
        Buffer tokens, targets, images;
    };

    Executor(const PlanDocument& document, const Schedule& schedule, Transport& transport, Backend& backend,
             const Dataset& dataset, const RunClock& clock, const TrainOptions& options);
    Status build();
    [[nodiscard]] StageStateOptions state_options(int stage) const;
    [[nodiscard]] bool traced() const { return !options_.trace.empty(); }
    [[nodiscard]] bool is_tied(int stage, const Parameter& parameter) const;
    void count_updates();
    void run_instruction(std::uint32_t index);
    Status run_without_flush(const AfterStep& after_step, const EndsBefore& ends_before);

    // executor_compute.cpp
    // When the device ran it, while a trace is asked for.
    std::optional<DeviceTimes> run_host(std::uint32_t index);
    void compute(const Instruction& in);
    void sample_memory();
    void forward(int stage, int microbatch, int version);
    void backward(const Instruction& in, int stage, int microbatch);
    [[nodiscard]] std::int64_t first_sample_of(int microbatch) const;
    void start_prefetching(std::int64_t first_step);
    const HostBatch& host_batch(std::int64_t step, std::int64_t first_sample);
    Batch make_batch(int stage, int microbatch, BatchMemory& memory);
    void inject_before(std::uint32_t index);
    [[nodiscard]] double loss_scale_of(int microbatch, int stage);
    [[nodiscard]] double mean_factor(int microbatch, int stage);
    [[nodiscard]] int pipeline_rank_of(int stage, int microbatch) const;
    [[nodiscard]] Tensor view(const Buffer& buffer, const Shape& shape, int stage) const;

    // executor_sync.cpp
    std::vector<RequestPtr> start_gradients(const Instruction& in);
    std::vector<RequestPtr> start_compressed(const Instruction& in);
    std::vector<RequestPtr> start_parameters(const Instruction& in);
    std::vector<RequestPtr> start_tied(const Instruction& in);
    std::vector<RequestPtr> start_norm();
    void complete_norm();
    void before_enqueue(const Instruction& in);
    void sum_tied_on_this_rank();
    void optimizer_step(const Instruction& in);
    void update_stage(StageState& state);
    void average_parameters(StageState& state);
    [[nodiscard]] bool averages_after(std::int64_t step) const;
    [[nodiscard]] std::int64_t step_of_update(int stage) const;
    [[nodiscard]] const SyncOptions& sync_options() const {
        return options_.sync ? *options_.sync : plan_.gradient_sync_options;
    }

    // layerwise_step.cpp
    void lamb_step(StageState& state, const UpdateSpec& spec);
    void lars_step(StageState& state, const UpdateSpec& spec);
    void sum_over_shards(const StageState& state, std::vector<double>& squares);
    void refuse_not_finite();

    const PlanDocument& document_;
    const ParallelPlan& plan_;
    const LayerGraph& graph_;
    const Schedule& schedule_;
    Transport& transport_;
    Backend& backend_;
    const Dataset& dataset_;
    const RunClock& clock_;
    TrainOptions options_;

    RankLayout layout_;
    std::string who_;
    Groups groups_;
    std::unique_ptr<Lanes> lanes_;
    std::unique_ptr<Communicator> driven_tp_, driven_ep_;
    std::vector<std::unique_ptr<LayerSharding>> hooks_;
    std::vector<std::unique_ptr<StageModule>> modules_;
    std::vector<std::unique_ptr<StageState>> states_;
    std::vector<int> backwards_per_update_;  // by stage; 0: all of a step

    // The program that runs.
    const RankProgram* program_ = nullptr;
    std::int64_t first_step_ = 0;
    std::map<Cell, int> slots_;  // of the module, from forward to backward
    std::vector<int> free_slots_;
    int next_slot_ = 0;
    std::map<Cell, Buffer> activations_in_, activations_out_, grads_in_, grads_out_;
    std::vector<std::vector<char>> partials_summed_;  // by stage and bucket, in this step
    bool tied_summed_ = false;
    std::unique_ptr<GatheredNumbers> norm_;
    StepNumbers numbers_;
    SyncMethod method_ = SyncMethod::Reduce;
    std::vector<std::vector<std::unique_ptr<CompressedReduce>>> compressed_;  // by stage and bucket
    std::vector<std::unique_ptr<ParameterServer>> servers_;                   // by stage
    LossScaler scaler_;
    double step_scale_ = 1;                    // of the gradients of the step that runs
    bool skip_ = false;                        // its gradient overflowed
    std::vector<std::int64_t> stage_updates_;  // of this run
    std::vector<std::int64_t> injected_;       // by fault: the last step that it happened in
    bool poison_ = false;
    std::unique_ptr<Prefetcher> prefetcher_;
    std::vector<HostBatch> samples_;  // of samples_step_
    std::int64_t samples_step_ = -1;
    std::int64_t masked_targets_step_ = -1;
    double masked_targets_ = 0;
    std::vector<MemorySample> memory_;
    std::size_t sampled_peak_ = 0;
};

}  // namespace tw
