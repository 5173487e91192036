// What a published figure of memory counts.
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "sim/validate/row_fields_json.hpp"
#include "sim/validate/row_words.hpp"
#include "sim/validate/truth_shapes_json.hpp"

namespace tw {
namespace {

constexpr double kGiB = 1073741824.0;
constexpr double kMiB = 1048576.0;
constexpr double kMostOfADevice = 1000;  // GB; more is in another unit, or of more devices than one

// Computed, read off a figure of a computation, or not of one device's peak: no measurement of it.
constexpr std::array<std::string_view, 18> kNoMeasurement = {
    "analytic",     "digitised", "digitized", "summed over", "sum over",         "total over",
    "total across", "aggregate", "estimate",  "theoretical", "model states",     "states only",
    "average",      "mean over", "percent",   "%",           "activations only", "cpu memory"};

// The first that the kind says decides: "allocated vs reserved not stated" is read as allocated.
struct Word {
    std::string_view word;
    MemoryKind kind;
};
constexpr std::array<Word, 10> kKinds = {{
    {"nvidia-smi", MemoryKind::Device},
    {"nvidia smi", MemoryKind::Device},
    {"rocm-smi", MemoryKind::Device},
    {"nvml", MemoryKind::Device},
    {"dcgm", MemoryKind::Device},
    {"gpu memory\"", MemoryKind::Device},
    {"allocated", MemoryKind::Allocated},
    {"reserved", MemoryKind::Reserved},
    {"cached", MemoryKind::Reserved},  // PyTorch's name of it until 1.3
    {"whole device", MemoryKind::Device},
}};

const Word* word_of(std::string_view kind) {
    for (const Word& word : kKinds) {
        if (says(kind, word.word)) return &word;
    }
    return nullptr;
}

// Bytes of one unit of "memory_gb". nvidia-smi prints MiB, so that what is read off it as GB is GiB; "GiB"
// says so itself; figures of a thousand and more are of the smaller unit that the kind names.
double unit_of(std::string_view kind, MemoryKind counts, double value) {
    if (value >= kMostOfADevice && says(kind, "mib")) return kMiB;
    if (value >= kMostOfADevice && says(kind, "mb")) return counts == MemoryKind::Device ? kMiB : 1e6;
    return counts == MemoryKind::Device || says(kind, "gib") ? kGiB : 1e9;
}

}  // namespace

void read_memory(const JsonObject& object, TruthRow& row) {
    const double value = number_of(object, "memory_gb").value_or(0);
    const std::string kind = lower(words_of(object, "memory_kind"));
    if (value <= 0) return;
    for (const std::string_view word : kNoMeasurement) {
        if (says(kind, word)) return;
    }
    const Word* word = word_of(kind);
    const MemoryKind counts = word != nullptr ? word->kind : MemoryKind::Allocated;
    const double bytes = value * unit_of(kind, counts, value);
    if (bytes >= kMostOfADevice * 1e9) {
        row.assumed.push_back(fmt::format("memory_gb {:g}: more than a device has, left out", value));
        return;
    }
    row.memory_kind = counts;
    row.memory_bytes = bytes;
    row.memory_of_last_stage = says(kind, "last stage");
    // nvidia-smi shows the node it runs on; where nobody says that more nodes were read, that is the first
    // (bigscience experiments/tr3m-1B3.md: a layout that reads 13 GB runs out of memory on devices of 16).
    row.memory_of_first_node =
        (says(kind, "nvidia-smi") && !says(kind, "max")) || says(kind, "rank 0") || says(kind, "first stage");
}

}  // namespace tw
