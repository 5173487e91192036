// JSON of a plan's parts: mesh, precision, overlap and stages. What is wrong becomes an error of the object,
// with its pointer; absent keys keep their defaults.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/nearest.hpp"
#include "plan/parallel_plan.hpp"

namespace tw {

inline constexpr int kUnplaced = -1;  // a stage whose document names no node group

// An enumerator by its name; the fallback where the key is absent, or after an error with the nearest name.
template <class Enum, std::size_t N>
Enum enumerator(const JsonObject& object, std::string_view key, const std::array<Enum, N>& values,
                Enum fallback) {
    const std::string name = object.string_or(key, std::string(to_string(fallback)));
    std::vector<std::string> names;
    for (const Enum value : values) {
        if (to_string(value) == name) return value;
        names.emplace_back(to_string(value));
    }
    object.error(key, fmt::format("unknown name '{}'", name), unknown_name_hint(name, names));
    return fallback;
}

// A count within int; absent: the fallback.
int degree_or(const JsonObject& object, std::string_view key, int fallback, std::int64_t low = 1,
              std::int64_t high = kMaxClusterDevices);

Json mesh_to_json(const DeviceMesh& mesh);
DeviceMesh mesh_from_json(const JsonObject& object);
Json precision_to_json(const PrecisionSpec& spec);
PrecisionSpec precision_from_json(const JsonObject& object);
Json overlap_to_json(const OverlapSpec& spec);
OverlapSpec overlap_from_json(const JsonObject& object);
Json stage_to_json(const StageSpec& stage);
// `recompute`: of a stage that says nothing itself.
StageSpec stage_from_json(const JsonObject& object, RecomputeMode recompute);

}  // namespace tw
