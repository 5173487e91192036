#include "real_exec/comm/reduce.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace tw {
namespace {

float to_float(std::uint16_t bf16) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bf16) << 16U);
}

std::uint16_t to_bf16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);
    return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
}

constexpr std::int64_t kBlock = 1024;  // elements accumulated at a time: the sums stay in the first cache

}  // namespace

void sum_in_order(std::span<const void* const> parts, void* out, std::int64_t elements, DType dtype) {
    TW_CHECK_MSG(dtype == DType::F32 || dtype == DType::BF16, "sums are of fp32 or bf16");
    std::array<float, kBlock> sums;
    for (std::int64_t begin = 0; begin < elements; begin += kBlock) {
        const std::int64_t count = std::min(kBlock, elements - begin);
        std::fill_n(sums.begin(), count, 0.0F);
        for (std::size_t p = 0; p < parts.size(); ++p) {
            if (dtype == DType::F32) {
                const float* from = static_cast<const float*>(parts[p]) + begin;
                if (p == 0) {
                    std::copy_n(from, count, sums.begin());
                    continue;
                }
                for (std::int64_t i = 0; i < count; ++i)
                    sums[static_cast<std::size_t>(i)] += from[i];
            } else {
                const std::uint16_t* from = static_cast<const std::uint16_t*>(parts[p]) + begin;
                for (std::int64_t i = 0; i < count; ++i)
                    sums[static_cast<std::size_t>(i)] += to_float(from[i]);
            }
        }
        if (dtype == DType::F32) {
            std::copy_n(sums.begin(), count, static_cast<float*>(out) + begin);
        } else {
            std::uint16_t* to = static_cast<std::uint16_t*>(out) + begin;
            for (std::int64_t i = 0; i < count; ++i)
                to[i] = to_bf16(sums[static_cast<std::size_t>(i)]);
        }
    }
}

void max_of(std::span<const void* const> parts, void* out, std::int64_t elements) {
    for (std::int64_t i = 0; i < elements; ++i) {
        float largest = static_cast<const float*>(parts[0])[i];
        for (std::size_t p = 1; p < parts.size(); ++p)
            largest = std::max(largest, static_cast<const float*>(parts[p])[i]);
        static_cast<float*>(out)[i] = largest;
    }
}

}  // namespace tw
