#include "real_exec/runtime/layer_sharding.hpp"

#include <algorithm>

namespace tw {

template <class Visit>
void LayerSharding::for_buckets_of(int layer, const Visit& visit) {
    std::vector<Bucket>& buckets = state_->buckets();
    for (std::size_t b = 0; b < buckets.size(); ++b) {
        const std::vector<int>& layers = buckets[b].layers;
        if (std::find(layers.begin(), layers.end(), layer) != layers.end()) visit(b);
    }
}

void LayerSharding::start_gather(std::size_t index) {
    Bucket& bucket = state_->buckets()[index];
    if (bucket.gathered_value) return;
    const StageStateOptions& options = state_->options();
    bucket.gathered_value =
        backend_->allocate(options.compute, Shape{bucket.elements}, MemoryUse::CommunicationBuffers);
    gathering_.push_back(
        {index, groups_->layer_shards(bucket.expert)
                    .shard->all_gather(state_->owned_values(bucket), state_->values(bucket))});
}

void LayerSharding::finish_gather(std::size_t index) {
    start_gather(index);
    const auto found = std::find_if(gathering_.begin(), gathering_.end(),
                                    [&](const Gathering& g) { return g.bucket == index; });
    if (found == gathering_.end()) return;
    lanes_->wait(*found->request, "the parameters of a layer");
    gathering_.erase(found);
}

void LayerSharding::before(int layer, Pass pass) {
    if (state_ == nullptr || !state_->by_layer()) return;
    const StageStateOptions& options = state_->options();
    std::vector<Bucket>& buckets = state_->buckets();
    owed_weight_.resize(buckets.size(), 0);
    for_buckets_of(layer, [&](std::size_t b) {
        if (options.shard_parameters) finish_gather(b);
        // Nothing is added to a gradient on its way.
        const auto of_bucket = [&](const Reducing& r) { return r.bucket == b; };
        while (pass != Pass::Forward && std::any_of(reducing_.begin(), reducing_.end(), of_bucket))
            finish_oldest();
        if (pass != Pass::Forward && !buckets[b].whole_grad) {
            buckets[b].whole_grad =
                backend_->allocate(options.gradient, Shape{buckets[b].elements}, MemoryUse::Gradients);
            backend_->fill(state_->grads(buckets[b]), 0);
        }
        state_->bind(buckets[b]);
    });
    if (!options.shard_parameters) return;
    const int next = pass == Pass::Forward ? layer + 1 : layer - 1;
    if (next >= options.first_layer && next < options.last_layer)
        for_buckets_of(next, [&](std::size_t b) { start_gather(b); });
}

void LayerSharding::after(int layer, Pass pass) {
    lanes_->pump();
    if (state_ == nullptr || !state_->by_layer()) return;
    std::vector<Bucket>& buckets = state_->buckets();
    for_buckets_of(layer, [&](std::size_t b) {
        Bucket& bucket = buckets[b];
        if (state_->options().shard_parameters) {
            bucket.gathered_value.reset();
            state_->bind(bucket);
        }
        if (pass == Pass::BackwardInput) ++owed_weight_[b];
        if (pass == Pass::BackwardWeight) --owed_weight_[b];
        // A whole gradient that a later weight gradient adds to stays until then.
        if ((pass == Pass::Backward || pass == Pass::BackwardWeight) && owed_weight_[b] == 0) reduce(b);
    });
}

void LayerSharding::reduce(std::size_t index) {
    Bucket& bucket = state_->buckets()[index];
    reduce_tp_partials(*state_, bucket, *groups_->tp, *lanes_);
    while (!reducing_.empty())
        finish_oldest();
    Reducing job;
    job.bucket = index;
    job.shard = backend_->allocate(state_->options().gradient, Shape{bucket.shard_elements()},
                                   MemoryUse::CommunicationBuffers);
    std::vector<NextOperation> operations;
    append_scatter_sum(groups_->layer_shards(bucket.expert), state_->grads(bucket),
                       job.shard.view(state_->options().gradient, Shape{bucket.shard_elements()}),
                       operations);
    job.request = operations.size() == 1 ? operations.front()() : chain_operations(std::move(operations));
    reducing_.push_back(std::move(job));
}

void LayerSharding::finish_oldest() {
    Reducing job = std::move(reducing_.front());
    reducing_.pop_front();
    lanes_->wait(*job.request, "the reduce-scatter of a layer's gradients");
    Bucket& bucket = state_->buckets()[job.bucket];
    backend_->add(job.shard.view(state_->options().gradient, Shape{bucket.shard_elements()}),
                  state_->owned_grads(bucket));
    bucket.whole_grad.reset();
    state_->bind(bucket);
}

void LayerSharding::finish_gradients() {
    while (!reducing_.empty())
        finish_oldest();
}

void append_scatter_sum(const ShardGroups& groups, const Tensor& whole, const Tensor& own_part,
                        std::vector<NextOperation>& operations) {
    operations.emplace_back([=] { return groups.shard->reduce_scatter(whole, own_part); });
    if (groups.copies != nullptr)
        operations.emplace_back([=] { return groups.copies->all_reduce(own_part); });
}

void reduce_tp_partials(const StageState& state, const Bucket& bucket, Communicator& tp, Lanes& lanes) {
    if (bucket.tp_partial == 0 || tp.size() == 1) return;
    Tensor partial = state.grads(bucket);
    partial.shape = Shape{bucket.tp_partial};
    lanes.wait(*tp.all_reduce(partial), "the tensor-parallel sum of gradients");
}

}  // namespace tw
