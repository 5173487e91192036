// The CUDA Backend: kernels of our own on one stream, matrix products by cuBLASLt. Compiled by nvcc for GPUs,
// and by g++ over shim/ for tests.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "real_exec/backend/backend.hpp"
#include "real_exec/backend/cuda/device_clock.hpp"
#include "real_exec/backend/cuda/gemm.hpp"
#include "real_exec/backend/cuda/memory_pool.hpp"
#include "real_exec/backend/cuda/runtime_api.hpp"

namespace tw::cuda {

class CudaBackend final : public Backend {
  public:
    CudaBackend(DeviceInfo device, bool tf32);
    ~CudaBackend() override;

    [[nodiscard]] std::string_view name() const override { return "cuda"; }
    [[nodiscard]] std::string description() const override;
    [[nodiscard]] int multiprocessors() const override { return device_.multiprocessors; }
    [[nodiscard]] bool host_memory() const override { return false; }
    [[nodiscard]] bool holds(const void* data) const override { return is_device_memory(data); }
    [[nodiscard]] Stream stream() const { return stream_; }

    void release_cached() override;
    void copy_from_host(const Tensor& to, const void* from) override;
    void copy_to_host(void* to, const Tensor& from) override;
    void copy(const Tensor& from, const Tensor& to) override;
    void synchronize() override;
    void mark() override;
    [[nodiscard]] bool reached_mark() override;
    void align_clocks() override { clock_.align(stream_); }
    [[nodiscard]] std::unique_ptr<Moment> moment() override { return clock_.record(stream_); }
    // The same of another stream of the device; null where nobody asks (align_clocks was never called).
    [[nodiscard]] std::unique_ptr<Moment> moment_on(Stream stream) {
        return clock_.aligned() ? clock_.record(stream) : nullptr;
    }
    [[nodiscard]] std::size_t system_bytes() const override;

    void fill(const Tensor& x, double value) override;
    void add(const Tensor& x, const Tensor& y) override { axpby(1, x, 1, y); }
    void scale(const Tensor& x, double factor) override { axpby(factor, x, 0, x); }
    void axpby(double a, const Tensor& x, double b, const Tensor& y) override;
    double sum_squares(const Tensor& x) override;
    bool all_finite(const Tensor& x) override;
    void activation_forward(Activation kind, const Tensor& x, const Tensor& y) override;
    void activation_backward(Activation kind, const Tensor& x, const Tensor& dy, const Tensor& dx) override;
    void gated_forward(Activation kind, const MatrixView& gate, const MatrixView& up,
                       const MatrixView& y) override;
    void gated_backward(Activation kind, const MatrixView& gate, const MatrixView& up, const MatrixView& dy,
                        const MatrixView& dgate, const MatrixView& dup) override;
    void dropout_add(const Tensor& x, const Tensor& residual, const Tensor& y,
                     const DropoutSpec& dropout) override;
    void dropout_backward(const Tensor& dy, const Tensor& dx, const DropoutSpec& dropout) override;

    void gemm(const MatrixView& a, bool transpose_a, const MatrixView& b, bool transpose_b,
              const MatrixView& c, bool accumulate, const Tensor& bias) override;
    void column_sum(const MatrixView& x, const Tensor& sum) override;

    void layer_norm_forward(const Tensor& x, const Tensor& gain, const Tensor& bias, double eps,
                            const Tensor& y, const Tensor& stats) override;
    void layer_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& gain, const Tensor& stats,
                             const Tensor& add, const Tensor& dx, const Tensor& dgain,
                             const Tensor& dbias) override;
    void rms_norm_forward(const Tensor& x, const Tensor& gain, double eps, const Tensor& y,
                          const Tensor& stats) override;
    void rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& gain, const Tensor& stats,
                           const Tensor& add, const Tensor& dx, const Tensor& dgain) override;

    void attention_forward(const AttentionCall& shape, const MatrixView& q, const MatrixView& k,
                           const MatrixView& v, const MatrixView& out, const Tensor& lse) override;
    void attention_backward(const AttentionCall& shape, const MatrixView& q, const MatrixView& k,
                            const MatrixView& v, const MatrixView& out, const Tensor& lse,
                            const MatrixView& dout, const MatrixView& dq, const MatrixView& dk,
                            const MatrixView& dv) override;
    void rope(const MatrixView& x, std::int64_t seq_len, std::int64_t head_dim, double theta,
              bool inverse) override;

    void embedding_forward(const Tensor& tokens, const Tensor& table, std::int64_t first_token,
                           const Tensor& y) override;
    void embedding_backward(const Tensor& tokens, const Tensor& dy, std::int64_t first_token,
                            const Tensor& dtable) override;
    void position_add(const Tensor& table, std::int64_t seq_len, std::int64_t first_row, std::int64_t offset,
                      const Tensor& y) override;
    void position_backward(const Tensor& dy, std::int64_t seq_len, std::int64_t first_row,
                           std::int64_t offset, const Tensor& dtable) override;

    void row_max(const Tensor& logits, std::int64_t columns, const Tensor& max) override;
    void softmax_sums(const Tensor& logits, std::int64_t columns, const Tensor& targets,
                      std::int64_t first_token, const Tensor& max, const Tensor& sum,
                      const Tensor& picked) override;
    void softmax_statistics(const Tensor& logits, std::int64_t columns, const Tensor& targets,
                            std::int64_t first_token, const Tensor& max, const Tensor& sum,
                            const Tensor& picked) override;
    double cross_entropy_sum(const Tensor& targets, const Tensor& max, const Tensor& sum,
                             const Tensor& picked, std::int64_t* count) override;
    void cross_entropy_backward(const Tensor& logits, std::int64_t columns, const Tensor& targets,
                                std::int64_t first_token, const Tensor& max, const Tensor& sum,
                                double scale) override {
        cross_entropy_backward_into(logits, logits, columns, targets, first_token, max, sum, scale);
    }
    void cross_entropy_backward_into(const Tensor& gradient, const Tensor& logits, std::int64_t columns,
                                     const Tensor& targets, std::int64_t first_token, const Tensor& max,
                                     const Tensor& sum, double scale) override;

    void adamw(const Tensor& param, const Tensor& master, const Tensor& grad, const Tensor& m,
               const Tensor& v, const AdamSpec& spec) override;
    void sgd(const Tensor& param, const Tensor& master, const Tensor& grad, const Tensor& momentum,
             const SgdSpec& spec) override;
    void lamb_direction(const Tensor& weight, const Tensor& grad, const Tensor& m, const Tensor& v,
                        const AdamSpec& spec, const Tensor& direction) override;

    void router_top_k(const Tensor& logits, std::int64_t k, bool normalise, const Tensor& probabilities,
                      const Tensor& chosen, const Tensor& weight) override;
    void router_backward(const Tensor& probabilities, const Tensor& chosen, const Tensor& weight,
                         const Tensor& dweight, bool normalise, const Tensor& dlogits) override;
    void gather_rows(const Tensor& x, const Tensor& index, const Tensor& y) override;
    void combine_rows(const Tensor& x, const Tensor& place, const Tensor& weight, const Tensor& y) override;
    void combine_backward(const Tensor& dy, const Tensor& x, const Tensor& place, const Tensor& weight,
                          const Tensor& dx, const Tensor& dweight) override;

    void conv_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvSpec& spec,
                      const Tensor& y) override;
    void conv_backward_input(const Tensor& dy, const Tensor& weight, const ConvSpec& spec,
                             const Tensor& dx) override;
    void conv_backward_weight(const Tensor& dy, const Tensor& x, const ConvSpec& spec, const Tensor& dweight,
                              const Tensor& dbias) override;
    void max_pool_forward(const Tensor& x, const PoolSpec& spec, const Tensor& y,
                          const Tensor& argmax) override;
    void max_pool_backward(const Tensor& dy, const Tensor& argmax, const Tensor& dx) override;
    void average_pool_forward(const Tensor& x, const PoolSpec& spec, const Tensor& y) override;
    void average_pool_backward(const Tensor& dy, const PoolSpec& spec, const Tensor& dx) override;

  protected:
    void* raw_allocate(std::size_t bytes) override;
    void raw_free(void* data, std::size_t) override { pool_.free(data); }

  private:
    void norm_forward(bool rms, const Tensor& x, const Tensor& gain, const Tensor& bias, double eps,
                      const Tensor& y, const Tensor& stats);
    void norm_backward(bool rms, const Tensor& dy, const Tensor& x, const Tensor& gain, const Tensor& stats,
                       const Tensor& add, const Tensor& dx, const Tensor& dgain, const Tensor& dbias);
    void add_columns(const Tensor& partials, std::int64_t pieces, const Tensor& sum);

    DeviceInfo device_;
    Stream stream_;
    StreamEvent mark_;
    DeviceClock clock_;
    MemoryPool pool_;
    std::unique_ptr<Gemm> gemm_;
    void* host_word_;  // pinned: results of reductions
    std::map<std::tuple<std::int64_t, std::int64_t, double>, Buffer> rope_tables_;  // cosines, then sines
};

}  // namespace tw::cuda
