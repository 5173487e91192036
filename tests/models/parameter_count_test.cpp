// Published parameter counts, exactly. Each row says what its count includes.
#include <tuple>

#include <gtest/gtest.h>

#include "models/load_model.hpp"

namespace tw {
namespace {

struct Published {
    const char* preset;
    std::int64_t parameters;
    const char* includes_and_source;
};

// "hub": the sum over the tensors of the named checkpoint on the Hugging Face hub, tied tensors once.
const Published kPublished[] = {
    {"gpt2-small", 124'439'808, "tied head; hub openai-community/gpt2, GPT2LMHeadModel"},
    {"gpt2-medium", 354'823'168, "tied head; hub openai-community/gpt2-medium"},
    {"gpt2-large", 774'030'080, "tied head; hub openai-community/gpt2-large"},
    {"gpt2-xl", 1'557'611'200, "tied head; hub openai-community/gpt2-xl"},
    {"gpt-neox-20b", 20'554'567'680, "head apart; Black et al. 2022, table 1"},
    {"gptj-6b", 6'050'882'784, "head with bias; hub EleutherAI/gpt-j-6b"},
    {"opt-1.3b", 1'315'758'080, "tied head; hub facebook/opt-1.3b"},
    {"bloom-176b", 176'247'271'424, "tied head; Scao et al. 2022, table 3"},
    {"falcon-40b", 41'303'293'952, "tied head, FalconForCausalLM"},
    {"mpt-7b", 6'649'286'656, "tied head; hub mosaicml/mpt-7b"},
    {"phi-2", 2'779'683'840, "head with bias; hub microsoft/phi-2"},
    {"llama2-7b", 6'738'415'616, "hub meta-llama/Llama-2-7b-hf"},
    {"llama2-13b", 13'015'864'320, "hub meta-llama/Llama-2-13b-hf"},
    {"llama2-70b", 68'976'648'192, "hub meta-llama/Llama-2-70b-hf"},
    {"llama3-8b", 8'030'261'248, "hub meta-llama/Meta-Llama-3-8B"},
    {"llama3-70b", 70'553'706'496, "hub meta-llama/Meta-Llama-3-70B"},
    {"llama3-405b", 405'853'388'800, "hub meta-llama/Llama-3.1-405B"},
    {"llama3.2-1b", 1'235'814'400, "tied head; hub meta-llama/Llama-3.2-1B"},
    {"mistral-7b", 7'241'732'096, "hub mistralai/Mistral-7B-v0.1"},
    {"qwen2.5-7b", 7'615'616'512, "hub Qwen/Qwen2.5-7B"},
    {"qwen2.5-72b", 72'706'203'648, "hub Qwen/Qwen2.5-72B"},
    {"qwen3-8b", 8'190'735'360, "hub Qwen/Qwen3-8B"},
    {"qwen3-32b", 32'762'123'264, "hub Qwen/Qwen3-32B"},
    {"gemma-7b", 8'537'680'896, "tied head; hub google/gemma-7b"},
    {"gemma2-9b", 9'241'705'984, "tied head; hub google/gemma-2-9b"},
    {"olmo2-7b", 7'298'617'344, "hub allenai/OLMo-2-1124-7B"},
    {"phi3-mini", 3'821'079'552, "hub microsoft/Phi-3-mini-4k-instruct"},
    {"mixtral-8x7b", 46'702'792'704, "all experts; hub mistralai/Mixtral-8x7B-v0.1"},
    {"mixtral-8x22b", 140'620'634'112, "all experts; hub mistralai/Mixtral-8x22B-v0.1"},
    {"qwen3-30b-a3b", 30'532'122'624, "all experts; hub Qwen/Qwen3-30B-A3B"},
    {"qwen3-235b-a22b", 235'093'634'560, "all experts; hub Qwen/Qwen3-235B-A22B"},
    {"gpt-oss-20b", 20'914'757'184, "all experts, biases and sinks; OpenAI 2025, table 1 (20.91B)"},
    {"gpt-oss-120b", 116'829'156'672, "all experts, biases and sinks; OpenAI 2025, table 1 (116.83B)"},
    {"deepseek-v2-lite", 15'706'484'224, "all experts; hub deepseek-ai/DeepSeek-V2-Lite"},
    {"deepseek-v2", 235'741'434'880, "all experts; hub deepseek-ai/DeepSeek-V2"},
    {"deepseek-v3", 671'026'419'200,
     "without the prediction module, router score corrections included; DeepSeek-AI 2024 (671B)"},
    {"bert-base", 110'106'428,
     "pre-training heads, tied; hub google-bert/bert-base-uncased, BertForPreTraining"},
    {"bert-large", 336'226'108,
     "pre-training heads, tied; hub google-bert/bert-large-uncased, BertForPreTraining"},
    {"t5-3b", 2'851'598'336, "one table for encoder, decoder and head; hub google-t5/t5-3b"},
    {"t5-11b", 11'307'321'344, "one table for encoder, decoder and head; hub google-t5/t5-11b"},
    {"bart-large", 406'291'456, "one table for encoder, decoder and head; hub facebook/bart-large"},
    {"vit-b-16", 86'567'656, "classifier of 1000; torchvision vit_b_16"},
    {"vit-l-16", 304'326'632, "classifier of 1000; torchvision vit_l_16"},
    {"vit-h-14", 632'045'800, "classifier of 1000; torchvision vit_h_14 at 224 pixels"},
};

TEST(ParameterCount, EqualsPublished) {
    EXPECT_GE(std::size(kPublished), 30u);
    for (const Published& row : kPublished) {
        const auto model = load_model(row.preset);
        ASSERT_TRUE(model) << to_string(model.errors());
        EXPECT_EQ(model->graph.parameters(), row.parameters) << row.preset << ": " << row.includes_and_source;
    }
}

// Korthikanti et al. 2022, table 3 rounds to a tenth of a billion.
TEST(ParameterCount, KorthikantiTable3) {
    const std::pair<const char*, double> rows[] = {{"megatron-22b", 22.0e9},
                                                   {"gpt3-175b", 175.0e9},
                                                   {"megatron-530b", 529.6e9},
                                                   {"megatron-1t", 1008.0e9}};
    for (const auto& [name, count] : rows) {
        const auto model = load_model(name);
        ASSERT_TRUE(model) << to_string(model.errors());
        EXPECT_NEAR(static_cast<double>(model->graph.parameters()), count, 0.004 * count) << name;
    }
}

// Counts that are published rounded. Nemotron-4: its reports' embedding and other parameters together.
TEST(ParameterCount, RoundedCounts) {
    const std::tuple<const char*, double, double> rows[] = {{"nemotron4-15b", 3.2e9 + 12.5e9, 0.1e9},
                                                            {"nemotron4-340b", 9.4e9 + 331.6e9, 0.1e9},
                                                            {"grok-1", 314e9, 2e9},
                                                            {"kimi-k2", 1.04e12, 0.015e12},
                                                            {"llama4-scout", 109e9, 1.5e9}};
    for (const auto& [name, count, within] : rows) {
        const auto model = load_model(name);
        ASSERT_TRUE(model) << to_string(model.errors());
        EXPECT_NEAR(static_cast<double>(model->graph.parameters()), count, within) << name;
    }
}

TEST(ParameterCount, ActiveParametersOfExperts) {
    // Jiang et al. 2024: 12.9B active; Qwen3 table 2: 3.3B and 22B; DeepSeek-V3: 37B; Kimi K2: 32.6B; Llama 4
    // Scout: 17B.
    const std::pair<const char*, double> rows[] = {{"mixtral-8x7b", 12.9e9},    {"qwen3-30b-a3b", 3.35e9},
                                                   {"qwen3-235b-a22b", 22.2e9}, {"deepseek-v3", 37.55e9},
                                                   {"kimi-k2", 32.9e9},         {"llama4-scout", 17.2e9}};
    for (const auto& [name, count] : rows) {
        const auto model = load_model(name);
        ASSERT_TRUE(model) << to_string(model.errors());
        EXPECT_NEAR(static_cast<double>(model->graph.active_parameters()), count, 0.01 * count) << name;
    }
    const auto dense = load_model("llama3-8b");
    ASSERT_TRUE(dense);
    EXPECT_EQ(dense->graph.active_parameters(), dense->graph.parameters());
}

TEST(ParameterCount, RanksHoldTheWholeModelBetweenThem) {
    for (const std::string& name :
         {std::string("gpt3-175b"), std::string("llama3-70b"), std::string("mixtral-8x7b"),
          std::string("deepseek-v3"), std::string("t5-11b"), std::string("bert-large")}) {
        const auto model = load_model(name);
        ASSERT_TRUE(model);
        for (int i = 0; i < model->graph.size(); ++i) {
            const LayerModel& layer = *model->graph.layer(i).model;
            const LayerWork whole = layer.work({});
            EXPECT_EQ(whole.dense_parameters + whole.expert_parameters, layer.parameters())
                << name << " " << model->graph.layer(i).name;
            WorkShape split;
            split.tp = 2;
            const LayerWork half = layer.work(split);
            // Replicated tensors are held twice: never less than the whole, never twice the matrices.
            EXPECT_GE(2 * half.dense_parameters + half.expert_parameters, layer.parameters());
            EXPECT_LT(half.dense_parameters, whole.dense_parameters + 1);
        }
    }
}

// A Megatron GPT layer: 12 h^2 + 13 h; a BERT-large one at 4 bytes is 48.05 MiB.
TEST(ParameterCount, BertLargeLayer) {
    const auto model = load_model("bert-large");
    ASSERT_TRUE(model);
    const std::int64_t parameters = model->graph.layer(1).model->parameters();
    EXPECT_EQ(parameters, 12 * 1024 * 1024 + 13 * 1024);
    EXPECT_NEAR(static_cast<double>(parameters * 4) / (1 << 20), 48.05, 0.005);
}

TEST(PaddedVocab, MegatronRule) {
    EXPECT_EQ(padded_vocab(50257, 1, 1), 50257);
    EXPECT_EQ(padded_vocab(50257, 1, 2), 50258);
    EXPECT_EQ(padded_vocab(50257, 128, 1), 50304);
    EXPECT_EQ(padded_vocab(50257, 128, 2), 50432);
    EXPECT_EQ(padded_vocab(50257, 128, 4), 50688);
    EXPECT_EQ(padded_vocab(50257, 128, 8), 51200);
    for (const int tp : {1, 2, 4, 8})
        EXPECT_EQ(padded_vocab(50257, 1024 / tp, tp), 51200);
    EXPECT_EQ(padded_vocab(32002, 128, 2), 32256);
    EXPECT_EQ(padded_vocab(32002, 128, 2) - 32002, 254);
    EXPECT_EQ(padded_vocab(151'936, 64, 2), 151'936);
}

// Local rows times tp is the padded vocabulary: the table is sharded once.
TEST(PaddedVocab, LocalRowsOfTheTable) {
    const auto model = load_model("qwen3-0.6b");
    ASSERT_TRUE(model) << to_string(model.errors());
    WorkShape shape;
    shape.tp = 2;
    shape.padded_vocab = padded_vocab(151'936, 64, 2);
    EXPECT_EQ(model->graph.layer(0).model->work(shape).dense_parameters, 75'968 * 1024);
}

}  // namespace
}  // namespace tw
