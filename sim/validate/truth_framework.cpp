// Which table of frameworks a row's words name.
#include <array>
#include <cstdlib>

#include "sim/validate/row_words.hpp"
#include "sim/validate/truth_case.hpp"
#include "sim/validate/truth_plan.hpp"

namespace tw {
namespace {

// A recipe of Megatron-Bridge whose passes are one CUDA graph: tokens are dropped, so that no size depends on
// them, there is no pipeline, and the device is of Blackwell.
bool graphed_recipe(const TruthRow& row) {
    const std::string gpu = lower(row.gpu);
    return drops_tokens(row.model) && row.pp.value_or(1) == 1 && says_any(gpu, {"b200", "b300"});
}

bool sharded(const TruthRow& row) {
    return row.zero_stage.value_or(0) == 3 ||
           (!row.zero_stage && stated_sharding(row).stage.value_or(0) >= 2);
}

std::string_view pytorch_table(const TruthRow& row) {
    if (row.compile) return "pytorch-compile";
    return says(row.precision, "bf16_params") ? "pytorch-bf16" : "pytorch";
}

// The version that stands behind the word: "core v0.12" is 0.12; below 0 where there is none.
double version_after(const std::string& text, std::string_view word) {
    const auto at = text.find(word);
    if (at == std::string::npos) return -1;
    std::size_t begin = at + word.size();
    while (begin < text.size() && says(" _-rv", text.substr(begin, 1)))
        ++begin;
    char* end = nullptr;
    const double value = std::strtod(text.c_str() + begin, &end);
    if (end == text.c_str() + begin || value > 100) return -1;
    // 0.12 is later than 0.8.
    const auto dot = text.find('.', begin);
    const bool two = dot != std::string::npos && dot + 2 < text.size() && value < 1 && text[dot + 2] >= '0' &&
                     text[dot + 2] <= '9';
    return two ? value * 10 : value;
}

struct Year {
    std::string_view said, table;
};
constexpr std::array<Year, 6> kYears = {{
    {"2021", "megatron-2021"},
    {"2022", "megatron-2022"},
    {"2023", "megatron-2023"},
    {"2024", "megatron"},
    {"2025", "megatron"},
    {"2026", "megatron"},
}};

// Megatron-LM by its version (releases of NVIDIA/Megatron-LM: v2.0 to v2.5 of 2021, v2.6 and v3.0 of 2022,
// core 0.1 to 0.3 of 2023) or the year beside its name; without either, by its attention.
std::string_view megatron_table(const TruthRow& row, const std::string& f) {
    if (says(f, "megatron-core r0.8")) return "megatron-2024";
    const double core = version_after(f, "core");
    if (core >= 0) return core < 0.4 ? "megatron-2023" : "megatron";
    if (says_any(f, {"transformerengine", "megatron-core", "mcore"})) return "megatron";
    if (says(f, "megatron-lm fork")) return "megatron-2023";
    for (const auto& [said, table] : kYears) {
        if (says(f, said)) return table;
    }
    const double version = version_after(f, "megatron-lm");
    if (version >= 1 && version < 4) return version < 2.6 ? "megatron-2021" : "megatron-2022";
    if (says(row.source, "2021")) return "megatron-2021";
    return row.flash_attention.value_or(false) ? "megatron" : "megatron-2022";
}

// A framework that has no table of its own has that of its kind: sharded parameters are PyTorch's FSDP,
// layers or pipelines cut by hand are Megatron-Core's (or what it was before FlashAttention), the rest is
// plain PyTorch.
std::string_view table_of_kind(const TruthRow& row) {
    if (sharded(row)) return row.compile ? "torchtitan" : "torchtitan-eager";
    if (row.tp.value_or(1) > 1 || row.pp.value_or(1) > 1)
        return row.flash_attention.value_or(true) ? "megatron" : "megatron-2022";
    return row.compile ? "pytorch-compile" : "pytorch";
}

}  // namespace

std::string_view named_table(const TruthRow& row) {
    const std::string f = lower(row.framework);
    const std::string source = lower(row.source);
    if (f == "megatron-functional")
        return says(row.model.name, "local_spec") ? "megatron-functional-local" : "megatron-functional";
    if (says(source, "transformers") && !row.compile)
        return says(row.precision, "bf16_params") ? "transformers-bf16" : "transformers";
    if (row.shape == TruthShape::SingleDevice || begins(f, "transformers")) return pytorch_table(row);
    if (says(f, "bigscience") || (says(source, "bigscience") && says(f, "deepspeed")))
        return says(lower(row.gpu), "a100") ? "megatron-deepspeed-tr11" : "megatron-deepspeed-bigscience";
    if (says(f, "megatron-deepspeed")) return "megatron-deepspeed";
    if (says_any(f, {"nemo", "megatron-bridge"})) return graphed_recipe(row) ? "nemo-graphs" : "nemo";
    if (says_any(f, {"megatron", "mcore", "transformerengine"})) return megatron_table(row, f);
    if (says_any(f, {"composer", "foundry"}))
        return says(row.sharding, "pure") ? "composer-fsdp-pure" : "composer-fsdp";
    if (says(f, "internevo")) return "internevo";
    if (says(f, "torchtitan")) return row.compile ? "torchtitan" : "torchtitan-eager";
    if (says(f, "maxtext")) return "maxtext";
    if (says(f, "deepspeed")) return "deepspeed";
    if (says(f, "pytorch")) return sharded(row) ? table_of_kind(row) : pytorch_table(row);
    return "";
}

Result<const FrameworkDefaults*> framework_of(const TruthRow& row) {
    const std::string_view named = named_table(row);
    return find_framework(named.empty() ? table_of_kind(row) : named);
}

}  // namespace tw
