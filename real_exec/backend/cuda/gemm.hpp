// The matrix products of a device.
#pragma once

#include <memory>
#include <string>

#include "real_exec/backend/backend.hpp"
#include "real_exec/backend/cuda/stream.hpp"

namespace tw::cuda {

class Gemm {
  public:
    virtual ~Gemm() = default;
    [[nodiscard]] virtual std::string description() const = 0;  // "cuBLASLt 13.0"
    // Backend::gemm's contract, but a bias has c's type.
    virtual void run(const MatrixView& a, bool transpose_a, const MatrixView& b, bool transpose_b,
                     const MatrixView& c, bool accumulate, const Tensor& bias, Stream stream) = 0;
};
// tf32: fp32 products may use tensor cores that round their inputs to 10 bits. All products run on `stream`.
std::unique_ptr<Gemm> make_gemm(bool tf32, Stream stream);

}  // namespace tw::cuda
