// What an operation of a PyTorch trace is in the project's own words, from its recorded shapes alone. Nothing
// where they do not tell: a product without strides has no form, fp32 inputs without a telling kernel name no
// precision, attention without its flags no mask.
#pragma once

#include <optional>

#include "models/formats/kineto.hpp"
#include "models/graph/op.hpp"

namespace tw {

enum class OperationClass : std::uint8_t { Product, Attention, Norm };
OperationClass class_of(const KinetoOperation& operation);

// mm, addmm, bmm, baddbmm, _scaled_mm. Forms by layout, as cuBLAS is called: x times a transposed weight is
// Forward, rows times rows InputGrad, a transposed first operand WeightGrad.
std::optional<Gemm> product_of(const KinetoOperation& operation);
// PyTorch's flash and cuDNN attention; variable lengths (three dimensions) are left out.
std::optional<Attention> attention_of(const KinetoOperation& operation);
// native_layer_norm and _fused_rms_norm: bytes as the layers count them (models/families/work_builder.cpp).
std::optional<MemoryOp> norm_of(const KinetoOperation& operation);

}  // namespace tw
