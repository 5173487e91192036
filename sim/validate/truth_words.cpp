// Precision and recomputation in words.
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "sim/validate/row_words.hpp"
#include "sim/validate/truth_plan.hpp"

namespace tw {
namespace {

struct PrecisionWord {
    std::string_view word;
    Precision precision;
};
// The first that is said. Alone, "amp" is fp16: apex knows no other, and it is torch.autocast's default on a
// GPU; so are apex's levels.
constexpr std::array<PrecisionWord, 18> kPrecisions = {{
    {"nvfp4", Precision::Nvfp4},
    {"fp4", Precision::Nvfp4},
    {"fp8", Precision::Fp8},
    {"float8", Precision::Fp8},
    {"e4m3", Precision::Fp8},
    {"bf16", Precision::Bf16},
    {"bfloat16", Precision::Bf16},
    {"fp16", Precision::Fp16},
    {"float16", Precision::Fp16},
    {"half", Precision::Fp16},
    {"16-mixed", Precision::Fp16},
    {"tf32", Precision::Tf32},
    {"fp32", Precision::Fp32},
    {"float32", Precision::Fp32},
    {"32-true", Precision::Fp32},
    {"amp", Precision::Fp16},
    {"o1", Precision::Fp16},
    {"o2", Precision::Fp16},
}};

// "8 of 24 layers", "8/24 layers": the first number and the second; nothing where the text has no such pair.
std::optional<std::pair<int, int>> layers_of(const std::string& text) {
    for (const std::string_view between : {" of ", "/", " out of "}) {
        const auto some = number_before(text, between);
        const auto all = number_after(text, between);
        if (some && all) return std::pair(*some, *all);
    }
    return std::nullopt;
}

bool denies(const std::string& text) {
    for (const std::string_view word :
         {"none", "no ", "no-", "not ", "never", "disabled", "without", "w/o"}) {
        if (begins(text, word)) return true;
    }
    // "activation checkpointing: off"
    for (const std::string_view word : {" none", " off", " no", " disabled", " false"}) {
        if (text.ends_with(word)) return true;
    }
    return text == "no" || text == "off" || text == "false" || text == "0";
}

bool all_layers(const std::string& text) {
    for (const std::string_view word : {"full", "yes", "enabled", "uniform", "block", "always"}) {
        if (begins(text, word)) return true;
    }
    // Megatron's recompute-method is one of full granularity.
    return text == "on" || text == "true" || text == "1" ||
           says_any(text, {"checkpoint", "every layer", "all layers"});
}

bool part_of_layers(const std::string& text) {
    return says_any(text,
                    {"partial", "half", "every other", "every second", "every 2", "except", "some layers"});
}

// Megatron's names of modules in "selective (mla_up_proj, layernorm)", or in a list of them alone.
struct NamedModules {
    RecomputeModules modules;
    bool alone = true;  // the text has no other words
};
NamedModules modules_in(const std::string& text) {
    NamedModules named;
    std::string word;
    for (const char c : text + ' ') {
        if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
            word += c;
            continue;
        }
        if (word.empty()) continue;
        if (const auto module = recompute_module_named(word)) {
            named.modules.add(*module);
        } else {
            named.alone = false;
        }
        word.clear();
    }
    named.alone = named.alone && named.modules.any();
    return named;
}

}  // namespace

Result<Precision> precision_of(const TruthRow& row, Precision usual, std::vector<std::string>& assumed) {
    const std::string& p = row.precision;
    if (says_any(p, {"mxfp4", "float4"})) return reason("precision " + row.precision + " is not modelled");
    for (const auto& [word, precision] : kPrecisions) {
        if (says(p, word)) return precision;
    }
    if (p == "16") return Precision::Fp16;
    if (p == "32") return Precision::Fp32;
    if (!p.empty())
        assumed.push_back(fmt::format("precision \"{}\": {}, the framework's default", p, to_string(usual)));
    return usual;
}

StatedRecompute stated_recompute(const TruthRow& row, const FrameworkDefaults& defaults) {
    const std::string& text = row.recompute;
    const NamedModules named = modules_in(text);
    StatedRecompute stated;
    stated.layers = row.recompute_layers.value_or(-1);
    if (denies(text)) {
        stated.mode = RecomputeMode::None;
    } else if (const auto pair = layers_of(text); pair && pair->first < pair->second) {
        stated.mode = RecomputeMode::Full;
        stated.layers_of_model = pair->first;
        const auto own = row.model.layers;
        if (says(text, "select") || (own && *own != pair->second))
            stated.refused = fmt::format("recompute \"{}\" is of a part that is not modelled", text);
    } else if (part_of_layers(text)) {
        stated.refused = fmt::format("recompute \"{}\" is of a part that is not modelled", text);
    } else if (says_any(text, {"select", "core attention", "core_attn", "attention only"}) || text == "sel" ||
               named.alone) {
        const bool core = named.modules == RecomputeModules{RecomputeModule::CoreAttention};
        stated.mode = defaults.selective_by_op ? RecomputeMode::SelectiveOps : RecomputeMode::Selective;
        if (named.modules.any() && !core) {
            stated.mode = RecomputeMode::Modules;
            stated.modules = named.modules;
        } else {
            stated.other_modules = says_any(text, {"norm", "act"}) && !says_any(text, {"attn", "attention"});
        }
    } else if (all_layers(text)) {
        stated.mode = RecomputeMode::Full;
        const auto after = number_after(text, "block");
        const auto before = number_before(text, "layer");
        if (says(text, "block") && (after || before)) stated.layers = after ? *after : *before;
    }
    return stated;
}

}  // namespace tw
