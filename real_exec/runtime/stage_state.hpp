// StageState: the memory of one virtual stage's parameters on one rank: values in the compute type,
// gradients, fp32 master, optimizer states, older weight versions; whole or sharded over the replicas as the
// plan's ZeRO stage says. It hands the module its tensors; who reduces them when is the executor's business.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "plan/parallel_plan.hpp"
#include "real_exec/runtime/bucket.hpp"

namespace tw {

DType dtype_of(Precision precision);  // Fp32 and Tf32: F32

struct StageStateOptions {
    Backend* backend = nullptr;
    int stage = 0;
    int first_layer = 0, last_layer = 0;
    int chunks = 1;  // of the stage's last backward
    // Members of the groups that share a state (all whose gradients are summed, but for HSDP), and this
    // rank's place in them.
    int dense_replicas = 1, dense_index = 0;
    int expert_replicas = 1, expert_index = 0;
    // Which copy of the sharded state this rank's shard belongs to (HSDP); one of them answers for all.
    int dense_copy = 0, expert_copy = 0;
    int tp_rank = 0;
    bool shard_update = false;  // master and optimizer states (ZeRO-1 and more; parameter servers)
    bool shard_gradients = false, shard_parameters = false;  // ZeRO-2, ZeRO-3
    bool separate_master = false;  // also in fp32: what is served is not what is computed with
    // Replicas step by themselves: norms are of this rank's whole gradients, on every replica.
    bool own_gradients = false;
    DType compute = DType::F32, gradient = DType::F32;
    OptimizerKind optimizer = OptimizerKind::Adam;
    // Whether a parameter is the embedding that the other end of the pipeline holds too.
    std::function<bool(const Parameter&)> tied;
    bool counts_tied = true;  // in norms: one end does
    // Layers beside its own that compute with a parameter (a head that shares the embedding of its stage).
    std::function<std::vector<int>(const Parameter&)> other_users;
};

class StageState {
  public:
    StageState(StageModule& module, StageStateOptions options);

    [[nodiscard]] StageModule& module() { return *module_; }
    [[nodiscard]] std::vector<Bucket>& buckets() { return buckets_; }
    [[nodiscard]] const StageStateOptions& options() const { return options_; }
    // Gradients of single layers are whole only between their backward and their reduction.
    [[nodiscard]] bool by_layer() const { return options_.shard_gradients; }

    // Draws every parameter: element i of the whole tensor from (seed, name, i), whatever the layout.
    void initialise(std::uint64_t seed, int threads = 1);
    // The master's (else the values') owned elements into the values, after master was written by other
    // means.
    void values_from_master();

    // Views. `owned`: the part that this rank updates (its shard, or all).
    [[nodiscard]] Tensor values(const Bucket& bucket) const;  // whole; gathered first where sharded
    [[nodiscard]] Tensor owned_values(const Bucket& bucket) const;
    [[nodiscard]] Tensor grads(const Bucket& bucket) const;  // whole
    [[nodiscard]] Tensor owned_grads(const Bucket& bucket) const;
    [[nodiscard]] Tensor owned_master(const Bucket& bucket) const;   // the values where there is no master
    [[nodiscard]] Tensor first_moment(const Bucket& bucket) const;   // owned; null where there is none
    [[nodiscard]] Tensor second_moment(const Bucket& bucket) const;  // owned; null where there is none
    [[nodiscard]] std::int64_t owned_begin(const Bucket& bucket) const;
    [[nodiscard]] std::int64_t owned_elements(const Bucket& bucket) const;

    // Optimizer updates of a layer before this run: those of the checkpoint that it goes on from.
    [[nodiscard]] std::int64_t earlier_updates(int layer) const;
    void set_earlier_updates(int layer, std::int64_t updates);
    // The owned elements of a bucket as an update goes through them.
    [[nodiscard]] std::vector<BucketRun> owned_runs(const Bucket& bucket) const;

    // Sets Parameter::value and ::grad of a bucket (null where its memory is not there now).
    void bind(const Bucket& bucket);
    void bind_all();
    void zero_gradients();

    // Sum of squares of the owned gradients, every element of the model counted by exactly one rank.
    [[nodiscard]] double owned_square_sum() const;
    // The first parameter whose owned gradient is not finite; empty: none.
    [[nodiscard]] std::string first_not_finite() const;

    // Whether this rank is the one that answers for a bucket, or for a parameter, where several hold it.
    [[nodiscard]] bool saves(const Bucket& bucket) const;
    [[nodiscard]] bool saves(const Parameter& parameter) const;

    // Weight versions (PipeDream). The values are the latest; `label` is its number modulo those kept.
    void use_version(int label);  // binds the values of that version
    void stash(int label);        // keeps a copy of the latest values under this number
    void latest_is(int label) { latest_ = label; }
    void drop(int label);
    [[nodiscard]] int latest() const { return latest_; }

  private:
    void make_buckets();
    void allocate();
    void bind_values(const Bucket& bucket, const Tensor& values);
    void initialise_owned(const Bucket& bucket, std::uint64_t seed, int threads);

    StageModule* module_;
    StageStateOptions options_;
    std::vector<Bucket> buckets_;
    std::vector<std::int64_t> earlier_updates_;   // by layer, from the stage's first on
    std::map<int, std::vector<Buffer>> stashes_;  // by label: values of each bucket
    int latest_ = 0, bound_ = 0;
};

}  // namespace tw
