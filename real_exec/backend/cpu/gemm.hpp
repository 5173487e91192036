// The matrix products of this build.
#pragma once

#include <memory>
#include <string>

#include "real_exec/backend/backend.hpp"
#include "real_exec/backend/cpu/kernels/table.hpp"

namespace tw::cpu {

class Gemm {
  public:
    virtual ~Gemm() = default;
    [[nodiscard]] virtual std::string description() const = 0;  // "oneDNN 2.6.3"
    // Backend::gemm's contract; false: this library cannot do these types (the caller converts).
    virtual bool run(const MatrixView& a, bool transpose_a, const MatrixView& b, bool transpose_b,
                     const MatrixView& c, bool accumulate, const Tensor& bias) = 0;
};
std::unique_ptr<Gemm> make_gemm(int threads, const Kernels& kernels);

}  // namespace tw::cpu
