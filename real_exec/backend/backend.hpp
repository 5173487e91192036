// Backend: one rank's memory and kernels. cpu/ implements it with oneDNN (or OpenBLAS, or loops of our own)
// and our own vectorised kernels, cuda/ with cuBLASLt and kernels of our own. The caller owns all memory;
// kernels take Tensor views, run in call order, and know nothing of ranks: what a collective must finish (a
// row-parallel sum, the pieces of a sharded softmax) is split into calls around it.
//
// Rows are tokens, sample after sample: row b * seq_len + s. Floating tensors are F32, BF16 or F16;
// arithmetic inside a kernel is fp32 (CPUs multiply F16 matrices through fp32 copies). Where a kernel "adds",
// it adds into what is there. An empty Tensor (data null) is an argument left out. Shapes that do not fit are
// a broken invariant (CHECK).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "real_exec/backend/moment.hpp"
#include "real_exec/backend/tensor.hpp"

namespace tw {

// Bytes that Buffers hold, as asked for (not rounded up).
struct MemoryStats {
    std::size_t current = 0, peak = 0;
    std::array<std::size_t, kMemoryUses> current_by_use{};
    std::array<std::size_t, kMemoryUses> peak_by_use{};  // each use's share at the moment of the overall peak
};

// A matrix inside memory: element (i, j) is data[i * ld + j].
struct MatrixView {
    void* data = nullptr;
    DType dtype = DType::F32;
    std::int64_t rows = 0, cols = 0, ld = 0;

    // All of a tensor as [elements / last dimension, last dimension].
    static MatrixView of(const Tensor& tensor);
    // Columns [begin, begin + count) of the same rows.
    [[nodiscard]] MatrixView columns(std::int64_t begin, std::int64_t count) const;
};

enum class Activation : std::uint8_t { GeluExact, GeluTanh, Silu, Relu };

// Inverted dropout, drawn from (seed, stream, index of the element in the whole tensor): element (row, col)
// of a [rows, cols] shard has index (first_row + row) * row_width + first_col + col.
struct DropoutSpec {
    double probability = 0;  // 0: none
    std::uint64_t seed = 0, stream = 0;
    std::int64_t first_row = 0, row_width = 0, first_col = 0;
};

// Attention of [batch * seq_len] rows. Queries of head h are columns [h * head_dim, (h + 1) * head_dim) of
// `q`, keys and values of head h * kv_heads / heads likewise; q, k and v may be column ranges of one fused
// matrix.
struct AttentionCall {
    std::int64_t batch = 1, seq_len = 1, heads = 1, kv_heads = 1, head_dim = 1;
    bool causal = true;
    std::int64_t window = 0;     // a query sees itself and the window - 1 positions before it; 0: all
    double scale = 1;            // of the scores, usually head_dim^-1/2
    DropoutSpec dropout;         // of the probabilities: row ((sample * all heads + head) * seq_len + query),
                                 // column key; first_row counts samples, first_col this rank's first head
    std::int64_t all_heads = 0;  // of the whole layer, for dropout's index; 0: heads
};

struct AdamSpec {
    double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
    std::int64_t step = 1;  // from 1: bias correction
    double grad_scale = 1;  // gradients are multiplied by it first (clipping, loss scale, mean)
};

struct SgdSpec {
    double lr = 1e-2, momentum = 0, weight_decay = 0;
    double grad_scale = 1;
};

struct ConvSpec {
    std::int64_t stride = 1, padding_h = 0, padding_w = 0, groups = 1;
};

struct PoolSpec {
    std::int64_t kernel_h = 1, kernel_w = 1, stride = 1, padding_h = 0, padding_w = 0;
};

class Backend {
  public:
    virtual ~Backend() = default;
    Backend() = default;
    Backend(const Backend&) = delete;
    Backend& operator=(const Backend&) = delete;

    [[nodiscard]] virtual std::string_view name() const = 0;         // "cpu"
    [[nodiscard]] virtual std::string description() const = 0;       // "cpu: oneDNN 2.6.3, avx512, 1 thread"
    [[nodiscard]] virtual int multiprocessors() const { return 0; }  // of a GPU
    [[nodiscard]] virtual bool host_memory() const = 0;              // the host may read and write tensors
    // Whether this address is the device's alone; host memory may take part in collectives beside tensors.
    [[nodiscard]] virtual bool holds(const void* data) const = 0;

    // ---- memory; thread-safe ----
    Buffer allocate(std::size_t bytes, MemoryUse use);  // 64-byte aligned, contents undefined
    Buffer allocate(DType dtype, const Shape& shape, MemoryUse use);
    [[nodiscard]] MemoryStats memory() const;
    void reset_peak();                  // the peak starts again from what is held now
    virtual void release_cached() = 0;  // returns freed memory to the system
    virtual void copy_from_host(const Tensor& to, const void* from) = 0;
    virtual void copy_to_host(void* to, const Tensor& from) = 0;
    virtual void copy(const Tensor& from, const Tensor& to) = 0;  // same elements; converts between types
    virtual void synchronize() = 0;                               // returns when all kernels have run
    // Without waiting: mark() notes what has been asked for so far, reached_mark() tells whether that much
    // has run. There is one mark, the latest. Kernels that run inside their calls have always reached it.
    virtual void mark() {}
    [[nodiscard]] virtual bool reached_mark() { return true; }
    // The point behind all that has been asked for so far, for traces: reached where reached_mark() is true
    // of a mark made after it. Kernels that run inside their calls have reached it. The device's clock is
    // held against the host's by align_clocks(), which waits for what the device is at: called before the
    // first moment, and again now and then, since clocks drift.
    virtual void align_clocks() {}
    [[nodiscard]] virtual std::unique_ptr<Moment> moment();
    // What the system counts as this process's where tensors are kept, the most so far: resident host memory
    // (VmHWM), or, on a device, what is taken of it now, by its context, its libraries and others that share
    // it too (freed tensors stay reserved). 0: not known.
    [[nodiscard]] virtual std::size_t system_bytes() const;

    // ---- element by element ----
    virtual void fill(const Tensor& x, double value) = 0;
    virtual void add(const Tensor& x, const Tensor& y) = 0;                        // y += x, any two types
    virtual void scale(const Tensor& x, double factor) = 0;                        // x *= factor
    virtual void axpby(double a, const Tensor& x, double b, const Tensor& y) = 0;  // y = a x + b y
    virtual double sum_squares(const Tensor& x) = 0;  // in fp64 over fp32 partial sums
    virtual bool all_finite(const Tensor& x) = 0;
    virtual void activation_forward(Activation kind, const Tensor& x, const Tensor& y) = 0;
    virtual void activation_backward(Activation kind, const Tensor& x, const Tensor& dy,
                                     const Tensor& dx) = 0;
    // y = activation(gate) * up over matrices of equal shape; the halves may be columns of one matrix.
    virtual void gated_forward(Activation kind, const MatrixView& gate, const MatrixView& up,
                               const MatrixView& y) = 0;
    virtual void gated_backward(Activation kind, const MatrixView& gate, const MatrixView& up,
                                const MatrixView& dy, const MatrixView& dgate, const MatrixView& dup) = 0;
    // y = residual + dropout(x); residual may be left out. x, y: [rows, cols].
    virtual void dropout_add(const Tensor& x, const Tensor& residual, const Tensor& y,
                             const DropoutSpec& dropout) = 0;
    virtual void dropout_backward(const Tensor& dy, const Tensor& dx, const DropoutSpec& dropout) = 0;

    // ---- matrix products ----
    // c = op(a) op(b) + bias (+ c where accumulate). a and b have one type; c that type or F32; bias [cols].
    virtual void gemm(const MatrixView& a, bool transpose_a, const MatrixView& b, bool transpose_b,
                      const MatrixView& c, bool accumulate, const Tensor& bias = {}) = 0;
    virtual void column_sum(const MatrixView& x, const Tensor& sum) = 0;  // sum[j] += sum over i of x[i][j]

    // ---- normalisation over the last dimension; x, y: [rows, cols], stats F32 [rows, 2] (mean, 1/deviation)
    // ----
    virtual void layer_norm_forward(const Tensor& x, const Tensor& gain, const Tensor& bias, double eps,
                                    const Tensor& y, const Tensor& stats) = 0;
    // dx = (add ? add : 0) + gradient; adds into dgain and dbias where given.
    virtual void layer_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& gain,
                                     const Tensor& stats, const Tensor& add, const Tensor& dx,
                                     const Tensor& dgain, const Tensor& dbias) = 0;
    virtual void rms_norm_forward(const Tensor& x, const Tensor& gain, double eps, const Tensor& y,
                                  const Tensor& stats) = 0;  // stats: (0, 1/rms)
    virtual void rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& gain, const Tensor& stats,
                                   const Tensor& add, const Tensor& dx, const Tensor& dgain) = 0;

    // ---- attention ----
    // out: [rows, heads * head_dim]; lse F32 [batch, heads, seq_len]: log of the sum of exponentials.
    virtual void attention_forward(const AttentionCall& shape, const MatrixView& q, const MatrixView& k,
                                   const MatrixView& v, const MatrixView& out, const Tensor& lse) = 0;
    virtual void attention_backward(const AttentionCall& shape, const MatrixView& q, const MatrixView& k,
                                    const MatrixView& v, const MatrixView& out, const Tensor& lse,
                                    const MatrixView& dout, const MatrixView& dq, const MatrixView& dk,
                                    const MatrixView& dv) = 0;
    // Rotates pairs (i, i + head_dim / 2) of every head in place (Su et al. 2021, in Hugging Face's order);
    // inverse: the gradient.
    virtual void rope(const MatrixView& x, std::int64_t seq_len, std::int64_t head_dim, double theta,
                      bool inverse) = 0;

    // ---- embedding; tokens I32 [rows] ----
    // y[row] = table[token - first_token] where this shard holds the token, else 0.
    virtual void embedding_forward(const Tensor& tokens, const Tensor& table, std::int64_t first_token,
                                   const Tensor& y) = 0;
    virtual void embedding_backward(const Tensor& tokens, const Tensor& dy, std::int64_t first_token,
                                    const Tensor& dtable) = 0;  // adds, in one order
    // y[row] += table[(first_row + row) % seq_len + offset].
    virtual void position_add(const Tensor& table, std::int64_t seq_len, std::int64_t first_row,
                              std::int64_t offset, const Tensor& y) = 0;
    virtual void position_backward(const Tensor& dy, std::int64_t seq_len, std::int64_t first_row,
                                   std::int64_t offset, const Tensor& dtable) = 0;  // adds

    // ---- cross entropy over a vocabulary shard; logits [rows, shard], columns from `columns` on are padding
    // --
    virtual void row_max(const Tensor& logits, std::int64_t columns, const Tensor& max) = 0;
    // sum[row] = sum of exp(logit - max); picked[row] = logit of the target if it is in this shard, else 0.
    virtual void softmax_sums(const Tensor& logits, std::int64_t columns, const Tensor& targets,
                              std::int64_t first_token, const Tensor& max, const Tensor& sum,
                              const Tensor& picked) = 0;
    // row_max and softmax_sums of a whole vocabulary, together: a device reads the logits once.
    virtual void softmax_statistics(const Tensor& logits, std::int64_t columns, const Tensor& targets,
                                    std::int64_t first_token, const Tensor& max, const Tensor& sum,
                                    const Tensor& picked);
    // Sum over rows with target >= 0 of log(sum) + max - picked; `count` of such rows.
    virtual double cross_entropy_sum(const Tensor& targets, const Tensor& max, const Tensor& sum,
                                     const Tensor& picked, std::int64_t* count) = 0;
    // logits becomes scale * (softmax - onehot); 0 in padding and in rows with target < 0.
    virtual void cross_entropy_backward(const Tensor& logits, std::int64_t columns, const Tensor& targets,
                                        std::int64_t first_token, const Tensor& max, const Tensor& sum,
                                        double scale) = 0;
    // The same into `gradient` of another type; what the logits hold afterwards is undefined.
    virtual void cross_entropy_backward_into(const Tensor& gradient, const Tensor& logits,
                                             std::int64_t columns, const Tensor& targets,
                                             std::int64_t first_token, const Tensor& max, const Tensor& sum,
                                             double scale);

    // ---- optimizers; states and master F32, in place. `master` left out: `param` is the master (F32). ----
    virtual void adamw(const Tensor& param, const Tensor& master, const Tensor& grad, const Tensor& m,
                       const Tensor& v, const AdamSpec& spec) = 0;
    virtual void sgd(const Tensor& param, const Tensor& master, const Tensor& grad, const Tensor& momentum,
                     const SgdSpec& spec) = 0;
    // LAMB's direction r + weight_decay * w (You et al. 2020, algorithm 2), before its trust ratio.
    virtual void lamb_direction(const Tensor& weight, const Tensor& grad, const Tensor& m, const Tensor& v,
                                const AdamSpec& spec, const Tensor& direction) = 0;

    // ---- mixture of experts ----
    // Probabilities softmax(logits) F32 [rows, experts]; the k largest, ties to the lower expert, into chosen
    // I32 [rows, k] and weight F32 [rows, k], which sums to 1 where `normalise`.
    virtual void router_top_k(const Tensor& logits, std::int64_t k, bool normalise,
                              const Tensor& probabilities, const Tensor& chosen, const Tensor& weight) = 0;
    virtual void router_backward(const Tensor& probabilities, const Tensor& chosen, const Tensor& weight,
                                 const Tensor& dweight, bool normalise, const Tensor& dlogits) = 0;
    virtual void gather_rows(const Tensor& x, const Tensor& index,
                             const Tensor& y) = 0;  // y[i] = x[index[i]]
    // y[t] (+)= sum over j of weight[t][j] * x[place[t][j]]; place < 0: nothing.
    virtual void combine_rows(const Tensor& x, const Tensor& place, const Tensor& weight,
                              const Tensor& y) = 0;
    // dx[place[t][j]] = weight[t][j] * dy[t]; dweight[t][j] = dy[t] . x[place[t][j]].
    virtual void combine_backward(const Tensor& dy, const Tensor& x, const Tensor& place,
                                  const Tensor& weight, const Tensor& dx, const Tensor& dweight) = 0;

    // ---- images: [batch, channels, height, width] ----
    virtual void conv_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvSpec& spec,
                              const Tensor& y) = 0;
    virtual void conv_backward_input(const Tensor& dy, const Tensor& weight, const ConvSpec& spec,
                                     const Tensor& dx) = 0;
    virtual void conv_backward_weight(const Tensor& dy, const Tensor& x, const ConvSpec& spec,
                                      const Tensor& dweight, const Tensor& dbias) = 0;  // adds
    virtual void max_pool_forward(const Tensor& x, const PoolSpec& spec, const Tensor& y,
                                  const Tensor& argmax) = 0;  // argmax I32, index into one channel's image
    virtual void max_pool_backward(const Tensor& dy, const Tensor& argmax, const Tensor& dx) = 0;
    virtual void average_pool_forward(const Tensor& x, const PoolSpec& spec, const Tensor& y) = 0;
    virtual void average_pool_backward(const Tensor& dy, const PoolSpec& spec, const Tensor& dx) = 0;

  protected:
    friend class Buffer;
    virtual void* raw_allocate(std::size_t bytes) = 0;  // never null: out of memory is a CHECK
    virtual void raw_free(void* data, std::size_t bytes) = 0;

  private:
    void free(void* data, std::size_t bytes, MemoryUse use);
    mutable std::mutex mutex_;
    MemoryStats stats_;
};

struct CpuOptions {
    int threads = 1;
};
std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options = {});

}  // namespace tw
