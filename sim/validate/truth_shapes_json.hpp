// Rows of the three shapes, each read by its own file.
#pragma once

#include "base/json.hpp"
#include "sim/validate/truth.hpp"

namespace tw {

TruthStatus status_of(const JsonObject& object);

// `errors` are those that `object` collects; `index` is the row's place in its document.
TruthRow main_row(const JsonObject& object, Errors& errors, std::size_t index);
TruthRow functional_row(const JsonObject& object, Errors& errors);
TruthRow single_row(const JsonObject& object, Errors& errors, std::size_t index);

// "memory_gb" and "memory_kind".
void read_memory(const JsonObject& object, TruthRow& row);

// Degrees, microbatch and batch that follow from the others, put where the row does not state them.
void complete_degrees(TruthRow& row);

// The part of a GPU's description that names a device: "gb200"; "" where none is known.
std::string known_device_in(std::string_view text);

}  // namespace tw
