#include "real_exec/runtime/executor.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.hpp"
#include "real_exec/layers/model_style_json.hpp"
#include "real_exec/runtime/driven_communicator.hpp"

namespace tw {
namespace {

// The step, from 0, that each instruction of a program without flush belongs to: its microbatch's; an
// update's, its collectives' and its versions' that of the backward before it.
std::vector<std::int64_t> steps_of(const RankProgram& program, int microbatches) {
    std::vector<std::int64_t> steps;
    steps.reserve(program.instructions.size());
    std::int64_t current = 0;
    for (const Instruction& in : program.instructions) {
        const std::int64_t own = in.microbatch >= 0 ? in.microbatch / microbatches : current;
        if (is_backward(in.opcode)) current = own;
        steps.push_back(own);
    }
    return steps;
}

}  // namespace

Executor::Executor(const PlanDocument& document, const Schedule& schedule, Transport& transport,
                   Backend& backend, const Dataset& dataset, const RunClock& clock,
                   const TrainOptions& options)
    : document_(document),
      plan_(document.plan),
      graph_(document.graph),
      schedule_(schedule),
      transport_(transport),
      backend_(backend),
      dataset_(dataset),
      clock_(clock),
      options_(options),
      injected_(options.faults.size(), -1) {}

Executor::~Executor() = default;

Result<std::unique_ptr<Executor>> Executor::create(const PlanDocument& document, const Schedule& schedule,
                                                   Transport& transport, Backend& backend,
                                                   const Dataset& dataset, const RunClock& clock,
                                                   const TrainOptions& options) {
    std::unique_ptr<Executor> executor(
        new Executor(document, schedule, transport, backend, dataset, clock, options));
    if (const Status built = executor->build(); !built) return built.errors();
    return executor;
}

Status Executor::build() {
    auto layout = RankLayout::make(plan_, document_.cluster, schedule_.ranks(), transport_.rank());
    if (!layout) return layout.errors();
    layout_ = std::move(*layout);
    if (layout_.world != transport_.size()) {
        return Error{
            ErrorCode::Failure,
            fmt::format("the plan needs {} ranks, {} were started", layout_.world, transport_.size()), "",
            fmt::format("start it with {} ranks", layout_.world)};
    }
    who_ = fmt::format("rank {} (PP{} DP{} TP{})", layout_.rank, layout_.pipeline_rank, layout_.dp_rank,
                       layout_.tp_rank);
    const auto method = sync_method_of(plan_.gradient_sync);
    TW_CHECK_MSG(method, "a synchronisation that the executor's verdict should have refused");
    method_ = *method;
    auto groups = Groups::create(transport_, layout_, schedule_,
                                 {.replica_norms = steps_alone(method_),
                                  .shard = plan_.zero_stage > 0 ? plan_.zero_shard : 0,
                                  .layer_by_layer = plan_.zero_stage > 1,
                                  .experts = graph_.experts > 0});
    if (!groups) return groups.errors();
    groups_ = std::move(*groups);
    lanes_ = std::make_unique<Lanes>(transport_, clock_, *this, who_, options_.watchdog_s);
    driven_tp_ = drive(*groups_.tp, *lanes_);
    driven_ep_ = drive(*groups_.ep, *lanes_);
    program_ = &schedule_.programs[static_cast<std::size_t>(layout_.pipeline_rank)];

    const auto stages = static_cast<std::size_t>(schedule_.stages);
    hooks_.resize(stages);
    modules_.resize(stages);
    states_.resize(stages);
    partials_summed_.resize(stages);
    compressed_.resize(stages);
    servers_.resize(stages);
    if (plan_.precision.compute == Precision::Fp16) scaler_ = LossScaler(options_.loss_scale);
    if ((compresses(method_) || method_ == SyncMethod::ServerAsync) && !backend_.host_memory()) {
        return Error{ErrorCode::Usage, fmt::format("{} works on host memory alone", plan_.gradient_sync),
                     "/plan/gradient_sync", "all-reduce or ps-sync, or the cpu backend"};
    }
    stage_updates_.assign(stages, 0);
    count_updates();
    const ModelStyle style = style_of(graph_, document_.model_document);
    for (const std::uint16_t s : schedule_.stages_of_rank(layout_.pipeline_rank)) {
        hooks_[s] = std::make_unique<LayerSharding>(backend_, groups_, *lanes_);
        ModuleContext context;
        context.backend = &backend_;
        context.tp = driven_tp_.get();
        context.ep = driven_ep_.get();
        context.hooks = hooks_[s].get();
        context.seed = options_.seed;
        context.style = &style;
        context.dropout = plan_.dropout ? options_.dropout : 0;
        auto module = make_stage_module(graph_, plan_, s, context);
        if (!module) return module.errors();
        modules_[s] = std::move(*module);
        states_[s] = std::make_unique<StageState>(*modules_[s], state_options(s));
        hooks_[s]->attach(*states_[s]);
        partials_summed_[s].assign(states_[s]->buckets().size(), 0);
        if (!compresses(method_)) continue;
        for (const Bucket& bucket : states_[s]->buckets()) {
            const Communicator& group = groups_.replicas(s, bucket.expert);
            compressed_[s].push_back(group.size() == 1
                                         ? nullptr
                                         : make_compressed_reduce(method_, sync_options(), bucket.elements,
                                                                  group.size(), group.rank(), backend_));
        }
    }
    return ok();
}

void Executor::begin(std::int64_t first_step) {
    start_prefetching(first_step);
    if (method_ != SyncMethod::ServerAsync) return;
    ParameterServer::Schedule schedule;
    schedule.first_step = first_step;
    schedule.steps = options_.steps;
    schedule.global_batch = plan_.global_batch;
    schedule.staleness = sync_options().staleness;
    for (std::size_t s = 0; s < states_.size(); ++s) {
        // One replica has nobody to serve.
        if (!states_[s] || groups_.replicas(static_cast<int>(s), false).size() == 1) continue;
        servers_[s] = std::make_unique<ParameterServer>(backend_, *states_[s], groups_, *lanes_,
                                                        plan_.optimizer, options_.optimizer, schedule);
    }
}

// Others may still be at work, and need this rank's shards.
void Executor::finish(std::int64_t steps_done) {
    if (method_ == SyncMethod::ServerAsync && steps_done < options_.steps) {
        for (const auto& server : servers_)
            if (server) server->end_after(steps_done);
        // No server is to take what closes its workers for a push.
        GatheredNumbers all(*groups_.world, {0.0});
        lanes_->wait(all.request(), "the other workers to end");
        for (const auto& server : servers_)
            if (server) server->close();
    }
    lanes_->wait_until(
        [this] {
            return std::all_of(servers_.begin(), servers_.end(),
                               [](const auto& server) { return !server || server->finished(); });
        },
        "the other workers' last pushes");
}

bool Executor::serve() {
    bool served = false;
    for (const auto& server : servers_) {
        if (server) served |= server->serve();
    }
    return served;
}

// How many of its own backwards a stage's updates wait for, where the schedule does not flush.
void Executor::count_updates() {
    backwards_per_update_.assign(static_cast<std::size_t>(schedule_.stages), 0);
    if (schedule_.boundary != StepBoundary::None) return;
    std::vector<int> backwards(backwards_per_update_);
    for (const Instruction& in : program_->instructions) {
        if (in.opcode == Opcode::Backward || in.opcode == Opcode::BackwardWeight) ++backwards[in.stage];
        if (in.opcode == Opcode::OptimizerStep && backwards_per_update_[in.stage] == 0)
            backwards_per_update_[in.stage] = backwards[in.stage];
    }
}

// The one parameter that both ends of a pipeline hold: the table of tokens, at the other end the projection
// to logits.
bool Executor::is_tied(int stage, const Parameter& p) const {
    if (!graph_.tied_embeddings || schedule_.stages < 2) return false;
    const LayerRole role = graph_.layer(p.layer).role;
    const bool end = (stage == 0 && role == LayerRole::Embedding) ||
                     (stage == schedule_.stages - 1 && role == LayerRole::Head);
    const std::int64_t rows = padded_vocab(graph_.vocab, plan_.vocab_divisor, plan_.mesh.tp);
    return end && p.full_shape.rank == 2 && p.full_shape[0] == rows;
}

StageStateOptions Executor::state_options(int stage) const {
    const StageSpec& spec = plan_.stages[static_cast<std::size_t>(stage)];
    StageStateOptions o;
    o.backend = &backend_;
    o.stage = stage;
    o.first_layer = spec.first_layer;
    o.last_layer = spec.last_layer;
    for (const Instruction& in : program_->instructions) {
        const bool gradients = in.opcode == Opcode::AllReduce || in.opcode == Opcode::ReduceScatter;
        if (gradients && in.group == 0 && in.stage == stage)
            o.chunks = std::max(o.chunks, static_cast<int>(in.part) + 1);
    }
    const ShardGroups dense = groups_.shards(stage, false), expert = groups_.shards(stage, true);
    o.dense_replicas = dense.shard->size();
    o.dense_index = dense.shard->rank();
    o.dense_copy = dense.copies != nullptr ? dense.copies->rank() : 0;
    o.expert_replicas = expert.shard->size();
    o.expert_index = expert.shard->rank();
    o.expert_copy = expert.copies != nullptr ? expert.copies->rank() : 0;
    o.tp_rank = layout_.tp_rank;
    o.shard_update = plan_.zero_stage > 0 || shards_update(method_);
    o.separate_master = method_ == SyncMethod::ServerAsync;
    o.own_gradients = steps_alone(method_);
    o.shard_gradients = plan_.zero_stage > 1;
    o.shard_parameters = plan_.zero_stage > 2;
    o.compute = dtype_of(plan_.precision.compute);
    o.gradient = plan_.precision.gradient_fp32 ? DType::F32 : o.compute;
    o.optimizer = plan_.optimizer;
    o.tied = [this, stage](const Parameter& p) { return is_tied(stage, p); };
    o.counts_tied = stage == 0;
    const bool whole_model = schedule_.stages == 1 && graph_.tied_embeddings;
    if (whole_model) {
        // One stage holds both ends: its head computes with the embedding's table.
        o.other_users = [this](const Parameter& p) {
            std::vector<int> users;
            if (graph_.layer(p.layer).role != LayerRole::Embedding) return users;
            for (int layer = 0; layer < graph_.size(); ++layer) {
                if (graph_.layer(layer).role == LayerRole::Head) users.push_back(layer);
            }
            return users;
        };
    }
    return o;
}

std::map<int, std::int64_t> Executor::layer_updates() const {
    std::map<int, std::int64_t> updates;
    for (std::size_t s = 0; s < states_.size(); ++s) {
        if (!states_[s]) continue;
        const std::int64_t own = servers_[s] ? servers_[s]->updates() : stage_updates_[s];
        const StageStateOptions& stage = states_[s]->options();
        for (int layer = stage.first_layer; layer < stage.last_layer; ++layer)
            updates[layer] = states_[s]->earlier_updates(layer) + own;
    }
    return updates;
}

Status Executor::run(std::int64_t step, const AfterStep& after_step, const EndsBefore& ends_before) {
    first_step_ = step;
    numbers_ = StepNumbers{};
    step_scale_ = scaler_.scale();
    skip_ = false;
    if (scaler_.on()) numbers_.loss_scale = step_scale_;
    tied_summed_ = false;
    for (std::vector<char>& summed : partials_summed_)
        std::fill(summed.begin(), summed.end(), 0);
    lanes_->begin(*program_, static_cast<std::int32_t>(step));
    if (traced()) backend_.align_clocks();
    const bool flushes = schedule_.boundary != StepBoundary::None;
    if (flushes) {
        for (std::uint32_t i = 0; i < program_->instructions.size(); ++i)
            run_instruction(i);
    } else if (Status ran = run_without_flush(after_step, ends_before); !ran) {
        return ran;
    }
    lanes_->drain();
    TW_CHECK_MSG(slots_.empty() && activations_in_.empty() && activations_out_.empty() && grads_in_.empty() &&
                     grads_out_.empty(),
                 "a step left tensors behind");
    if (!flushes) return ok();
    numbers_.waited_s = lanes_->waited_s();
    return after_step(step, numbers_);
}

void Executor::run_instruction(std::uint32_t index) {
    const Instruction& in = program_->instructions[index];
    inject_before(index);
    switch (in.stream) {
        case Stream::Dp:
        case Stream::P2p:
        case Stream::Tp:
            before_enqueue(in);
            lanes_->enqueue(index);
            break;
        default:
            lanes_->wait_for_dependencies(index);
            lanes_->host_started(index);
            lanes_->host_finished(index, run_host(index));
            if (traced()) sample_memory();
    }
}

Status Executor::run_without_flush(const AfterStep& after_step, const EndsBefore& ends_before) {
    const std::vector<std::int64_t> steps = steps_of(*program_, schedule_.microbatches);
    // A rank has done step k when it has updated after the last of k's backwards.
    std::vector<std::size_t> last(static_cast<std::size_t>(schedule_.steps));
    for (std::size_t i = 0; i < steps.size(); ++i) {
        const Opcode opcode = program_->instructions[i].opcode;
        if (is_backward(opcode) || opcode == Opcode::OptimizerStep)
            last[static_cast<std::size_t>(steps[i])] = i;
        lanes_->events()[i].step = static_cast<std::int32_t>(first_step_ + steps[i]);
    }
    std::int64_t begun = 0, end = kNever;
    for (std::uint32_t i = 0; i < steps.size(); ++i) {
        if (steps[i] > begun && steps[i] < end) {
            begun = steps[i];
            if (ends_before(first_step_ + begun)) end = begun;
        }
        if (steps[i] >= end) {
            lanes_->leave_out(i);
            continue;
        }
        run_instruction(i);
        if (last[static_cast<std::size_t>(steps[i])] != i) continue;
        numbers_.waited_s = lanes_->waited_s();
        if (Status done = after_step(first_step_ + steps[i], numbers_); !done) return done;
        numbers_ = StepNumbers{};
        if (traced()) backend_.align_clocks();
    }
    return ok();
}

std::int64_t Executor::steps_ahead() const {
    std::int64_t most = 0;
    if (schedule_.boundary != StepBoundary::None) return most;
    for (const RankProgram& program : schedule_.programs) {
        const std::vector<std::int64_t> steps = steps_of(program, schedule_.microbatches);
        std::vector<std::int64_t> oldest(steps);  // of those from here on
        for (std::size_t i = steps.size(); i-- > 1;)
            oldest[i - 1] = std::min(oldest[i - 1], oldest[i]);
        std::int64_t begun = 0;
        for (std::size_t i = 0; i < steps.size(); ++i) {
            begun = std::max(begun, steps[i]);
            most = std::max(most, begun - oldest[i]);
        }
    }
    return most;
}

}  // namespace tw
