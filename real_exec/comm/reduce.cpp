#include "real_exec/comm/reduce.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "real_exec/checkpoint/float_convert.hpp"

namespace tw {
namespace {

constexpr std::int64_t kBlock = 1024;  // elements accumulated at a time: the sums stay in the first cache

}  // namespace

void sum_in_order(std::span<const void* const> parts, void* out, std::int64_t elements, DType dtype) {
    TW_CHECK_MSG(dtype != DType::I32, "sums are of fp32, bf16 or fp16");
    const bool bf16 = dtype == DType::BF16;
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
                    sums[static_cast<std::size_t>(i)] +=
                        bf16 ? float_from_bf16(from[i]) : float_from_f16(from[i]);
            }
        }
        if (dtype == DType::F32) {
            std::copy_n(sums.begin(), count, static_cast<float*>(out) + begin);
        } else {
            std::uint16_t* to = static_cast<std::uint16_t*>(out) + begin;
            for (std::int64_t i = 0; i < count; ++i)
                to[i] = bf16 ? bf16_from_float(sums[static_cast<std::size_t>(i)])
                             : f16_from_float(sums[static_cast<std::size_t>(i)]);
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
