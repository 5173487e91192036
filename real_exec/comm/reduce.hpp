// Sums of tensors that arrived from several ranks: in fp32 whatever the type, in the order of the list, so
// that a result depends on the group's order alone and never on who arrived first.
#pragma once

#include <cstdint>
#include <span>

#include "real_exec/backend/tensor.hpp"

namespace tw {

// out[i] = parts[0][i] + parts[1][i] + ..., accumulated in fp32, rounded once (bf16: to nearest even). `out`
// may be one of the parts. F32, BF16 or F16, host memory.
void sum_in_order(std::span<const void* const> parts, void* out, std::int64_t elements, DType dtype);
// The same with the maximum; F32.
void max_of(std::span<const void* const> parts, void* out, std::int64_t elements);

// First element of part `index` of `parts` nearly equal parts of `elements`; part `parts` ends the last.
constexpr std::int64_t part_begin(std::int64_t elements, int parts, int index) {
    return elements * index / parts;
}

}  // namespace tw
