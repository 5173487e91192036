// The lanes' instructions: transfers, gradient synchronisation, the norm; and the update.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/check.hpp"
#include "real_exec/runtime/executor.hpp"

namespace tw {
namespace {

// Messages of one kind and stage are in one order on both ends; a tag each.
int tag_of(int sender_stage, bool gradient) {
    return 2 * sender_stage + (gradient ? 1 : 0);
}

}  // namespace

std::vector<RequestPtr> Executor::start(std::uint32_t index) {
    const Instruction& in = program_->instructions[index];
    std::vector<RequestPtr> requests;
    const int stage = in.stage;
    const Cell cell{stage, in.microbatch};
    const auto s = static_cast<std::size_t>(stage);
    TW_CHECK_MSG(in.batch_group == 0, "the executor's schedules have no batched transfers");
    switch (in.opcode) {
        case Opcode::SendActivation: {
            const Tensor tensor = view(activations_out_.at(cell), modules_[s]->output_shape(), stage);
            requests.push_back(groups_.pipeline->send(tensor, in.peer, tag_of(stage, false)));
            break;
        }
        case Opcode::SendGrad: {
            const Tensor tensor = view(grads_out_.at(cell), modules_[s]->input_shape(), stage);
            requests.push_back(groups_.pipeline->send(tensor, in.peer, tag_of(stage, true)));
            break;
        }
        case Opcode::RecvActivation:
        case Opcode::RecvGrad: {
            const bool activation = in.opcode == Opcode::RecvActivation;
            const Shape shape = activation ? modules_[s]->input_shape() : modules_[s]->output_shape();
            Buffer buffer = backend_.allocate(modules_[s]->activation_type(), shape, MemoryUse::Activations);
            const int tag = activation ? tag_of(stage - 1, false) : tag_of(stage + 1, true);
            requests.push_back(groups_.pipeline->receive(view(buffer, shape, stage), in.peer, tag));
            (activation ? activations_in_ : grads_in_)[cell] = std::move(buffer);
            break;
        }
        case Opcode::AllReduce:
            if (in.group != 0 && schedule_.boundary != StepBoundary::None) return start_tied(in);
            return start_gradients(in);
        case Opcode::ReduceScatter:
            return start_gradients(in);
        case Opcode::AllGather:
        case Opcode::Broadcast:
            return start_parameters(in);
        case Opcode::GradNorm:
            return start_norm();
        default:
            break;
    }
    return requests;
}

void Executor::complete(std::uint32_t index) {
    const Instruction& in = program_->instructions[index];
    const Cell cell{in.stage, in.microbatch};
    if (in.opcode == Opcode::SendActivation) activations_out_.erase(cell);
    if (in.opcode == Opcode::SendGrad) grads_out_.erase(cell);
    if (in.opcode == Opcode::GradNorm) complete_norm();
}

// Runs on the host, in program order on all ranks: sums over tensor-parallel ranks come before those over
// replicas.
void Executor::before_enqueue(const Instruction& in) {
    const bool gradients = (in.opcode == Opcode::AllReduce || in.opcode == Opcode::ReduceScatter) &&
                           (in.group == 0 || schedule_.boundary == StepBoundary::None);
    // The two ends of tied embeddings: the last layer's reduce-scatter (ZeRO-3) may still be under way.
    const bool tied = in.opcode == Opcode::AllReduce && !gradients;
    if (!gradients && !tied && in.opcode != Opcode::GradNorm && in.opcode != Opcode::OptimizerStep) return;
    for (std::size_t s = 0; s < states_.size(); ++s) {
        if (!states_[s] || (in.opcode != Opcode::GradNorm && !tied && s != in.stage)) continue;
        if (states_[s]->by_layer()) {
            hooks_[s]->finish_gradients();
            continue;
        }
        if (tied) continue;  // tables of tokens are whole on each of their ranks
        std::vector<Bucket>& buckets = states_[s]->buckets();
        for (std::size_t b = 0; b < buckets.size(); ++b) {
            if (partials_summed_[s][b] != 0) continue;
            if (gradients && buckets[b].chunk != static_cast<int>(in.part)) continue;
            partials_summed_[s][b] = 1;
            reduce_tp_partials(*states_[s], buckets[b], *groups_.tp, *lanes_);
        }
    }
}

std::vector<RequestPtr> Executor::start_gradients(const Instruction& in) {
    std::vector<RequestPtr> requests;
    StageState& state = *states_[in.stage];
    if (state.by_layer()) return requests;  // the hooks' work
    if (steps_alone(method_)) return requests;
    if (compresses(method_)) return start_compressed(in);
    std::vector<NextOperation> chain;  // sums over copies come later: in one order on all ranks
    for (const Bucket& bucket : state.buckets()) {
        if (bucket.chunk != static_cast<int>(in.part)) continue;
        Communicator& group = groups_.replicas(in.stage, bucket.expert);
        if (group.size() == 1) continue;
        const ShardGroups shards = groups_.shards(in.stage, bucket.expert);
        if (in.opcode == Opcode::AllReduce) {
            requests.push_back(group.all_reduce(state.grads(bucket)));
        } else if (shards.copies == nullptr) {
            requests.push_back(group.reduce_scatter(state.grads(bucket), state.owned_grads(bucket)));
        } else {
            append_scatter_sum(shards, state.grads(bucket), state.owned_grads(bucket), chain);
        }
    }
    if (!chain.empty()) requests.push_back(chain_operations(std::move(chain)));
    return requests;
}

// One after the other: their later rounds are collectives too, whose order is the same on all ranks. What is
// sent of a gradient that is not finite could be anything, and its residual would stay so.
std::vector<RequestPtr> Executor::start_compressed(const Instruction& in) {
    StageState& state = *states_[in.stage];
    std::vector<NextOperation> operations;
    for (std::size_t b = 0; b < state.buckets().size(); ++b) {
        const Bucket& bucket = state.buckets()[b];
        CompressedReduce* reduce = compressed_[in.stage][b].get();
        if (bucket.chunk != static_cast<int>(in.part) || reduce == nullptr) continue;
        if (!backend_.all_finite(state.grads(bucket))) refuse_not_finite();
        reduce->append(groups_.replicas(in.stage, bucket.expert), state.grads(bucket), operations);
    }
    std::vector<RequestPtr> requests;
    requests.push_back(chain_operations(std::move(operations)));
    return requests;
}

std::vector<RequestPtr> Executor::start_parameters(const Instruction& in) {
    std::vector<RequestPtr> requests;
    StageState& state = *states_[in.stage];
    if (servers_[in.stage]) return servers_[in.stage]->pull();
    for (const Bucket& bucket : state.buckets()) {
        Communicator& group = *groups_.shards(in.stage, bucket.expert).shard;
        if (group.size() == 1) continue;
        requests.push_back(group.all_gather(state.owned_values(bucket), state.values(bucket)));
    }
    return requests;
}

std::vector<RequestPtr> Executor::start_tied(const Instruction& in) {
    std::vector<RequestPtr> requests;
    Communicator& group = *groups_.across[in.group];
    for (const auto& state : states_) {
        if (!state) continue;
        for (const Bucket& bucket : state->buckets()) {
            if (bucket.tied) requests.push_back(group.all_reduce(state->owned_grads(bucket)));
        }
    }
    return requests;
}

// Both ends of the pipeline on one rank (schedules in the shape of a V): no instruction sums their gradients.
void Executor::sum_tied_on_this_rank() {
    if (tied_summed_) return;
    tied_summed_ = true;
    StageState* first = states_.front().get();
    StageState* last = states_.back().get();
    if (first == nullptr || last == nullptr || first == last) return;
    for (const Bucket& low : first->buckets()) {
        if (!low.tied) continue;
        for (const Bucket& high : last->buckets()) {
            if (!high.tied) continue;
            backend_.add(last->owned_grads(high), first->owned_grads(low));
            backend_.copy(first->owned_grads(low), last->owned_grads(high));
        }
    }
}

std::vector<RequestPtr> Executor::start_norm() {
    sum_tied_on_this_rank();
    numbers_.square_sum = 0;
    for (const auto& state : states_) {
        if (state) numbers_.square_sum += state->owned_square_sum();
    }
    // Without clipping no update waits for the others' norms, unless the schedule's steps end with a barrier.
    const bool global =
        options_.optimizer.clip > 0 || schedule_.boundary == StepBoundary::Barrier || scaler_.on();
    if (!global) {
        if (!std::isfinite(numbers_.square_sum)) refuse_not_finite();
        return {};
    }
    norm_ = std::make_unique<GatheredNumbers>(groups_.norm(), std::vector<double>{numbers_.square_sum});
    std::vector<RequestPtr> requests;
    requests.push_back(norm_->take_request());
    return requests;
}

void Executor::complete_norm() {
    if (!norm_) return;
    numbers_.norm = std::sqrt(norm_->sum(0)) / step_scale_;
    norm_.reset();
    if (std::isfinite(numbers_.norm)) {
        scaler_.good_step();
        return;
    }
    if (!scaler_.on()) refuse_not_finite();
    scaler_.overflowed();
    if (scaler_.exhausted()) refuse_not_finite();
    skip_ = numbers_.skipped = true;
}

// The loss or a gradient is no number: says where and ends the run.
void Executor::refuse_not_finite() {
    std::string text;
    if (!std::isfinite(numbers_.loss_sum)) text += fmt::format("; the loss here is {}", numbers_.loss_sum);
    for (std::size_t s = 0; s < states_.size(); ++s) {
        if (!states_[s]) continue;
        const std::string name = states_[s]->first_not_finite();
        if (!name.empty()) text += fmt::format("; the gradient of {} is not finite (stage {})", name, s);
    }
    if (text.empty()) {
        // Another rank's, which speaks; this one stands by in case that none does (a sum that overflowed).
        const double began = clock_.seconds();
        lanes_->wait_until([&] { return clock_.seconds() > began + 2; }, "the rank to name");
    }
    if (text.empty()) text = "; the squares of the gradients add up to no number";
    if (numbers_.norm >= 0 || std::isnan(numbers_.norm))
        text = fmt::format("; the gradient norm is {}", numbers_.norm) + text;
    transport_.abort(1, fmt::format("{}, step {}: {}", who_, lanes_->step(), text.substr(2)));
}

// The training step that the update of a stage belongs to.
std::int64_t Executor::step_of_update(int stage) const {
    if (schedule_.boundary != StepBoundary::None) return first_step_;
    const auto s = static_cast<std::size_t>(stage);
    return first_step_ + stage_updates_[s] * backwards_per_update_[s] * schedule_.replicas_of_stage[s] /
                             schedule_.microbatches;
}

void Executor::optimizer_step(const Instruction& in) {
    StageState& state = *states_[in.stage];
    before_enqueue(in);
    if (schedule_.boundary != StepBoundary::None) {
        sum_tied_on_this_rank();
    } else if (!state.first_not_finite().empty()) {
        refuse_not_finite();  // no norm looks at these gradients
    }
    if (!skip_) update_stage(state);
    state.zero_gradients();
    std::fill(partials_summed_[in.stage].begin(), partials_summed_[in.stage].end(), 0);
    state.latest_is(in.weight_version);
}

void Executor::update_stage(StageState& state) {
    const OptimizerOptions& o = options_.optimizer;
    const auto s = static_cast<std::size_t>(state.options().stage);
    const std::int64_t step = step_of_update(state.options().stage);
    UpdateSpec spec;
    spec.kind = plan_.optimizer;
    spec.rate = o.rate.at(step, options_.steps, plan_.global_batch);
    spec.grad_scale = 1 / step_scale_;
    if (o.clip > 0 && numbers_.norm > o.clip) spec.grad_scale *= o.clip / numbers_.norm;
    if (servers_[s]) {
        servers_[s]->push(spec.grad_scale);
        return;
    }
    spec.update = ++stage_updates_[s];
    if (plan_.optimizer == OptimizerKind::Lamb) {
        lamb_step(state, spec);
    } else if (o.lars_trust > 0) {
        lars_step(state, spec);
    } else {
        for (Bucket& bucket : state.buckets()) {
            const UpdateTensors all{
                state.owned_values(bucket), bucket.master ? state.owned_master(bucket) : Tensor{},
                state.owned_grads(bucket), state.first_moment(bucket), state.second_moment(bucket)};
            update_bucket(backend_, spec, o, state, bucket, all);
        }
    }
    if (method_ == SyncMethod::LocalSteps && averages_after(step)) average_parameters(state);
}

// Local SGD: after every H-th step, and wherever somebody looks at the parameters.
bool Executor::averages_after(std::int64_t step) const {
    const std::int64_t done = step + 1;
    const bool saved = options_.checkpoint_every > 0 && done % options_.checkpoint_every == 0;
    return done % std::max(1, sync_options().local_steps) == 0 || done == options_.steps || saved;
}

void Executor::make_replicas_equal(std::int64_t last_step) {
    if (method_ != SyncMethod::LocalSteps || averages_after(last_step)) return;
    for (const auto& state : states_) {
        if (state) average_parameters(*state);
    }
}

void Executor::average_parameters(StageState& state) {
    for (const Bucket& bucket : state.buckets()) {
        Communicator& group = groups_.replicas(state.options().stage, bucket.expert);
        if (group.size() == 1) continue;
        const Tensor parameters = state.owned_master(bucket);
        lanes_->wait(*group.all_reduce(parameters), "the average of parameters");
        backend_.scale(parameters, 1.0 / group.size());
    }
    state.values_from_master();
}

}  // namespace tw
