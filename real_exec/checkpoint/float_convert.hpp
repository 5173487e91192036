// Conversion between the floating types of files: round to nearest, ties to even; NaN stays NaN, what is
// beyond a type's range becomes infinite. Host memory.
#pragma once

#include <cstdint>

#include "real_exec/backend/tensor.hpp"

namespace tw {

float float_from_bf16(std::uint16_t bits);
float float_from_f16(std::uint16_t bits);
std::uint16_t bf16_from_float(float value);
std::uint16_t f16_from_float(float value);

// `count` elements; neither side needs to be aligned. I32 converts to I32 alone.
void convert_elements(const void* from, DType from_type, void* to, DType to_type, std::int64_t count);

}  // namespace tw
