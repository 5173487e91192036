#include "real_exec/checkpoint/float_convert.hpp"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.hpp"

namespace tw {
namespace {

float load(const std::byte* from, DType type) {
    std::uint16_t half = 0;
    if (type == DType::F32) {
        float value = 0;
        std::memcpy(&value, from, sizeof value);
        return value;
    }
    std::memcpy(&half, from, sizeof half);
    return type == DType::BF16 ? float_from_bf16(half) : float_from_f16(half);
}

void store(float value, std::byte* to, DType type) {
    if (type == DType::F32) {
        std::memcpy(to, &value, sizeof value);
        return;
    }
    const std::uint16_t half = type == DType::BF16 ? bf16_from_float(value) : f16_from_float(value);
    std::memcpy(to, &half, sizeof half);
}

}  // namespace

float float_from_bf16(std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

std::uint16_t bf16_from_float(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);  // stays quiet
    return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
}

float float_from_f16(std::uint16_t bits) {
    const std::uint32_t sign = (static_cast<std::uint32_t>(bits) & 0x8000U) << 16U;
    const std::uint32_t exponent = (bits >> 10U) & 0x1fU, mantissa = bits & 0x3ffU;
    if (exponent == 0) {  // zero and subnormals: mantissa * 2^-24
        const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
        return sign != 0 ? -magnitude : magnitude;
    }
    const std::uint32_t wide = exponent == 31 ? 255U : exponent + 112U;
    return std::bit_cast<float>(sign | (wide << 23U) | (mantissa << 13U));
}

std::uint16_t f16_from_float(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>((bits >> 16U) & 0x8000U);
    const std::uint32_t magnitude = bits & 0x7fffffffU;
    const auto with_sign = [&](std::uint32_t rest) { return static_cast<std::uint16_t>(sign | rest); };
    if (magnitude > 0x7f800000U) return with_sign(0x7e00U);   // NaN
    if (magnitude >= 0x477ff000U) return with_sign(0x7c00U);  // 65520 and more round to infinity
    if (magnitude < 0x38800000U) {                            // below 2^-14: subnormal, in units of 2^-24
        return with_sign(static_cast<std::uint32_t>(std::nearbyint(std::ldexp(std::abs(value), 24))));
    }
    const std::uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13U) & 1U);
    return with_sign((rounded - 0x38000000U) >> 13U);
}

void convert_elements(const void* from, DType from_type, void* to, DType to_type, std::int64_t count) {
    const auto* source = static_cast<const std::byte*>(from);
    auto* target = static_cast<std::byte*>(to);
    if (from_type == to_type) {
        if (count > 0) std::memcpy(target, source, static_cast<std::size_t>(count) * bytes_of(to_type));
        return;
    }
    TW_CHECK(from_type != DType::I32 && to_type != DType::I32);
    const std::size_t from_size = bytes_of(from_type), to_size = bytes_of(to_type);
    for (std::int64_t i = 0; i < count; ++i, source += from_size, target += to_size)
        store(load(source, from_type), target, to_type);
}

}  // namespace tw
