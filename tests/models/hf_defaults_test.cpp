// Configurations that say little: what their classes in transformers take, and keys that change sizes.
#include <algorithm>
#include <map>

#include <gtest/gtest.h>

#include "models/formats/hf_config.hpp"

namespace tw {
namespace {

HfModel read(const std::string& text) {
    auto model = parse_hf_config(text, "config.json");
    if (!model) {
        ADD_FAILURE() << to_string(model.errors()) << "\n" << text;
        return {};
    }
    return std::move(*model);
}

std::string refusal(const std::string& text) {
    const auto model = parse_hf_config(text, "config.json");
    EXPECT_FALSE(model) << text;
    return model ? std::string() : to_string(model.errors());
}

bool warns(const HfModel& model, const std::string& text) {
    return std::any_of(model.warnings.begin(), model.warnings.end(),
                       [&](const std::string& w) { return w.find(text) != std::string::npos; });
}

struct Sizes {
    std::int64_t hidden, layers, heads, ffn, vocab;
    friend bool operator==(const Sizes&, const Sizes&) = default;
    friend std::ostream& operator<<(std::ostream& out, const Sizes& s) {
        return out << s.hidden << " " << s.layers << " " << s.heads << " " << s.ffn << " " << s.vocab;
    }
};

// The classes' signatures (transformers, models/*/configuration_*.py).
TEST(HfDefaults, ABareModelTypeIsItsClass) {
    const std::map<std::string, Sizes> table = {{"gpt2", {768, 12, 12, 3072, 50257}},
                                                {"gpt_neox", {6144, 44, 64, 24576, 50432}},
                                                {"gptj", {4096, 28, 16, 16384, 50400}},
                                                {"gpt_neo", {2048, 24, 16, 8192, 50257}},
                                                {"opt", {768, 12, 12, 3072, 50272}},
                                                {"bloom", {64, 2, 8, 256, 250880}},
                                                {"falcon", {4544, 32, 71, 18176, 65024}},
                                                {"mpt", {2048, 24, 16, 8192, 50368}},
                                                {"phi", {2048, 24, 32, 8192, 51200}},
                                                {"starcoder2", {3072, 30, 24, 12288, 49152}},
                                                {"llama", {4096, 32, 32, 11008, 32000}},
                                                {"mistral", {4096, 32, 32, 14336, 32000}},
                                                {"qwen2", {4096, 32, 32, 22016, 151936}},
                                                {"qwen3", {4096, 32, 32, 22016, 151936}},
                                                {"gemma", {3072, 28, 16, 24576, 256000}},
                                                {"gemma2", {2304, 26, 8, 9216, 256000}},
                                                {"phi3", {3072, 32, 32, 8192, 32064}},
                                                {"olmo2", {4096, 32, 32, 11008, 50304}},
                                                {"bert", {768, 12, 12, 3072, 30522}},
                                                {"roberta", {768, 12, 12, 3072, 50265}},
                                                {"xlm-roberta", {768, 12, 12, 3072, 30522}},
                                                {"albert", {4096, 12, 64, 16384, 30000}},
                                                {"t5", {512, 6, 8, 2048, 32128}},
                                                {"mt5", {512, 8, 6, 1024, 250112}},
                                                {"bart", {1024, 12, 16, 4096, 50265}}};
    for (const auto& [type, sizes] : table) {
        const ModelConfig c = read(R"({"model_type": ")" + type + "\"}").config;
        EXPECT_EQ((Sizes{c.hidden, c.layers, c.heads, c.ffn, c.vocab}), sizes) << type;
    }
}

TEST(HfDefaults, Mt5IsNotT5) {
    const ModelConfig t5 = read(R"({"model_type": "t5"})").config;
    EXPECT_FALSE(t5.gated);
    EXPECT_TRUE(t5.tied_embeddings);
    EXPECT_EQ(t5.activation, ActivationKind::Relu);
    const ModelConfig mt5 = read(R"({"model_type": "mt5"})").config;
    EXPECT_TRUE(mt5.gated);
    EXPECT_FALSE(mt5.tied_embeddings);
    EXPECT_EQ(mt5.activation, ActivationKind::Gelu);
    EXPECT_EQ(mt5.encoder_layers, 8);
    EXPECT_TRUE(warns(read(R"({"model_type": "t5"})"), "/feed_forward_proj is absent: 'relu' taken"));
    // Both are attributes of the class, which a document may set.
    EXPECT_TRUE(read(R"({"model_type": "t5", "is_gated_act": true})").config.gated);
    EXPECT_EQ(read(R"({"model_type": "t5", "dense_act_fn": "gelu_new"})").config.activation,
              ActivationKind::GeluNew);
}

TEST(HfDefaults, WindowsOfLateLayers) {
    const ModelConfig plain = read(R"({"model_type": "qwen3", "sliding_window": 4096})").config;
    EXPECT_EQ(plain.window, 0);
    const std::string window =
        R"("use_sliding_window": true, "sliding_window": 1024, "num_hidden_layers": 4)";
    ModelConfig c = read(R"({"model_type": "qwen3", "max_window_layers": 3, )" + window + "}").config;
    EXPECT_EQ(c.window, 1024);
    EXPECT_EQ(c.sliding_layers, (std::vector<int>{0, 0, 0, 1}));
    c = read(R"({"model_type": "qwen2", "max_window_layers": 3, "layer_types": ["full_attention",
             "sliding_attention", "full_attention", "full_attention"], )" +
             window + "}")
            .config;
    EXPECT_EQ(c.sliding_layers, (std::vector<int>{0, 1, 0, 0}));
    c = read(R"({"model_type": "qwen3_moe", )" + window + "}").config;
    EXPECT_EQ(c.window, 1024);
    EXPECT_TRUE(c.sliding_layers.empty());  // every layer
    EXPECT_EQ(read(R"({"model_type": "qwen3_moe", "sliding_window": 4096})").config.window, 0);
}

TEST(HfDefaults, LocalLayersOfGptNeo) {
    const auto layers = [](const std::string& keys) {
        return read(R"({"model_type": "gpt_neo", "num_layers": 4)" + keys + "}").config.sliding_layers;
    };
    EXPECT_EQ(layers(""), (std::vector<int>{0, 1, 0, 1}));
    EXPECT_EQ(layers(R"(, "attention_types": [[["global"], 3], [["local"], 1]])"),
              (std::vector<int>{0, 0, 0, 1}));
    EXPECT_EQ(layers(R"(, "attention_layers": ["local", "global", "global", "local"])"),
              (std::vector<int>{1, 0, 0, 1}));
    EXPECT_NE(refusal(R"({"model_type": "gpt_neo", "num_layers": 4, "attention_types": [[["global"], 3]]})")
                  .find("/attention_types: describes 3 layers, the model has 4"),
              std::string::npos);
}

TEST(HfDefaults, SparseLayersByTheirNumbers) {
    const std::string four = R"({"model_type": "llama4_text", "num_hidden_layers": 4)";
    EXPECT_EQ(read(four + R"(, "moe_layers": [1, 3]})").config.moe_layers, (std::vector<int>{0, 1, 0, 1}));
    EXPECT_TRUE(read(four + "}").config.moe_layers.empty());  // interleave_moe_layer_step
    EXPECT_NE(refusal(four + R"(, "moe_layers": [4]})").find("/moe_layers: 4 is none of the 4 layers"),
              std::string::npos);
    const HfModel model =
        read(R"({"model_type": "qwen3_moe", "num_hidden_layers": 4, "mlp_only_layers": [0, 9]})");
    EXPECT_EQ(model.config.moe_layers, (std::vector<int>{0, 1, 1, 1}));
    EXPECT_TRUE(warns(model, "/mlp_only_layers: 9 is none of the 4 layers"));
}

TEST(HfDefaults, WhatIsLeftOutIsSaid) {
    EXPECT_TRUE(warns(read(R"({"model_type": "glm4_moe", "num_nextn_predict_layers": 1})"),
                      "/num_nextn_predict_layers: the multi-token-prediction module is left out"));
    EXPECT_NE(refusal(R"({"model_type": "gpt2", "add_cross_attention": true})")
                  .find("/add_cross_attention: a cross-attention in every layer is not modelled"),
              std::string::npos);
    (void)read(R"({"model_type": "gpt2", "add_cross_attention": false})");
    // Keys are called what the class calls them.
    EXPECT_TRUE(warns(read(R"({"model_type": "llama"})"), "/hidden_act is absent"));
    EXPECT_TRUE(warns(read(R"({"model_type": "gemma"})"), "/hidden_activation is absent"));
}

}  // namespace
}  // namespace tw
