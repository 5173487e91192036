#include "real_exec/runtime/stage_state.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/check.hpp"

namespace tw {
namespace {

constexpr std::int64_t kAlign = 16;  // elements: parameters start at multiples of 64 bytes in fp32

std::int64_t round_up(std::int64_t value, std::int64_t to) {
    return (value + to - 1) / to * to;
}

Tensor part(const Tensor& whole, std::int64_t begin, std::int64_t elements) {
    return {static_cast<std::byte*>(whole.data) + static_cast<std::size_t>(begin) * bytes_of(whole.dtype),
            whole.dtype, Shape{elements}};
}

Tensor all_of(const Buffer& buffer, DType dtype) {
    return {buffer.data(), dtype, Shape{static_cast<std::int64_t>(buffer.bytes() / bytes_of(dtype))}};
}

// Whether other ranks of the tensor-parallel group hold the same elements.
bool replicated(const Parameter& p) {
    return p.extent * p.parts == p.full_shape[p.shard_axis];
}

}  // namespace

DType dtype_of(Precision precision) {
    switch (precision) {
        case Precision::Fp32:
        case Precision::Tf32:
            return DType::F32;
        case Precision::Fp16:
            return DType::F16;
        default:
            return DType::BF16;
    }
}

StageState::StageState(StageModule& module, StageStateOptions options)
    : module_(&module),
      options_(std::move(options)),
      earlier_updates_(static_cast<std::size_t>(options_.last_layer - options_.first_layer), 0) {
    make_buckets();
    allocate();
}

// One bucket for each (chunk of the last backward, dense or expert); a layer instead of a chunk where
// gradients are sharded; tied embeddings apart, so that both ends of the pipeline cut them alike.
void StageState::make_buckets() {
    using Key = std::tuple<int, int, bool, bool>;  // chunk, layer, expert, tied
    const std::span<Parameter> parameters = module_->parameters();
    const int layers = options_.last_layer - options_.first_layer;
    std::map<Key, std::vector<int>> members;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        const Parameter& p = parameters[i];
        int chunk = 0;
        if (options_.chunks > 1) {
            // Chunk c of K covers layers [n (K - c - 1) / K, n (K - c) / K).
            const int layer = p.layer - options_.first_layer;
            while (layer < layers * (options_.chunks - chunk - 1) / options_.chunks)
                ++chunk;
        }
        // An embedding that a later layer of the stage uses too is complete when its own layer is.
        const bool tied = options_.tied && options_.tied(p);
        members[{chunk, by_layer() ? p.layer : 0, p.expert, tied}].push_back(static_cast<int>(i));
    }
    for (auto& [key, indices] : members) {
        Bucket bucket;
        bucket.chunk = std::get<0>(key);
        bucket.expert = std::get<2>(key);
        bucket.tied = std::get<3>(key);
        std::stable_sort(indices.begin(), indices.end(), [&](int a, int b) {
            return parameters[static_cast<std::size_t>(a)].tp_partial_grad >
                   parameters[static_cast<std::size_t>(b)].tp_partial_grad;
        });
        for (const int index : indices) {
            const Parameter& p = parameters[static_cast<std::size_t>(index)];
            bucket.slices.push_back({index, bucket.elements, p.shape.elements()});
            bucket.elements = round_up(bucket.elements + p.shape.elements(), kAlign);
            if (p.tp_partial_grad) bucket.tp_partial = bucket.elements;
            bucket.layers.push_back(p.layer);
            if (options_.other_users) {
                const std::vector<int> others = options_.other_users(p);
                bucket.layers.insert(bucket.layers.end(), others.begin(), others.end());
            }
        }
        std::sort(bucket.layers.begin(), bucket.layers.end());
        bucket.layers.erase(std::unique(bucket.layers.begin(), bucket.layers.end()), bucket.layers.end());
        const int replicas = bucket.expert ? options_.expert_replicas : options_.dense_replicas;
        if (options_.shard_update) {
            bucket.shards = replicas;
            bucket.shard = bucket.expert ? options_.expert_index : options_.dense_index;
            bucket.elements = round_up(bucket.elements, kAlign * replicas);
        }
        buckets_.push_back(std::move(bucket));
    }
}

void StageState::allocate() {
    Backend& backend = *options_.backend;
    const bool master = options_.compute != DType::F32 || options_.separate_master;
    for (Bucket& b : buckets_) {
        const auto make = [&](DType dtype, bool sharded, MemoryUse use) {
            Buffer buffer = backend.allocate(dtype, Shape{sharded ? b.shard_elements() : b.elements}, use);
            backend.fill(all_of(buffer, dtype), 0);
            return buffer;
        };
        b.value = make(options_.compute, options_.shard_parameters, MemoryUse::Parameters);
        b.grad = make(options_.gradient, options_.shard_gradients, MemoryUse::Gradients);
        if (master) b.master = make(DType::F32, options_.shard_update, MemoryUse::MasterWeights);
        if (options_.optimizer != OptimizerKind::Sgd)
            b.first_moment = make(DType::F32, options_.shard_update, MemoryUse::OptimizerStates);
        if (options_.optimizer == OptimizerKind::Adam || options_.optimizer == OptimizerKind::Lamb)
            b.second_moment = make(DType::F32, options_.shard_update, MemoryUse::OptimizerStates);
    }
}

std::int64_t StageState::owned_begin(const Bucket& b) const {
    return options_.shard_update ? b.shard_begin() : 0;
}

std::int64_t StageState::owned_elements(const Bucket& b) const {
    return options_.shard_update ? b.shard_elements() : b.elements;
}

std::int64_t StageState::earlier_updates(int layer) const {
    return earlier_updates_[static_cast<std::size_t>(layer - options_.first_layer)];
}

void StageState::set_earlier_updates(int layer, std::int64_t updates) {
    earlier_updates_[static_cast<std::size_t>(layer - options_.first_layer)] = updates;
}

std::vector<BucketRun> StageState::owned_runs(const Bucket& b) const {
    const std::int64_t begin = owned_begin(b);
    return update_runs(b, module_->parameters(), begin, begin + owned_elements(b), options_.first_layer,
                       earlier_updates_);
}

Tensor StageState::values(const Bucket& b) const {
    return options_.shard_parameters ? all_of(b.gathered_value, options_.compute)
                                     : all_of(b.value, options_.compute);
}

Tensor StageState::owned_values(const Bucket& b) const {
    if (options_.shard_parameters) return all_of(b.value, options_.compute);
    return part(values(b), owned_begin(b), owned_elements(b));
}

Tensor StageState::grads(const Bucket& b) const {
    return options_.shard_gradients ? all_of(b.whole_grad, options_.gradient)
                                    : all_of(b.grad, options_.gradient);
}

Tensor StageState::owned_grads(const Bucket& b) const {
    if (options_.shard_gradients) return all_of(b.grad, options_.gradient);
    return part(grads(b), owned_begin(b), owned_elements(b));
}

Tensor StageState::owned_master(const Bucket& b) const {
    return b.master ? all_of(b.master, DType::F32) : owned_values(b);
}

void StageState::bind_values(const Bucket& b, const Tensor& values) {
    for (const BucketSlice& slice : b.slices) {
        Parameter& p = module_->parameters()[static_cast<std::size_t>(slice.parameter)];
        p.value = values ? part(values, slice.begin, slice.elements).reshaped(p.shape) : Tensor{};
    }
}

void StageState::bind(const Bucket& b) {
    bind_values(b, options_.shard_parameters && !b.gathered_value ? Tensor{} : values(b));
    const bool there = !options_.shard_gradients || b.whole_grad;
    for (const BucketSlice& slice : b.slices) {
        Parameter& p = module_->parameters()[static_cast<std::size_t>(slice.parameter)];
        p.grad = there ? part(grads(b), slice.begin, slice.elements).reshaped(p.shape) : Tensor{};
    }
}

void StageState::bind_all() {
    for (const Bucket& b : buckets_)
        bind(b);
}

void StageState::zero_gradients() {
    for (const Bucket& b : buckets_)
        options_.backend->fill(all_of(b.grad, options_.gradient), 0);
}

bool StageState::saves(const Bucket& b) const {
    if (b.tied && !options_.counts_tied) return false;
    if ((b.expert ? options_.expert_copy : options_.dense_copy) != 0) return false;
    return options_.shard_update || (b.expert ? options_.expert_index : options_.dense_index) == 0;
}

bool StageState::saves(const Parameter& p) const {
    return p.expert || options_.tp_rank == 0 || !replicated(p);
}

double StageState::owned_square_sum() const {
    double sum = 0;
    const bool own = options_.own_gradients;
    for (const Bucket& b : buckets_) {
        if (own ? b.tied && !options_.counts_tied : !saves(b)) continue;
        const Tensor owned = own ? grads(b) : owned_grads(b);
        const std::int64_t begin = own ? 0 : owned_begin(b),
                           end = own ? b.elements : begin + owned_elements(b);
        for (const BucketSlice& slice : b.slices) {
            const Parameter& p = module_->parameters()[static_cast<std::size_t>(slice.parameter)];
            if (!saves(p)) continue;
            const std::int64_t from = std::max(begin, slice.begin);
            const std::int64_t to = std::min(end, slice.begin + slice.elements);
            if (from < to) sum += options_.backend->sum_squares(part(owned, from - begin, to - from));
        }
    }
    return sum;
}

std::string StageState::first_not_finite() const {
    const bool own = options_.own_gradients;
    for (const Bucket& b : buckets_) {
        const Tensor owned = own ? grads(b) : owned_grads(b);
        const std::int64_t begin = own ? 0 : owned_begin(b),
                           end = own ? b.elements : begin + owned_elements(b);
        for (const BucketSlice& slice : b.slices) {
            const std::int64_t from = std::max(begin, slice.begin);
            const std::int64_t to = std::min(end, slice.begin + slice.elements);
            if (from < to && !options_.backend->all_finite(part(owned, from - begin, to - from)))
                return module_->parameters()[static_cast<std::size_t>(slice.parameter)].name;
        }
    }
    return {};
}

Tensor StageState::first_moment(const Bucket& b) const {
    return b.first_moment ? all_of(b.first_moment, DType::F32) : Tensor{};
}

Tensor StageState::second_moment(const Bucket& b) const {
    return b.second_moment ? all_of(b.second_moment, DType::F32) : Tensor{};
}

void StageState::use_version(int label) {
    if (label == bound_) return;
    bound_ = label;
    if (label == latest_) {
        bind_all();
        return;
    }
    const auto found = stashes_.find(label);
    TW_CHECK_MSG(found != stashes_.end(), "a weight version is used that is not kept");
    for (std::size_t i = 0; i < buckets_.size(); ++i)
        bind_values(buckets_[i], all_of(found->second[i], options_.compute));
}

void StageState::stash(int label) {
    TW_CHECK_MSG(!options_.shard_parameters, "weight versions are kept of whole parameters");
    std::vector<Buffer> kept;
    for (const Bucket& b : buckets_) {
        Buffer copy =
            options_.backend->allocate(options_.compute, Shape{b.elements}, MemoryUse::WeightStashes);
        options_.backend->copy(values(b), all_of(copy, options_.compute));
        kept.push_back(std::move(copy));
    }
    stashes_[label] = std::move(kept);
    bound_ = -1;  // what the label named may have moved
}

void StageState::drop(int label) {
    stashes_.erase(label);
    bound_ = -1;
}

}  // namespace tw
