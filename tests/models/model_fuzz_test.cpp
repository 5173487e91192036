// Damaged model documents: cut anywhere or with bytes changed, they are read or refused, never a crash.
#include <gtest/gtest.h>

#include "base/prng.hpp"
#include "models/data/embedded.hpp"
#include "models/load_model.hpp"
#include "tests/support/test_scale.hpp"

namespace tw {
namespace {

std::vector<std::string> corpus() {
    std::vector<std::string> texts;
    for (const char* name : {"gpt3-175b", "deepseek-v3", "t5-11b", "vit-l-16", "gpt-oss-20b"}) {
        texts.emplace_back(embedded_document("models/" + std::string(name) + ".json"));
    }
    texts.emplace_back(
        R"({"model_type":"mistral","hidden_size":256,"num_attention_heads":8,"num_key_value_heads":2,"num_hidden_layers":4,"intermediate_size":512,"vocab_size":1000,"sliding_window":64})");
    texts.emplace_back(
        R"({"model_type":"gemma3","tie_word_embeddings":true,"text_config":{"model_type":"gemma3_text","hidden_size":64,"num_attention_heads":4,"num_hidden_layers":3,"layer_types":["sliding_attention","full_attention","sliding_attention"]},"vision_config":{}})");
    texts.emplace_back(
        R"({"model_type":"deepseek_v2","hidden_size":64,"num_attention_heads":4,"num_hidden_layers":3,"intermediate_size":128,"moe_intermediate_size":32,"n_routed_experts":4,"num_experts_per_tok":2,"q_lora_rank":16,"kv_lora_rank":16,"moe_layer_freq":2})");
    texts.emplace_back(
        R"({"model_type":"mpt","d_model":64,"n_heads":4,"n_layers":2,"attn_config":{"alibi":false,"attn_type":"multiquery_attention"}})");
    return texts;
}

// What is accepted must also work.
void try_out(const std::string& text) {
    const auto model = load_model_text(text, "fuzz");
    if (!model) {
        ASSERT_FALSE(model.errors().empty());
        EXPECT_FALSE(model.error().message.empty());
        return;
    }
    EXPECT_GE(model->graph.parameters(), 0);
    if (model->graph.blocks > 200) return;
    WorkShape shape;
    shape.tp = 2;
    shape.sequence_parallel = true;
    for (int i = 0; i < model->graph.size(); i += 3)
        (void)model->graph.layer(i).model->work(shape);
}

TEST(ModelFuzz, CutAtEveryByte) {
    for (const std::string& text : corpus()) {
        for (std::size_t length = 0; length < text.size(); ++length) {
            const auto model = load_model_text(std::string_view(text).substr(0, length), "cut");
            if (text.find_last_of('}') >= length) {
                EXPECT_FALSE(model) << text.substr(0, length);
            }
        }
    }
}

TEST(ModelFuzz, RandomMutations) {
    const std::vector<std::string> texts = corpus();
    Prng random(20'261'129);
    const std::string alphabet = "0123456789-+.eE\"{}[],:truefalsn \\u\xff\n";
    for (int round = 0; round < scaled(3000); ++round) {
        std::string text =
            texts[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(texts.size()) - 1))];
        const std::int64_t changes = random.integer(1, 4);
        for (std::int64_t i = 0; i < changes; ++i) {
            const auto at =
                static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(text.size()) - 1));
            const char c = alphabet[static_cast<std::size_t>(
                random.integer(0, static_cast<std::int64_t>(alphabet.size()) - 1))];
            switch (random.integer(0, 2)) {
                case 0:
                    text[at] = c;
                    break;
                case 1:
                    text.insert(at, 1, c);
                    break;
                default:
                    text.erase(at, static_cast<std::size_t>(random.integer(1, 8)));
                    break;
            }
            if (text.empty()) break;
        }
        try_out(text);
    }
}

TEST(ModelFuzz, Extremes) {
    for (const char* value : {"-1", "0", "1e308", "1e999", "NaN", "null", "[]", "{}", "\"x\"", "true",
                              "9223372036854775808", "-9223372036854775808", "0.5", "1000000", "100000"}) {
        for (const char* key :
             {"hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
              "intermediate_size", "vocab_size", "max_position_embeddings", "num_local_experts",
              "num_experts_per_tok", "sliding_window", "tie_word_embeddings", "hidden_act", "model_type",
              "architectures", "text_config", "layer_types"}) {
            for (const char* type :
                 {"mixtral", "gpt_oss", "llama", "deepseek_v3", "qwen3_next", "t5", "bert"}) {
                std::string text = "{\"" + std::string(key) + "\":" + value;
                if (std::string_view(key) != "model_type")
                    text += ",\"model_type\":\"" + std::string(type) + "\"";
                const auto model = load_model_text(text + "}", "extreme");
                if (model) {
                    EXPECT_GT(model->graph.parameters(), 0) << text;
                }
            }
        }
    }
}

}  // namespace
}  // namespace tw
