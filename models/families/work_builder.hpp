// Collects the operations of one layer as one rank runs them. The rules that all layers share live here:
// bytes of an element, tensor-parallel collectives around column- and row-parallel products, memory-bound
// kernels.
#pragma once

#include <array>
#include <vector>

#include "models/families/block_spec.hpp"
#include "models/families/linear.hpp"
#include "models/graph/layer_graph.hpp"

namespace tw {

class WorkBuilder {
  public:
    explicit WorkBuilder(const WorkShape& shape);

    const WorkShape& shape;
    std::int64_t tokens = 0;  // of this rank inside tensor-parallel regions: microbatch * seq_len / cp
    std::int64_t rows = 0;    // of this rank outside them: tokens / tp with sequence parallelism
    double e = 2;             // bytes of an activation element inside a branch
    double r = 2;             // bytes of an element of the residual stream (fp32 under autocast)
    double gemm_input = 2;    // bytes of a saved input of a module's product (fp8: 1, nvfp4: 9/16)
    bool casts = false;       // parameters and the residual stream are fp32 and cast at use
    bool tensor_parallel = false, sequence_parallel = false;
    LayerWork work;

    // Phase of the ops that follow; forward ops go to work.forward, the others to work.backward.
    void set_phase(Phase phase) { phase_ = phase; }
    void set_recompute(RecomputeLevel level) { recompute_ = level; }
    // Of the operations and tensors that follow (ModuleScope).
    void set_modules(RecomputeModules modules) { modules_ = modules; }
    [[nodiscard]] RecomputeModules modules() const { return modules_; }
    // The next product's input is one that this module discards: in fp8 its cast, which is kept instead of
    // it, is discarded and made again too (Megatron-LM core/transformer/moe/experts.py and
    // transformer_layer.py: set_save_original_input).
    void next_input_of(RecomputeModule module) { input_of_ = {module}; }
    // The next operation waits for the overlapping collectives issued before it.
    void join_next() { join_next_ = true; }

    // A product in the precision of activations: the unfused attention core's, for one, stays in bf16 where
    // modules run in fp8 (Transformer Engine's recipes: fp8_dpa is off).
    void gemm(const char* name, std::int64_t m, std::int64_t n, std::int64_t k, GemmForm form,
              std::int64_t batch = 1);
    // One of a module's three products, of `groups` modules side by side, m rows each. In fp8 with the cast
    // of what no earlier product has cast: of the input forward, of the output's gradient for the input's;
    // grouped modules cast theirs too, a weight is cast once a step (Transformer Engine 2.11
    // pytorch/module/linear.py and grouped_linear.py: forward, backward; get_weight_workspace).
    void product(const Linear& linear, std::int64_t m, GemmForm form, std::int64_t groups = 1);
    void memory(const char* name, MemoryOpKind kind, double bytes, double flops = 0,
                double host_dispatches = 1);
    void attention(const char* name, const Attention& attention);
    void collective(const char* name, CollectiveKind kind, Axis axis, double bytes, bool overlaps = false);
    void collective(const char* name, const CollectiveOp& call);

    // Enters and leaves a tensor-parallel region of the given width in the forward: with sequence parallelism
    // an all-gather and a reduce-scatter, without one nothing and an all-reduce (Korthikanti 2022, figures 4
    // and 5).
    // What modules in fp8 gather was cast before (Transformer Engine module/linear.py and base.py: forward,
    // grad_output_preprocess); `quantised` says that one is behind this gather.
    void gather(const char* name, std::int64_t width, bool quantised = true);
    void reduce(const char* name, std::int64_t width);

    void linear_forward(const Linear& linear, std::int64_t m);
    // Input gradient, then weight gradient, then bias gradient. `reduce_input`: the input's gradient is a
    // partial sum over tensor-parallel ranks, and with sequence parallelism the input is gathered again for
    // the weight gradient, hidden behind the input gradient; the reduction is hidden behind the weight
    // gradient (Megatron-LM, LinearWithGradAccumulationAndAsyncCommunication.backward).
    void linear_backward(const Linear& linear, std::int64_t m, bool reduce_input);
    // The weight gradient's additions to fp32 main gradients where the GEMM does not do it (grouped: all
    // experts).
    void weight_grad_extras(const Linear& linear, std::int64_t copies = 1);

    void save(const char* name, double bytes, SavedTensor::Keep keep);
    void save_rows(const char* name, std::int64_t width, double element_bytes, SavedTensor::Keep keep) {
        save(name, static_cast<double>(rows) * static_cast<double>(width) * element_bytes, keep);
    }
    void save_tokens(const char* name, std::int64_t width, double element_bytes, SavedTensor::Keep keep) {
        save(name, static_cast<double>(tokens) * static_cast<double>(width) * element_bytes, keep);
    }
    // Statistics that norms save (fp32 mean and reciprocal deviation, RMS the latter alone). Korthikanti's
    // formulas leave these small buffers out, and so does a fused layer; an eager one counts them.
    void save_norm_stats(const char* name, const NormSpec& norm, std::int64_t row_count);

    // The norm of the residual stream: forward, and its backward with the addition of the residual's
    // gradient.
    void norm_forward(const char* name, const NormSpec& norm, std::int64_t width);
    void norm_backward(const char* name, const NormSpec& norm, std::int64_t width, const char* add_name);
    // Dropout and addition of a branch to the residual stream.
    void residual_forward(const char* name, std::int64_t width);
    void residual_backward(const char* name, std::int64_t width);

    // A branch's input enters `modules` products, not one: an eager framework casts and keeps it for each of
    // them (torch.autocast keeps casts of parameters alone), and sums their input gradients.
    void separate_inputs_forward(const char* name, int modules, std::int64_t width);
    void separate_inputs_backward(const char* name, int modules, std::int64_t width);

    // Fills in work.by_op from the forward operations so far, where the shape asks for it.
    void recompute_by_op();

    // Recomputation is of blocks: what embeddings and heads keep stays, and their operations run once.
    void never_recomputed();

    [[nodiscard]] bool unfused() const { return !shape.fused_elementwise; }

  private:
    Op& push(const char* name);
    void push_gemm(const char* name, Gemm gemm);
    void cast_before_gather();                             // of the two operations that were pushed last
    void norm_of_copy(const char* name, double elements);  // WorkShape::norms_of_copies

    Phase phase_ = Phase::Forward;
    RecomputeLevel recompute_ = RecomputeLevel::Full;
    RecomputeModules modules_, input_of_;
    bool join_next_ = false;
    // Outputs of the products of each forward operation (Linear::products), by its place in work.forward.
    std::vector<std::array<std::int64_t, 3>> products_;
};

// While it lives, operations run again and tensors are dropped with the module too.
class ModuleScope {
  public:
    ModuleScope(WorkBuilder& builder, RecomputeModules modules)
        : builder_(builder), before_(builder.modules()) {
        modules.add(before_);
        builder.set_modules(modules);
    }
    ~ModuleScope() { builder_.set_modules(before_); }
    ModuleScope(const ModuleScope&) = delete;
    ModuleScope& operator=(const ModuleScope&) = delete;

  private:
    WorkBuilder& builder_;
    RecomputeModules before_;
};

}  // namespace tw
