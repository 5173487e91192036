// The shim's matrix product: sums in fp32, one element after another.
#include "real_exec/backend/cuda/gemm.hpp"

#include "real_exec/backend/cuda/device.hpp"

namespace tw::cuda {
namespace {

float read(const MatrixView& m, std::int64_t row, std::int64_t col) {
    float value = 0;
    typed(m.dtype,
          [&](auto t) { value = to_float(static_cast<const decltype(t)*>(m.data)[row * m.ld + col]); });
    return value;
}

class ShimGemm final : public Gemm {
  public:
    [[nodiscard]] std::string description() const override { return "plain loops"; }
    void run(const MatrixView& a, bool transpose_a, const MatrixView& b, bool transpose_b,
             const MatrixView& c, bool accumulate, const Tensor& bias, Stream) override {
        const std::int64_t inner = transpose_a ? a.rows : a.cols;
        const MatrixView offsets{bias.data, bias.dtype, 1, c.cols, c.cols};
        for (std::int64_t i = 0; i < c.rows; ++i) {
            for (std::int64_t j = 0; j < c.cols; ++j) {
                float sum = accumulate ? read(c, i, j) : 0.0F;
                for (std::int64_t k = 0; k < inner; ++k)
                    sum += (transpose_a ? read(a, k, i) : read(a, i, k)) *
                           (transpose_b ? read(b, j, k) : read(b, k, j));
                if (bias) sum += read(offsets, 0, j);
                typed(c.dtype, [&](auto t) {
                    using T = decltype(t);
                    static_cast<T*>(c.data)[i * c.ld + j] = from_float<T>(sum);
                });
            }
        }
    }
};

}  // namespace

std::unique_ptr<Gemm> make_gemm(bool, Stream) {
    return std::make_unique<ShimGemm>();
}

}  // namespace tw::cuda
