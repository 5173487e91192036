// LayerSharding: hooks around every layer's pass. Under ZeRO-3 a layer's parameters are gathered before it
// computes and freed after, the next one's gathered beside it; under ZeRO-2 and 3 its gradients exist whole
// only from its backward to their reduce-scatter, whose result is added to this rank's shard (Rajbhandari et
// al. 2020, section 5; Zhao et al. 2023, FSDP, section 3). Elsewhere a hook only keeps the lanes going.
#pragma once

#include <deque>
#include <vector>

#include "real_exec/runtime/compressed_reduce.hpp"
#include "real_exec/runtime/groups.hpp"
#include "real_exec/runtime/lanes.hpp"
#include "real_exec/runtime/stage_state.hpp"

namespace tw {

class LayerSharding final : public LayerHooks {
  public:
    LayerSharding(Backend& backend, Groups& groups, Lanes& lanes)
        : backend_(&backend), groups_(&groups), lanes_(&lanes) {}
    // After the module was made with these hooks.
    void attach(StageState& state) { state_ = &state; }

    void before(int layer, Pass pass) override;
    void after(int layer, Pass pass) override;
    // Waits for the reduce-scatters that are under way.
    void finish_gradients();

  private:
    struct Reducing {
        std::size_t bucket = 0;
        Buffer shard;
        RequestPtr request;
    };
    struct Gathering {
        std::size_t bucket = 0;
        RequestPtr request;
    };
    void start_gather(std::size_t bucket);
    void finish_gather(std::size_t bucket);
    void reduce(std::size_t bucket);
    void finish_oldest();
    template <class Visit>
    void for_buckets_of(int layer, const Visit& visit);

    Backend* backend_;
    Groups* groups_;
    Lanes* lanes_;
    StageState* state_ = nullptr;
    std::deque<Reducing> reducing_;
    std::deque<Gathering> gathering_;
    std::vector<int> owed_weight_;  // by bucket: input gradients whose weight gradients are still to come
};

// Appends the sum of `whole` over all replicas into this rank's shard of it: within the ranks that share a
// state, then over its copies.
void append_scatter_sum(const ShardGroups& groups, const Tensor& whole, const Tensor& own_part,
                        std::vector<NextOperation>& operations);

// Sums, over the tensor-parallel ranks, the gradients that each of them has a part of (sequence parallelism:
// norms and biases), in the whole gradients of a bucket. Waits.
void reduce_tp_partials(const StageState& state, const Bucket& bucket, Communicator& tp, Lanes& lanes);

}  // namespace tw
