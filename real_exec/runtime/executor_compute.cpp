// The host's instructions: forwards, backwards, weight versions; the tensors between stages.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <limits>
#include <thread>
#include <utility>

#include "base/check.hpp"
#include "real_exec/runtime/executor.hpp"

namespace tw {

int Executor::pipeline_rank_of(int stage, int microbatch) const {
    const auto s = static_cast<std::size_t>(stage);
    return schedule_.rank_of_stage[s] + microbatch % schedule_.replicas_of_stage[s];
}

Tensor Executor::view(const Buffer& buffer, const Shape& shape, int stage) const {
    return buffer.view(modules_[static_cast<std::size_t>(stage)]->activation_type(), shape);
}

// Faults happen before the first compute of a step, or before the instruction that they name.
void Executor::inject_before(std::uint32_t index) {
    const Instruction& in = program_->instructions[index];
    const std::int64_t step = lanes_->events()[index].step;
    for (std::size_t f = 0; f < options_.faults.size(); ++f) {
        const Fault& fault = options_.faults[f];
        if (fault.rank != layout_.rank || (fault.step >= 0 && fault.step != step)) continue;
        if (fault.at >= 0 ? fault.at != index : !is_compute(in.opcode) || injected_[f] >= step) continue;
        injected_[f] = step;
        switch (fault.kind) {
            case Fault::Kind::Slow:
                std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(fault.ms));
                break;
            case Fault::Kind::Kill:
                std::raise(SIGKILL);
                break;
            case Fault::Kind::Hang:
                while (true)
                    std::this_thread::sleep_for(std::chrono::hours(1));
            case Fault::Kind::Nan:
                poison_ = true;
                break;
            case Fault::Kind::Corrupt:
            case Fault::Kind::FullDisk:
                break;  // the checkpoint's
        }
    }
}

std::optional<DeviceTimes> Executor::run_host(std::uint32_t index) {
    const std::unique_ptr<Moment> start = traced() ? backend_.moment() : nullptr;
    compute(program_->instructions[index]);
    const std::unique_ptr<Moment> end = traced() ? backend_.moment() : nullptr;
    // Transfers go on while a device computes.
    backend_.mark();
    lanes_->compute_until([this] { return backend_.reached_mark(); });
    if (!traced()) return std::nullopt;
    const std::optional<HostTime> from = start->time(), to = end->time();
    TW_CHECK_MSG(from && to, "a mark was reached before the moments ahead of it");
    return DeviceTimes{*from, *to};
}

void Executor::compute(const Instruction& in) {
    switch (in.opcode) {
        case Opcode::Forward:
            forward(in.stage, in.microbatch, in.weight_version);
            break;
        case Opcode::Backward:
        case Opcode::BackwardInput:
        case Opcode::BackwardWeight:
            backward(in, in.stage, in.microbatch);
            break;
        case Opcode::OverlapForwardBackward:
            forward(in.stage, in.microbatch, in.weight_version);
            backward(in, in.stage2, in.microbatch2);
            break;
        case Opcode::StashWeights:
            states_[in.stage]->stash(in.weight_version);
            break;
        case Opcode::Free:
            states_[in.stage]->drop(in.weight_version);
            break;
        case Opcode::OptimizerStep:
            optimizer_step(in);
            break;
        case Opcode::Reshard:
        case Opcode::Wait:
            break;
        default:
            TW_CHECK_MSG(false, "an instruction that the executor's verdict should have refused");
    }
}

void Executor::sample_memory() {
    const MemoryStats stats = backend_.memory();
    const auto add = [&](const std::array<std::size_t, kMemoryUses>& by_use) {
        MemorySample sample;
        sample.time = clock_.now();
        sample.bytes.assign(by_use.begin(), by_use.end());
        if (memory_.empty() || memory_.back().bytes != sample.bytes) memory_.push_back(std::move(sample));
    };
    if (stats.peak > sampled_peak_) add(stats.peak_by_use);
    sampled_peak_ = stats.peak;
    add(stats.current_by_use);
}

std::int64_t Executor::first_sample_of(int microbatch) const {
    return (static_cast<std::int64_t>(microbatch % schedule_.microbatches) * plan_.mesh.dp +
            layout_.dp_rank) *
           plan_.microbatch;
}

// The samples that this rank's first or last stage computes with, two steps ahead.
void Executor::start_prefetching(std::int64_t first_step) {
    PrefetchPlan wanted;
    wanted.first_step = first_step;
    wanted.last_step = options_.steps;
    wanted.microbatch = plan_.microbatch;
    std::vector<char> known(static_cast<std::size_t>(schedule_.microbatches), 0);
    for (const Instruction& in : program_->instructions) {
        const bool forward = in.opcode == Opcode::Forward || in.opcode == Opcode::OverlapForwardBackward;
        if (!forward || (in.stage != 0 && in.stage != schedule_.stages - 1)) continue;
        char& seen = known[static_cast<std::size_t>(in.microbatch % schedule_.microbatches)];
        if (std::exchange(seen, 1) == 0) wanted.first_sample.push_back(first_sample_of(in.microbatch));
    }
    if (wanted.first_sample.empty() || first_step >= options_.steps) return;
    samples_step_ = first_step - 1;
    prefetcher_ = std::make_unique<Prefetcher>(dataset_, std::move(wanted));
}

// Forwards ask in the order of steps.
const HostBatch& Executor::host_batch(std::int64_t step, std::int64_t first_sample) {
    TW_CHECK_MSG(prefetcher_ != nullptr, "a step that nobody began (Executor::begin)");
    while (samples_step_ < step) {
        auto taken = prefetcher_->take(++samples_step_);
        if (!taken) transport_.abort(exit_code(taken.errors()), who_ + ": " + to_string(taken.errors()));
        samples_ = std::move(*taken);
    }
    const auto found = std::find_if(samples_.begin(), samples_.end(),
                                    [&](const HostBatch& one) { return one.first_sample == first_sample; });
    TW_CHECK_MSG(samples_step_ == step && found != samples_.end(), "samples of another step");
    return *found;
}

Batch Executor::make_batch(int stage, int microbatch, BatchMemory& memory) {
    const std::int64_t rows = plan_.microbatch, seq = plan_.seq_len;
    Batch batch;
    batch.step = first_step_ + microbatch / schedule_.microbatches;
    batch.first_sample = first_sample_of(microbatch);
    if (stage != 0 && stage != schedule_.stages - 1) return batch;
    const DataOptions& data = dataset_.options();
    const bool images = data.kind == SampleKind::Images;
    const Shape picture{rows, data.channels, data.height, data.width};
    const HostBatch& host = host_batch(batch.step, batch.first_sample);
    const auto put = [&](Buffer& buffer, DType dtype, const Shape& shape, const void* from) {
        buffer = backend_.allocate(dtype, shape, MemoryUse::Activations);
        const Tensor tensor = buffer.view(dtype, shape);
        backend_.copy_from_host(tensor, from);
        return tensor;
    };
    if (images) {
        if (stage == 0) batch.images = put(memory.images, DType::F32, picture, host.images.data());
        batch.targets = put(memory.targets, DType::I32, Shape{rows}, host.targets.data());
        return batch;
    }
    batch.tokens = put(memory.tokens, DType::I32, Shape{rows, seq}, host.tokens.data());
    batch.targets = put(memory.targets, DType::I32, Shape{rows, seq}, host.targets.data());
    return batch;
}

void Executor::forward(int stage, int microbatch, int version) {
    const auto s = static_cast<std::size_t>(stage);
    StageModule& module = *modules_[s];
    states_[s]->use_version(version);
    const Cell cell{stage, microbatch};
    int slot = next_slot_;
    if (free_slots_.empty()) {
        ++next_slot_;
    } else {
        slot = free_slots_.back();
        free_slots_.pop_back();
    }
    BatchMemory memory;  // the module copies what it needs later
    const Batch batch = make_batch(stage, microbatch, memory);
    Buffer input;
    if (stage > 0) {
        const auto found = activations_in_.find(cell);
        TW_CHECK_MSG(found != activations_in_.end(), "a forward without its input");
        input = std::move(found->second);
        activations_in_.erase(found);
    }
    const bool last = stage == schedule_.stages - 1;
    if (last) {
        LossResult loss;
        module.forward(slot, batch, std::move(input), Tensor{}, &loss);
        if (layout_.tp_rank == 0) {
            numbers_.loss_sum += loss.sum;
            numbers_.loss_count += static_cast<double>(loss.count);
        }
    } else {
        Buffer output =
            backend_.allocate(module.activation_type(), module.output_shape(), MemoryUse::Activations);
        module.forward(slot, batch, std::move(input), view(output, module.output_shape(), stage), nullptr);
        const bool here = pipeline_rank_of(stage + 1, microbatch) == layout_.pipeline_rank;
        (here ? activations_in_[{stage + 1, microbatch}] : activations_out_[cell]) = std::move(output);
    }
    slots_[cell] = slot;
}

// The gradient starts at the last stage with this factor: the loss is the mean over all targets that one
// update sees.
double Executor::loss_scale_of(int microbatch, int stage) {
    return step_scale_ * mean_factor(microbatch, stage);
}

double Executor::mean_factor(int microbatch, int stage) {
    const std::int64_t per_sample = dataset_.options().kind == SampleKind::Images ? 1 : plan_.seq_len;
    if (schedule_.boundary == StepBoundary::None) {
        const auto s = static_cast<std::size_t>(stage);
        const double microbatches =
            static_cast<double>(backwards_per_update_[s]) * groups_.replicas(stage, false).size();
        return 1.0 / (microbatches * static_cast<double>(plan_.microbatch * per_sample));
    }
    // The mean over the whole batch, or, where replicas step alone, over this replica's part of it.
    const int replicas = steps_alone(method_) ? plan_.mesh.dp : 1;
    if (dataset_.options().kind != SampleKind::MaskedTokens)
        return replicas / static_cast<double>(plan_.global_batch * per_sample);
    // Masks differ from sample to sample; every rank counts those of the whole batch.
    const std::int64_t step = first_step_ + microbatch / schedule_.microbatches;
    if (masked_targets_step_ != step) {
        masked_targets_step_ = step;
        masked_targets_ = 0;
        std::vector<std::int32_t> tokens(static_cast<std::size_t>(plan_.seq_len)), targets(tokens.size());
        SampleRows into;
        into.tokens = tokens.data();
        into.targets = targets.data();
        for (std::int64_t i = 0; i < plan_.global_batch; ++i) {
            const Status filled = dataset_.fill(step, i, 1, into);
            if (!filled) transport_.abort(exit_code(filled.errors()), to_string(filled.errors()));
            for (const std::int32_t target : targets)
                masked_targets_ += target >= 0 ? 1 : 0;
        }
    }
    return replicas / std::max(1.0, masked_targets_);
}

void Executor::backward(const Instruction& in, int stage, int microbatch) {
    const auto s = static_cast<std::size_t>(stage);
    StageModule& module = *modules_[s];
    StageState& state = *states_[s];
    state.use_version(in.weight_version);
    const Cell cell{stage, microbatch};
    const auto slot = slots_.find(cell);
    TW_CHECK_MSG(slot != slots_.end(), "a backward without its forward");
    const Opcode pass = in.opcode == Opcode::OverlapForwardBackward ? Opcode::Backward : in.opcode;
    const int chunks = in.part == 0 ? 1 : state.options().chunks;
    const int chunk = in.part == 0 ? 1 : static_cast<int>(in.part);
    const bool last_stage = stage == schedule_.stages - 1;

    if (pass != Opcode::BackwardWeight) {
        // Chunk c of K: the layers that StageState puts into bucket c - 1; there may be none.
        const int layers = state.options().last_layer - state.options().first_layer;
        const int first = pass == Opcode::BackwardInput ? 0 : layers * (chunks - chunk) / chunks;
        const int last = pass == Opcode::BackwardInput ? layers : layers * (chunks - chunk + 1) / chunks;
        const auto grad = grads_in_.find(cell);
        TW_CHECK_MSG(last_stage || grad != grads_in_.end() || last < layers,
                     "a backward without its gradient");
        Tensor grad_output;
        if (grad != grads_in_.end()) grad_output = view(grad->second, module.output_shape(), stage);
        Buffer output;
        Tensor grad_input;
        if (stage > 0 && first == 0 && first < last) {
            output =
                backend_.allocate(module.activation_type(), module.input_shape(), MemoryUse::Activations);
            grad_input = view(output, module.input_shape(), stage);
        }
        const double scale = last_stage ? loss_scale_of(microbatch, stage) : 1;
        if (pass == Opcode::BackwardInput) {
            module.backward_input(slot->second, grad_output, grad_input, scale);
        } else if (first < last) {
            module.backward(slot->second, grad_output, grad_input, scale, first, last);
        }
        if (grad != grads_in_.end() && first < last) grads_in_.erase(grad);
        if (output) {
            const bool here = pipeline_rank_of(stage - 1, microbatch) == layout_.pipeline_rank;
            (here ? grads_in_[{stage - 1, microbatch}] : grads_out_[cell]) = std::move(output);
        }
    } else if (chunk == 1) {
        // Weight gradients come all at once; the chunks after the first have nothing left to do.
        module.backward_weight(slot->second);
    }
    if (poison_) {
        poison_ = false;
        Tensor gradient = state.owned_grads(state.buckets().front());
        gradient.shape = Shape{1};
        backend_.fill(gradient, std::numeric_limits<double>::quiet_NaN());
    }
    if (pass != Opcode::BackwardInput && chunk == chunks) {
        free_slots_.push_back(slot->second);
        slots_.erase(slot);
    }
}

}  // namespace tw
