#include "models/families/model_config_json.hpp"

#include <gtest/gtest.h>

#include "models/data/embedded.hpp"
#include "models/families/registry.hpp"
#include "models/load_model.hpp"

namespace tw {
namespace {

bool is_model(std::string_view text) {
    return text.find("\"trainwright/model\"") != std::string_view::npos;
}

std::string errors_of(const std::string& text) {
    const auto config = parse_model_config(text, "fixture");
    if (config) return {};
    EXPECT_EQ(exit_code(config.errors()), 5);
    return to_string(config.errors());
}

TEST(ModelConfigJson, PresetsRoundTrip) {
    int models = 0;
    for (const std::string& name : embedded_names("models")) {
        const std::string_view text = embedded_document("models/" + name + ".json");
        if (!is_model(text)) continue;
        ++models;
        const auto config = parse_model_config(text, name);
        ASSERT_TRUE(config) << to_string(config.errors());
        EXPECT_EQ(config->name, name);
        EXPECT_FALSE(config->source.empty()) << name;
        const auto again = model_config_from_json(model_config_to_json(*config));
        ASSERT_TRUE(again) << to_string(again.errors());
        EXPECT_EQ(*again, *config) << name;
        EXPECT_TRUE(build_model(*config)) << name;
    }
    EXPECT_GE(models, 50);
}

TEST(ModelConfigJson, StrictAndComplete) {
    const std::string head =
        R"({"schema":"trainwright/model","version":1,"name":"x","family":"gpt","layers":2,"hidden":64,"heads":4)";
    EXPECT_EQ(errors_of(head + R"(,"ffn":256,"vocab":100})"), "");
    EXPECT_NE(errors_of(head + R"(,"fnn":256})").find("did you mean 'ffn'"), std::string::npos);
    EXPECT_NE(errors_of(head + R"(,"expert_capacity_factor":-1})").find("/expert_capacity_factor"),
              std::string::npos);
    EXPECT_NE(errors_of(head + R"(,"norm":"batch"})").find("/norm"), std::string::npos);
    EXPECT_NE(errors_of(head + R"(,"vocab":-1})").find("/vocab"), std::string::npos);
    EXPECT_NE(errors_of(head + R"(,"gated":1})").find("/gated"), std::string::npos);
    EXPECT_NE(errors_of(head + R"(,"moe_layers":[0,2]})").find("/moe_layers"), std::string::npos);
    EXPECT_NE(errors_of(R"({"schema":"trainwright/plan","version":1})").find("/schema"), std::string::npos);
    EXPECT_NE(errors_of(R"({"schema":"trainwright/model","version":2})").find("/version"), std::string::npos);
    const std::string missing =
        errors_of(R"({"schema":"trainwright/model","version":1,"name":"x","family":"gpt"})");
    for (const char* key : {"/layers", "/hidden", "/heads"})
        EXPECT_NE(missing.find(key), std::string::npos);
}

TEST(BuildModel, RulesBetweenFields) {
    ModelConfig c;
    c.name = "x";
    c.family = "gpt";
    c.layers = 2;
    c.hidden = 64;
    c.heads = 4;
    c.ffn = 256;
    c.vocab = 100;
    EXPECT_TRUE(build_model(c));
    const auto broken = [&](auto change) {
        ModelConfig bad = c;
        change(bad);
        const auto graph = build_model(bad, "/model");
        return graph ? std::string("accepted") : to_string(graph.errors());
    };
    EXPECT_NE(broken([](ModelConfig& m) { m.heads = 5; }).find("/model/heads"), std::string::npos);
    EXPECT_NE(broken([](ModelConfig& m) { m.kv_heads = 3; }).find("/model/kv_heads"), std::string::npos);
    EXPECT_NE(broken([](ModelConfig& m) { m.ffn = 0; }).find("/model/ffn"), std::string::npos);
    EXPECT_NE(broken([](ModelConfig& m) { m.family = "gtp"; }).find("did you mean 'gpt'"), std::string::npos);
    EXPECT_NE(broken([](ModelConfig& m) { m.family = "moe"; }).find("/model/experts"), std::string::npos);
    EXPECT_NE(broken([](ModelConfig& m) { m.family = "bert"; }).find("/model/causal"), std::string::npos);
    EXPECT_NE(
        broken([](ModelConfig& m) { m.sliding_layers = {1}, m.window = 4; }).find("/model/sliding_layers"),
        std::string::npos);
    EXPECT_NE(broken([](ModelConfig& m) { m.kv_lora_rank = 8; }).find("/model/kv_lora_rank"),
              std::string::npos);
    EXPECT_NE(broken([](ModelConfig& m) { m.expert_capacity_factor = 1; }).find("/model/experts"),
              std::string::npos);
    EXPECT_NE(broken([](ModelConfig& m) { m.hidden = -1; }).find("/model/hidden"), std::string::npos);
}

TEST(BuildModel, PredictionModuleOfDeepSeekV3) {
    auto config = parse_model_config(embedded_document("models/deepseek-v3.json"), "deepseek-v3");
    ASSERT_TRUE(config);
    const auto without = build_model(*config);
    config->mtp_layers = 1;
    const auto with = build_model(*config);
    ASSERT_TRUE(without && with);
    // DeepSeek-AI 2024: 671B, and a module of 14B of which table and head (2 x 0.9B) are shared.
    EXPECT_NEAR(static_cast<double>(with->parameters() - without->parameters()), 11.6e9, 0.1e9);
    EXPECT_EQ(with->blocks, 61);
    EXPECT_GT(with->layer(with->size() - 2).model->model_flops(1, 4096, true).value, 0);
}

TEST(LoadModel, CarriesTheConfiguration) {
    const auto model = load_model("mixtral-8x7b");
    ASSERT_TRUE(model && model->config);
    const auto again = build_model(*model->config);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->parameters(), model->graph.parameters());
}

TEST(LoadModel, UnknownNames) {
    const auto model = load_model("lama3-8b");
    ASSERT_FALSE(model);
    EXPECT_EQ(exit_code(model.errors()), 2);
    EXPECT_NE(to_string(model.errors()).find("did you mean 'llama3-8b'"), std::string::npos);
    EXPECT_EQ(exit_code(load_model("/nonexistent/config.json").errors()), 5);
}

}  // namespace
}  // namespace tw
