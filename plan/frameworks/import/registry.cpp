#include <array>

#include "models/formats/text_lines.hpp"
#include "plan/frameworks/import/import_config.hpp"

namespace tw {
namespace {

bool has(std::string_view text, std::string_view words) {
    return text.find(words) != std::string_view::npos;
}

// At least two of these.
template <std::size_t N>
bool several(std::string_view text, const std::array<std::string_view, N>& words) {
    int found = 0;
    for (const std::string_view word : words)
        found += has(text, word) ? 1 : 0;
    return found >= 2;
}

bool is_json(std::string_view text) {
    return trim(text).starts_with('{');
}

bool is_megatron(std::string_view text, std::string_view) {
    if (is_json(text) || trim(text).starts_with('<') || trim(text).starts_with('[')) return false;
    // FlagScale: the same names, as keys of YAML.
    static constexpr std::array<std::string_view, 4> kKeys = {
        "\nmodel:", "  tensor_model_parallel_size:", "  micro_batch_size:", "  num_attention_heads:"};
    if ((text.starts_with("system:") || has(text, "\nsystem:")) && several(text, kKeys)) return true;
    static constexpr std::array<std::string_view, 8> kFlags = {"--num-layers",
                                                               "--hidden-size",
                                                               "--tensor-model-parallel-size",
                                                               "--pipeline-model-parallel-size",
                                                               "--seq-length",
                                                               "--micro-batch-size",
                                                               "--global-batch-size",
                                                               "--num-attention-heads"};
    return several(text, kFlags);
}

// Keys that nothing but DeepSpeed has; GPT-NeoX's files (.yml) have them among others.
bool is_deepspeed(std::string_view text, std::string_view path) {
    if (!is_json(text) || path.ends_with(".yml") || path.ends_with(".yaml")) return false;
    for (const std::string_view key :
         {"\"train_micro_batch_size_per_gpu\"", "\"zero_optimization\"", "\"train_batch_size\""}) {
        if (has(text, key)) return true;
    }
    return false;
}

bool is_torchtitan(std::string_view text, std::string_view path) {
    if (is_json(text) || !(path.ends_with(".toml") || path == "<stdin>")) return false;
    static constexpr std::array<std::string_view, 5> kTables = {
        "[training]", "[parallelism]", "[activation_checkpoint]", "[model]", "[job]"};
    return several(text, kTables);
}

bool is_nanotron(std::string_view text, std::string_view) {
    static constexpr std::array<std::string_view, 4> kKeys = {
        "\nparallelism:", "\ntokens:", "pp_engine:", "batch_accumulation_per_replica:"};
    return !is_json(text) && several(text, kKeys);
}

bool is_accelerate(std::string_view text, std::string_view) {
    return !is_json(text) && (text.starts_with("distributed_type:") || has(text, "\ndistributed_type:")) &&
           (has(text, "num_processes:") || has(text, "mixed_precision:") ||
            has(text, "compute_environment:") || has(text, "fsdp_config:") || has(text, "deepspeed_config:"));
}

constexpr std::array kReaders = {
    ConfigReader{TargetFramework::Megatron, "Megatron-LM arguments", is_megatron, import_megatron},
    ConfigReader{TargetFramework::DeepSpeed, "DeepSpeed config", is_deepspeed, import_deepspeed},
    ConfigReader{TargetFramework::Torchtitan, "torchtitan config", is_torchtitan, import_torchtitan},
    ConfigReader{TargetFramework::Nanotron, "nanotron config", is_nanotron, import_nanotron},
    ConfigReader{TargetFramework::Accelerate, "accelerate config", is_accelerate, import_accelerate},
};

}  // namespace

std::span<const ConfigReader> config_readers() {
    return kReaders;
}

const ConfigReader* find_config_reader(std::string_view text, std::string_view path) {
    for (const ConfigReader& reader : kReaders) {
        if (reader.sniff(text, path)) return &reader;
    }
    return nullptr;
}

const ConfigReader* config_reader_of(TargetFramework framework) {
    for (const ConfigReader& reader : kReaders) {
        if (reader.framework == framework) return &reader;
    }
    return nullptr;
}

}  // namespace tw
