// What the layers of a stage share: the stage's fixed surroundings, its parameters, the tensor-parallel entry
// and exit of a branch, and the Layer interface that StageModule drives.
//
// Row counts: a stage has rows() = microbatch * seq_len tokens; with sequence parallelism each rank of the
// tensor-parallel group holds local_rows() consecutive ones of them outside the branches (Korthikanti et al.
// 2022, section 4.2.2), else all of them.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "real_exec/backend/backend.hpp"
#include "real_exec/layers/stage_module.hpp"

namespace tw {

struct StageSetting {
    Backend* backend = nullptr;
    Communicator* tp = nullptr;
    Communicator* ep = nullptr;
    std::uint64_t seed = 0;
    double dropout = 0;
    DType type = DType::F32;
    bool sequence_parallel = false;
    std::int64_t microbatch = 1, seq_len = 1;

    [[nodiscard]] std::int64_t rows() const { return microbatch * seq_len; }
    [[nodiscard]] std::int64_t local_rows() const { return sequence_parallel ? rows() / tp->size() : rows(); }
    [[nodiscard]] std::int64_t first_local_row() const {
        return sequence_parallel ? local_rows() * tp->rank() : 0;
    }
    [[nodiscard]] Buffer activation(std::int64_t rows, std::int64_t width) const {
        return backend->allocate(type, {rows, width}, MemoryUse::Activations);
    }
    [[nodiscard]] Buffer temporary(std::int64_t rows, std::int64_t width) const {
        return backend->allocate(type, {rows, width}, MemoryUse::Temporaries);
    }
    [[nodiscard]] Tensor view(const Buffer& buffer, std::int64_t rows, std::int64_t width) const {
        return buffer.view(type, {rows, width});
    }
    // Dropout of [local_rows, width] at a place of a layer, drawn from the global element.
    [[nodiscard]] DropoutSpec dropout_at(const Batch& batch, int layer, int site, std::int64_t width) const;
    [[nodiscard]] DropoutSpec attention_dropout(const Batch& batch, int layer, std::int64_t first_head) const;
};

// Waits; a failed collective ends the process with what the transport knows.
void finish(RequestPtr request);

// A tensor that is either somebody else's or its own.
struct Rows {
    Tensor tensor;
    Buffer own;
};
// Local rows to all rows, at the entry of a branch; without sequence parallelism the tensor itself.
Rows gather_rows(const StageSetting& setting, const Tensor& local, std::int64_t width);
// Partial sums of all rows to the local rows' sums, at the exit; consumes `partial`.
Rows reduce_rows(const StageSetting& setting, Rows partial, std::int64_t width);

// The parameters of a stage, in order. Layers keep indices.
class ParameterList {
  public:
    int add(Parameter parameter);
    [[nodiscard]] int find(const std::string& name) const;  // -1: none
    Parameter& operator[](int index) { return items_[static_cast<std::size_t>(index)]; }
    const Parameter& operator[](int index) const { return items_[static_cast<std::size_t>(index)]; }
    [[nodiscard]] std::span<Parameter> all() { return items_; }

  private:
    std::vector<Parameter> items_;
};

// Products that make weight gradients: run where they arise, or later (zero bubble's weight half), together
// with the buffers that they read.
class WeightWork {
  public:
    explicit WeightWork(bool later = false) : later_(later) {}
    void add(std::function<void()> work) {
        if (later_) {
            work_.push_back(std::move(work));
        } else {
            work();
        }
    }
    // After the work that reads it has been added.
    void keep(Buffer buffer) {
        if (later_ && buffer) kept_.push_back(std::move(buffer));
    }
    void keep(Rows rows) { keep(std::move(rows.own)); }
    void run() {
        for (const auto& work : work_)
            work();
        work_.clear();
        kept_.clear();
    }

  private:
    bool later_;
    std::vector<std::function<void()>> work_;
    std::vector<Buffer> kept_;
};

// What a layer keeps of one microbatch between forward and backward.
class LayerState {
  public:
    virtual ~LayerState() = default;
};

struct ForwardPass {
    const Batch* batch = nullptr;
    LossResult* loss = nullptr;
    Buffer* logits = nullptr;  // set: the head leaves its logits here instead of the loss
    bool selective = false;    // drop what selective recomputation drops
};
struct BackwardPass {
    const Batch* batch = nullptr;
    double grad_scale = 1;
    WeightWork* weights = nullptr;
};

class ExecLayer {
  public:
    virtual ~ExecLayer() = default;
    // `in` is null in a layer that reads the batch, `out` in one that ends in a loss. What is returned refers
    // to `in`, which outlives it.
    virtual std::unique_ptr<LayerState> forward(const ForwardPass& pass, const Tensor& in,
                                                const Tensor& out) = 0;
    // `din` is null where nobody needs it. Adds into gradients through pass.weights, or at once where that
    // costs little (norms).
    virtual void backward(const BackwardPass& pass, LayerState& state, const Tensor& in, const Tensor& dout,
                          const Tensor& din) = 0;
    // Shape of the output of one microbatch; empty after the last layer.
    [[nodiscard]] virtual Shape output_shape() const = 0;
    [[nodiscard]] virtual bool recomputable() const { return false; }  // blocks are
};

}  // namespace tw
