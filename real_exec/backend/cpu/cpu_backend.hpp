// The CPU's Backend: ranges of rows on a few threads, kernels of the best instruction set that this processor
// has, matrix products by oneDNN (or OpenBLAS, or our own tiles).
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "real_exec/backend/backend.hpp"
#include "real_exec/backend/cpu/kernels/table.hpp"
#include "real_exec/backend/cpu/memory_pool.hpp"

namespace tw::cpu {

// Kernels by name ("generic", "avx2", "avx512"); null where this build or processor lacks them.
const Kernels* kernels_named(std::string_view isa);
const Kernels& best_kernels();

class Gemm;  // gemm.cpp: one implementation a build

class CpuBackend final : public Backend {
  public:
    CpuBackend(const CpuOptions& options, const Kernels& kernels);
    ~CpuBackend() override;

    [[nodiscard]] std::string_view name() const override { return "cpu"; }
    [[nodiscard]] std::string description() const override;
    [[nodiscard]] bool host_memory() const override { return true; }
    [[nodiscard]] bool holds(const void*) const override { return false; }

    void release_cached() override { pool_.release(); }
    void copy_from_host(const Tensor& to, const void* from) override;
    void copy_to_host(void* to, const Tensor& from) override;
    void copy(const Tensor& from, const Tensor& to) override;
    void synchronize() override {}

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
    double cross_entropy_sum(const Tensor& targets, const Tensor& max, const Tensor& sum,
                             const Tensor& picked, std::int64_t* count) override;
    void cross_entropy_backward(const Tensor& logits, std::int64_t columns, const Tensor& targets,
                                std::int64_t first_token, const Tensor& max, const Tensor& sum,
                                double scale) override;

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
    void* raw_allocate(std::size_t bytes) override { return pool_.allocate(bytes); }
    void raw_free(void* data, std::size_t) override { pool_.free(data); }

  private:
    void norm_forward(bool rms, const Tensor& x, const Tensor& gain, const Tensor& bias, double eps,
                      const Tensor& y, const Tensor& stats);
    void norm_backward(bool rms, const Tensor& dy, const Tensor& x, const Tensor& gain, const Tensor& stats,
                       const Tensor& add, const Tensor& dx, const Tensor& dgain, const Tensor& dbias);

    // body(begin, end) over [0, n) in at most `threads` ranges, each a multiple of `grain` long.
    template <class Body>
    void parallel(std::int64_t n, std::int64_t grain, Body body) const {
        const std::int64_t pieces = std::min<std::int64_t>(threads_, (n + grain - 1) / grain);
        if (pieces <= 1) {
            if (n > 0) body(std::int64_t{0}, n);
            return;
        }
        const std::int64_t each = ((n + pieces - 1) / pieces + grain - 1) / grain * grain;
        [[maybe_unused]] const int count = static_cast<int>(pieces);
#ifdef _OPENMP
#pragma omp parallel for num_threads(count) schedule(static, 1)
#endif
        for (std::int64_t p = 0; p < pieces; ++p) {
            const std::int64_t begin = p * each;
            const std::int64_t end = std::min(n, begin + each);
            if (begin < end) body(begin, end);
        }
    }
    // body(begin, end, partial) with one zeroed partial of `size` floats a range; their sum, in the order of
    // ranges, is added to `total`.
    template <class Body>
    void reduce(std::int64_t n, const Tensor& total, std::int64_t size, Body body);

    int threads_;
    const Kernels& k_;
    MemoryPool pool_;
    std::unique_ptr<Gemm> gemm_;
    struct RopeTable {
        std::vector<float> cosines, sines, minus_sines;
    };
    std::map<std::tuple<std::int64_t, std::int64_t, double>, RopeTable> rope_tables_;
};

Num num_of(DType dtype);  // CHECKs that kernels have it
Array array_of(const Tensor& tensor, std::int64_t offset = 0);
Matrix matrix_of(const MatrixView& view, std::int64_t row = 0, std::int64_t column = 0);
Dropout dropout_of(const DropoutSpec& spec);

}  // namespace tw::cpu
