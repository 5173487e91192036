// Bucket: parameters of one virtual stage that are reduced, sharded and updated together, laid out one after
// the other in one stretch of elements. What ZeRO shards is an equal part of every bucket for each replica.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "real_exec/backend/backend.hpp"
#include "real_exec/comm/communicator.hpp"
#include "real_exec/layers/stage_module.hpp"

namespace tw {

// A parameter's place in its bucket, in elements.
struct BucketSlice {
    int parameter = 0;  // index into StageModule::parameters()
    std::int64_t begin = 0, elements = 0;
};

struct Bucket {
    std::vector<BucketSlice> slices;
    std::vector<int> layers;  // vertices of the LayerGraph that compute with it
    int chunk = 0;            // of the stage's last backward after which its gradients are complete, from 0
    bool expert = false;
    bool tied = false;  // also held at the other end of the pipeline
    // Gradients of the first so many elements are sums over the tensor-parallel ranks.
    std::int64_t tp_partial = 0;
    std::int64_t elements = 0;  // a multiple of `shards`; what is not a parameter's is zero
    int shards = 1, shard = 0;

    // Persistent memory: of all elements, or of this rank's shard (StageState::Sharding).
    Buffer value, grad, master, first_moment, second_moment;
    // While a sharded bucket is in use: all elements.
    Buffer gathered_value, whole_grad;

    [[nodiscard]] std::int64_t shard_elements() const { return elements / shards; }
    [[nodiscard]] std::int64_t shard_begin() const { return shard_elements() * shard; }
};

// Consecutive elements of a bucket that an optimizer treats alike.
struct BucketRun {
    std::int64_t begin = 0, elements = 0;
    bool decay = true;
    std::int64_t earlier = 0;  // updates of their layers before this run of the program
};

// The parts of [begin, end) by weight decay and earlier updates, those of each layer from `first_layer` on;
// adjacent slices merged, padding joins what stands before it.
std::vector<BucketRun> update_runs(const Bucket& bucket, std::span<const Parameter> parameters,
                                   std::int64_t begin, std::int64_t end, int first_layer,
                                   std::span<const std::int64_t> earlier);

}  // namespace tw
