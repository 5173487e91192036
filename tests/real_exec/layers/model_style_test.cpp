#include "models/load_model.hpp"
#include "real_exec/layers/model_style_json.hpp"
#include "tests/real_exec/layers/module_harness.hpp"

namespace tw::testing {
namespace {

TEST(ModelStyle, ComesFromTheConfiguration) {
    const LayerGraph llama = graph_of(llama_config());
    const ModelStyle stated = style_of(llama, Json{{"model_type", "llama"},
                                                   {"rms_norm_eps", 1e-6},
                                                   {"rope_theta", 500000.0},
                                                   {"hidden_act", "gelu"},
                                                   {"initializer_range", 0.01}});
    EXPECT_EQ(stated.norm_eps, 1e-6);
    EXPECT_EQ(stated.rope_theta, 500000);
    EXPECT_EQ(stated.gelu, Activation::GeluExact);
    EXPECT_EQ(stated.init_std, 0.01);
    const ModelStyle nested = style_of(
        llama,
        Json{{"model_type", "llama"}, {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1e6}}}});
    EXPECT_EQ(nested.rope_theta, 1e6);
    const ModelStyle gpt = style_of(graph_of(gpt_config()), Json{{"activation_function", "gelu_pytorch_tanh"},
                                                                 {"layer_norm_epsilon", 1e-4}});
    EXPECT_EQ(gpt.gelu, Activation::GeluTanh);
    EXPECT_EQ(gpt.norm_eps, 1e-4);
}

TEST(ModelStyle, IsTheFamilysWhereTheDocumentSaysNothing) {
    const LayerGraph llama = graph_of(llama_config());
    const ModelStyle family = style_of(llama);
    for (const Json& document : {Json(), Json{{"model_type", "llama"}}, Json("a PipeDream profile"),
                                 Json{{"schema", "trainwright/model"}, {"rope_theta", 5}},
                                 Json{{"rope_theta", "five"}, {"rms_norm_eps", -1}}}) {
        const ModelStyle style = style_of(llama, document);
        EXPECT_EQ(style.norm_eps, family.norm_eps) << document;
        EXPECT_EQ(style.rope_theta, family.rope_theta) << document;
        EXPECT_EQ(style.gelu, family.gelu) << document;
    }
}

TEST(ModelStyle, WhatTheLayersComputeOtherwiseIsNamed) {
    EXPECT_TRUE(unsupported_style(Json{{"hidden_act", "gelu"}}, true).empty());
    EXPECT_EQ(unsupported_style(Json{{"hidden_act", "quick_gelu"}}, false).size(), 1U);
    const Json scaled{{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 8.0}}}};
    EXPECT_TRUE(unsupported_style(scaled, false).empty());
    ASSERT_EQ(unsupported_style(scaled, true).size(), 1U);
    EXPECT_EQ(unsupported_style(scaled, true)[0].context, "/model/rope_scaling");
    EXPECT_TRUE(unsupported_style(Json{{"rope_scaling", nullptr}}, true).empty());
}

// What the style says is what the layers compute: each of the three moves the loss.
TEST(ModelStyle, LayersFollowIt) {
    const auto loss_with = [](const ModelConfig& config, const ModelStyle& style) {
        const LayerGraph graph = graph_of(config);
        const ParallelPlan plan = plan_of(graph);
        double loss = 0;
        run_local_ranks(1, [&](Transport& transport) {
            Rig rig(graph, plan, 0, transport, 0, nullptr, 0.3, &style);
            const TokenBatch batch(plan.microbatch, plan.seq_len, graph.vocab);
            LossResult result;
            rig.module->forward(0, batch.batch, {}, {}, &result);
            rig.module->discard(0);
            loss = result.sum;
        });
        return loss;
    };
    const ModelStyle llama = style_of(graph_of(llama_config()));
    ModelStyle other = llama;
    EXPECT_EQ(loss_with(llama_config(), llama), loss_with(llama_config(), other));
    other.rope_theta = 100;
    EXPECT_NE(loss_with(llama_config(), llama), loss_with(llama_config(), other));
    other = llama;
    other.norm_eps = 0.1;
    EXPECT_NE(loss_with(llama_config(), llama), loss_with(llama_config(), other));
    const ModelStyle gpt = style_of(graph_of(gpt_config()));
    other = gpt;
    other.gelu = Activation::GeluExact;
    EXPECT_NE(loss_with(gpt_config(), gpt), loss_with(gpt_config(), other));
}

}  // namespace
}  // namespace tw::testing
