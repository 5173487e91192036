#ifndef TW_GEMM_ONEDNN

#ifdef TW_GEMM_OPENBLAS
#include <cblas.h>
#endif

#include <algorithm>
#include <vector>

#include "real_exec/backend/cpu/gemm.hpp"

namespace tw::cpu {
namespace {

void start_with_bias(const MatrixView& c, const Tensor& bias, bool accumulate) {
    const float* b = bias.as<float>();
    for (std::int64_t i = 0; i < c.rows; ++i) {
        float* row = static_cast<float*>(c.data) + i * c.ld;
        for (std::int64_t j = 0; j < c.cols; ++j)
            row[j] = accumulate ? row[j] + b[j] : b[j];
    }
}

bool all_f32(const MatrixView& a, const MatrixView& c, const Tensor& bias) {
    return a.dtype == DType::F32 && c.dtype == DType::F32 && (!bias || bias.dtype == DType::F32);
}

#ifdef TW_GEMM_OPENBLAS

class OpenBlasGemm final : public Gemm {
  public:
    explicit OpenBlasGemm(int threads) { openblas_set_num_threads(threads); }
    [[nodiscard]] std::string description() const override { return "OpenBLAS"; }
    bool run(const MatrixView& a, bool transpose_a, const MatrixView& b, bool transpose_b,
             const MatrixView& c, bool accumulate, const Tensor& bias) override {
        if (!all_f32(a, c, bias)) return false;
        if (bias) start_with_bias(c, bias, accumulate);
        const auto narrow = [](std::int64_t x) { return static_cast<blasint>(x); };
        cblas_sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans,
                    transpose_b ? CblasTrans : CblasNoTrans, narrow(c.rows), narrow(c.cols),
                    narrow(transpose_a ? a.rows : a.cols), 1.0F, static_cast<const float*>(a.data),
                    narrow(a.ld), static_cast<const float*>(b.data), narrow(b.ld),
                    accumulate || bias ? 1.0F : 0.0F, static_cast<float*>(c.data), narrow(c.ld));
        return true;
    }
};

#else

// Tiles of our own: B in panels that stay in the cache, packed when it is transposed.
class OwnGemm final : public Gemm {
  public:
    OwnGemm(int, const Kernels& kernels) : k_(kernels) {}
    [[nodiscard]] std::string description() const override { return "own matrix products"; }
    bool run(const MatrixView& a, bool transpose_a, const MatrixView& b, bool transpose_b,
             const MatrixView& c, bool accumulate, const Tensor& bias) override {
        if (!all_f32(a, c, bias)) return false;
        if (bias) start_with_bias(c, bias, accumulate);
        const std::int64_t depth = transpose_a ? a.rows : a.cols;
        for (std::int64_t p = 0; p < depth; p += kDepth) {
            const std::int64_t count = std::min(kDepth, depth - p);
            for (std::int64_t j = 0; j < c.cols; j += kColumns) {
                const std::int64_t columns = std::min(kColumns, c.cols - j);
                const auto* from = static_cast<const float*>(b.data);
                for (std::int64_t r = 0; r < count; ++r) {
                    for (std::int64_t s = 0; s < columns; ++s)
                        panel_[static_cast<std::size_t>(r * columns + s)] =
                            transpose_b ? from[(j + s) * b.ld + p + r] : from[(p + r) * b.ld + j + s];
                }
                k_.small_gemm(c.rows, columns, count,
                              static_cast<const float*>(a.data) + (transpose_a ? p * a.ld : p),
                              transpose_a ? 1 : a.ld, transpose_a ? a.ld : 1, panel_.data(), columns,
                              static_cast<float*>(c.data) + j, c.ld, accumulate || bias || p > 0);
            }
        }
        return true;
    }

  private:
    static constexpr std::int64_t kDepth = 256, kColumns = 64;
    const Kernels& k_;
    std::vector<float> panel_ = std::vector<float>(static_cast<std::size_t>(kDepth * kColumns));
};

#endif

}  // namespace

std::unique_ptr<Gemm> make_gemm(int threads, const Kernels& kernels) {
#ifdef TW_GEMM_OPENBLAS
    static_cast<void>(kernels);
    return std::make_unique<OpenBlasGemm>(threads);
#else
    return std::make_unique<OwnGemm>(threads, kernels);
#endif
}

}  // namespace tw::cpu

#endif  // !TW_GEMM_ONEDNN
