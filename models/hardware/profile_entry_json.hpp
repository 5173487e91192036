// What the entries of trainwright/profile documents have in common, and those of a processor's products.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "models/hardware/profile.hpp"

namespace tw {

inline constexpr double kHuge = 1e30;

inline constexpr std::array kPrecisions = {Precision::Fp32, Precision::Tf32, Precision::Fp16,
                                           Precision::Bf16, Precision::Fp8,  Precision::Nvfp4};
inline constexpr std::array kForms = {GemmForm::Forward, GemmForm::InputGrad, GemmForm::WeightGrad};

template <class Enum, std::size_t N>
Enum read_enum(const JsonObject& object, std::string_view key, const std::array<Enum, N>& values) {
    const std::string text = object.string(key);
    for (const Enum value : values) {
        if (to_string(value) == text) return value;
    }
    std::string valid;
    for (const Enum value : values)
        valid += (valid.empty() ? "" : ", ") + std::string(to_string(value));
    if (!text.empty()) object.error(key, "unknown name \"" + text + "\"", "one of " + valid);
    return values.front();
}

inline double positive(const JsonObject& o, std::string_view key) {
    return o.number(key, 1e-30, kHuge);
}
inline double positive_or(const JsonObject& o, std::string_view key, double fallback) {
    return o.number_or(key, fallback, 1e-30, kHuge);
}
inline double amount(const JsonObject& o, std::string_view key) {
    return o.number(key, 0, kHuge);
}

FitRecord read_fit(const JsonObject& o);
void write_fit(Json& o, const FitRecord& fit);

std::vector<double> read_numbers(const JsonObject& o, std::string_view key, std::size_t most);
Range read_range(const JsonObject& o, std::string_view key);
Json range_json(const Range& range);
ResidualGrid read_grid(const Json& value, const std::string& pointer, Errors& errors);
Json grid_json(const ResidualGrid& grid);

HostGemmEntry read_host_gemm(const JsonObject& o, Errors& errors);
Json host_gemm_json(const HostGemmEntry& entry);

}  // namespace tw
