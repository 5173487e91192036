// Hugging Face configurations written by hand: sizes, defaults, renamed and nested keys, refusals.
#include "models/formats/hf_config.hpp"

#include <algorithm>
#include <filesystem>

#include <gtest/gtest.h>

#include "models/families/registry.hpp"
#include "models/load_model.hpp"

namespace tw {
namespace {

LoadedModel loaded(const std::string& text) {
    auto model = load_model_text(text, "fixture/config.json");
    if (!model) {
        ADD_FAILURE() << to_string(model.errors()) << "\n" << text;
        return {};
    }
    return std::move(*model);
}

std::string refusal(const std::string& text) {
    const auto model = load_model_text(text, "fixture/config.json");
    if (model) {
        ADD_FAILURE() << "accepted: " << text;
        return {};
    }
    EXPECT_EQ(exit_code(model.errors()), 5) << to_string(model.errors());
    return to_string(model.errors());
}

bool mentions(const std::vector<std::string>& warnings, const std::string& text) {
    return std::any_of(warnings.begin(), warnings.end(),
                       [&](const std::string& w) { return w.find(text) != std::string::npos; });
}

struct Fixture {
    const char* text;
    std::int64_t parameters;
    const char* model;
};

// Published counts, as in parameter_count_test.cpp, from configurations as the hub spells them.
const Fixture kFixtures[] =
    {
        {R"({"model_type":"gpt2","n_embd":768,"n_head":12,"n_layer":12,"n_positions":1024,"vocab_size":50257})",
         124'439'808, "gpt2"},
        {R"({"model_type":"gpt_neox","hidden_size":5120,"num_attention_heads":40,"num_hidden_layers":36,"intermediate_size":20480,"vocab_size":50688})",
         11'846'072'320, "pythia-12b"},
        {R"({"model_type":"gptj","n_embd":4096,"n_head":16,"n_layer":28,"vocab_size":50400})", 6'050'882'784,
         "gpt-j-6b"},
        {R"({"model_type":"opt","hidden_size":768,"num_attention_heads":12,"num_hidden_layers":12,"ffn_dim":3072,"vocab_size":50272,"word_embed_proj_dim":768})",
         125'239'296, "opt-125m"},
        {R"({"model_type":"opt","hidden_size":1024,"num_attention_heads":16,"num_hidden_layers":24,"ffn_dim":4096,"vocab_size":50272,"word_embed_proj_dim":512,"do_layer_norm_before":false})",
         331'196'416, "opt-350m: post-norm, factorised table"},
        {R"({"model_type":"bloom","n_embed":1024,"num_attention_heads":16,"n_layer":24,"vocab_size":250880})",
         559'214'592, "bloom-560m"},
        {R"({"architectures":["RWForCausalLM"],"hidden_size":4544,"n_head":71,"n_layer":32,"vocab_size":65024})",
         6'921'720'704, "falcon-7b, tied"},
        {R"({"model_type":"falcon","hidden_size":8192,"num_attention_heads":128,"num_kv_heads":8,"num_hidden_layers":60,"new_decoder_architecture":true,"vocab_size":65024})",
         41'303'293'952, "falcon-40b, tied"},
        {R"({"model_type":"mpt","d_model":4096,"n_heads":32,"n_layers":32,"vocab_size":50432,"no_bias":true,"attn_config":{"alibi":true}})",
         6'649'286'656, "mpt-7b"},
        {R"({"model_type":"phi","hidden_size":2560,"num_attention_heads":32,"num_hidden_layers":32,"intermediate_size":10240,"vocab_size":51200})",
         2'779'683'840, "phi-2"},
        {R"({"model_type":"gpt_bigcode","n_embd":6144,"n_head":48,"n_layer":40,"n_inner":24576,"n_positions":8192,"vocab_size":49152,"multi_query":true})",
         15'517'456'384, "starcoder"},
        {R"({"model_type":"llama","hidden_size":6656,"num_attention_heads":52,"num_hidden_layers":60,"intermediate_size":17920,"vocab_size":32000})",
         32'528'943'616, "llama-30b"},
        {R"({"model_type":"mistral","hidden_size":4096,"num_attention_heads":32,"num_key_value_heads":8,"num_hidden_layers":32,"intermediate_size":14336,"vocab_size":32000})",
         7'241'732'096, "mistral-7b"},
        {R"({"model_type":"qwen2","hidden_size":1536,"num_attention_heads":12,"num_key_value_heads":2,"num_hidden_layers":28,"intermediate_size":8960,"vocab_size":151936,"tie_word_embeddings":true})",
         1'543'714'304, "qwen2.5-1.5b"},
        {R"({"model_type":"qwen","hidden_size":5120,"num_attention_heads":40,"num_hidden_layers":40,"intermediate_size":27392,"vocab_size":152064})",
         14'167'290'880, "qwen-14b"},
        {R"({"model_type":"gemma2","hidden_size":2304,"num_attention_heads":8,"num_key_value_heads":4,"num_hidden_layers":26,"intermediate_size":9216,"vocab_size":256000,"head_dim":256})",
         2'614'341'888, "gemma-2-2b"},
        {R"({"model_type":"gemma3","text_config":{"model_type":"gemma3_text","hidden_size":2560,"num_attention_heads":8,"num_key_value_heads":4,"num_hidden_layers":34,"intermediate_size":10240,"vocab_size":262208,"head_dim":256}})",
         3'880'263'168, "gemma-3-4b, language model"},
        {R"({"model_type":"phi3","hidden_size":3072,"num_attention_heads":32,"num_hidden_layers":32,"intermediate_size":8192,"vocab_size":32064})",
         3'821'079'552, "phi-3-mini"},
        {R"({"model_type":"olmo2","hidden_size":2048,"num_attention_heads":16,"num_hidden_layers":16,"intermediate_size":8192,"vocab_size":100352})",
         1'484'916'736, "olmo-2-1b"},
        {R"({"model_type":"chatglm","hidden_size":4096,"num_attention_heads":32,"num_layers":28,"ffn_hidden_size":13696,"kv_channels":128,"multi_query_attention":true,"multi_query_group_num":2,"add_qkv_bias":true,"padded_vocab_size":65024})",
         6'243'584'000, "chatglm3-6b"},
        {R"({"model_type":"mixtral","hidden_size":4096,"num_attention_heads":32,"num_key_value_heads":8,"num_hidden_layers":32,"intermediate_size":14336,"vocab_size":32000,"num_local_experts":8})",
         46'702'792'704, "mixtral-8x7b"},
        {R"({"model_type":"qwen2_moe","hidden_size":2048,"num_attention_heads":16,"num_key_value_heads":16,"num_hidden_layers":24,"intermediate_size":5632,"moe_intermediate_size":1408,"shared_expert_intermediate_size":5632,"num_experts":60,"num_experts_per_tok":4,"vocab_size":151936})",
         14'315'784'192, "qwen1.5-moe-a2.7b"},
        {R"({"model_type":"qwen3_moe","hidden_size":2048,"num_attention_heads":32,"num_key_value_heads":4,"head_dim":128,"num_hidden_layers":48,"intermediate_size":6144,"moe_intermediate_size":768,"num_experts":128,"num_experts_per_tok":8,"vocab_size":151936})",
         30'532'122'624, "qwen3-30b-a3b"},
        // The hub's 81,324,862,720 less the prediction module: 1,650,471,424 (one full-attention layer, 2
        // h^2, three norms).
        {R"({"model_type":"qwen3_next","hidden_size":2048,"num_attention_heads":16,"num_key_value_heads":2,"head_dim":256,"num_hidden_layers":48,"intermediate_size":5120,"moe_intermediate_size":512,"shared_expert_intermediate_size":512,"num_experts":512,"num_experts_per_tok":10,"full_attention_interval":4,"linear_num_key_heads":16,"linear_num_value_heads":32,"linear_key_head_dim":128,"linear_value_head_dim":128,"linear_conv_kernel_dim":4,"vocab_size":151936})",
         79'674'391'296, "qwen3-next-80b-a3b"},
        {R"({"model_type":"gpt_oss","hidden_size":2880,"num_attention_heads":64,"num_key_value_heads":8,"head_dim":64,"num_hidden_layers":24,"intermediate_size":2880,"num_local_experts":32,"num_experts_per_tok":4,"vocab_size":201088,"sliding_window":128})",
         20'914'757'184, "gpt-oss-20b"},
        {R"({"model_type":"deepseek_v2","hidden_size":2048,"num_attention_heads":16,"num_hidden_layers":27,"intermediate_size":10944,"moe_intermediate_size":1408,"n_routed_experts":64,"n_shared_experts":2,"num_experts_per_tok":6,"first_k_dense_replace":1,"q_lora_rank":null,"kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"vocab_size":102400})",
         15'706'484'224, "deepseek-v2-lite"},
        {R"({"model_type":"bert","architectures":["BertModel"],"hidden_size":1024,"num_attention_heads":16,"num_hidden_layers":24,"intermediate_size":4096,"vocab_size":30522})",
         335'141'888, "bert-large, BertModel"},
        {R"({"model_type":"bert","architectures":["BertForMaskedLM"],"hidden_size":768,"num_attention_heads":12,"num_hidden_layers":12,"intermediate_size":3072,"vocab_size":30522})",
         109'514'298, "bert-base, BertForMaskedLM"},
        {R"({"model_type":"roberta","architectures":["RobertaForMaskedLM"],"hidden_size":768,"num_attention_heads":12,"num_hidden_layers":12,"intermediate_size":3072,"vocab_size":50265,"max_position_embeddings":514,"type_vocab_size":1})",
         124'697'433, "roberta-base, RobertaForMaskedLM"},
        {R"({"model_type":"albert","hidden_size":768,"num_attention_heads":12,"num_hidden_layers":12,"intermediate_size":3072,"vocab_size":30000,"embedding_size":128})",
         11'683'584, "albert-base, AlbertModel"},
        {R"({"model_type":"t5","d_model":768,"d_ff":3072,"d_kv":64,"num_heads":12,"num_layers":12,"vocab_size":32128})",
         222'903'552, "t5-base"},
        {R"({"model_type":"t5","d_model":4096,"d_ff":10240,"d_kv":64,"num_heads":64,"num_layers":24,"vocab_size":32128,"feed_forward_proj":"gated-gelu","tie_word_embeddings":false})",
         11'135'332'352, "t5-v1.1-xxl"},
        {R"({"model_type":"bart","d_model":1024,"encoder_layers":12,"decoder_layers":12,"vocab_size":50265})",
         406'291'456, "bart-large"},
        {R"({"model_type":"vit","architectures":["ViTModel"],"hidden_size":768,"num_attention_heads":12,"num_hidden_layers":12,"intermediate_size":3072})",
         86'389'248, "vit-b-16, ViTModel"},
        {R"({"model_type":"clip_vision_model","hidden_size":1024,"num_attention_heads":16,"num_hidden_layers":24,"intermediate_size":4096,"patch_size":14})",
         303'179'776, "clip-vit-l-14, vision tower"},
};

TEST(HfConfig, PublishedCounts) {
    for (const Fixture& f : kFixtures)
        EXPECT_EQ(loaded(f.text).graph.parameters(), f.parameters) << f.model;
}

TEST(HfConfig, DefaultsThatWereUsedAreWarnings) {
    const LoadedModel model = loaded(
        R"({"model_type":"llama","hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"vocab_size":32000,"hidden_act":"silu"})");
    EXPECT_EQ(model.graph.parameters(), 6'738'415'616);
    EXPECT_TRUE(mentions(model.warnings, "/intermediate_size is absent: 11008"));
}

TEST(HfConfig, UnknownKeysAreListed) {
    const LoadedModel model = loaded(
        R"({"model_type":"gpt2","n_embd":64,"n_head":4,"n_layer":2,"vocab_size":100,"wheels":4,"torch_dtype":"float16"})");
    EXPECT_TRUE(mentions(model.warnings, "not used: /wheels"));
    EXPECT_FALSE(mentions(model.warnings, "torch_dtype"));
}

TEST(HfConfig, MisspeltKeysNameTheOneThatWasMeant) {
    const LoadedModel model = loaded(
        R"({"model_type":"llama","hidden_size":4096,"num_hiden_layers":16,"num_attention_heads":32,"vocab_size":32000,"intermediate_sizes":11008})");
    EXPECT_TRUE(mentions(model.warnings, "/num_hiden_layers is not used: did you mean 'num_hidden_layers'?"));
    EXPECT_TRUE(
        mentions(model.warnings, "/intermediate_sizes is not used: did you mean 'intermediate_size'?"));
    EXPECT_TRUE(mentions(model.warnings, "/num_hidden_layers is absent: 32 taken"));
    EXPECT_FALSE(mentions(model.warnings, "not used: /"));
    // A key that is there is not meant by another one.
    const LoadedModel both =
        loaded(R"({"model_type":"gpt2","n_embd":64,"n_head":4,"n_layer":2,"n_layers_":3,"vocab_size":100})");
    EXPECT_FALSE(mentions(both.warnings, "did you mean 'n_layer'"));
}

TEST(HfConfig, CapacityOfExperts) {
    const std::string sizes = R"("hidden_size":64,"num_attention_heads":8,"num_hidden_layers":2,)";
    const auto factor = [&](const std::string& rest) {
        return loaded("{" + sizes + rest + "}").config->expert_capacity_factor;
    };
    EXPECT_EQ(factor(R"("model_type":"mixtral")"), 0);
    EXPECT_EQ(factor(R"("model_type":"mixtral","moe_expert_capacity_factor":1.25)"), 1.25);
    const std::string openmoe =
        R"("architectures":["OpenMoeForCausalLM"],"head_dim":16,"capacity_factor_train":1.5)";
    EXPECT_EQ(factor(openmoe), 1.5);
    EXPECT_EQ(factor(openmoe + R"(,"drop_tks":false)"), 0);
    EXPECT_NE(refusal("{" + sizes + R"("model_type":"mixtral","moe_expert_capacity_factor":-1})")
                  .find("/moe_expert_capacity_factor"),
              std::string::npos);
}

TEST(HfConfig, Routers) {
    const std::string sizes = R"({"hidden_size":64,"num_attention_heads":8,"num_hidden_layers":2,)";
    const auto config = [&](const std::string& rest) { return *loaded(sizes + rest + "}").config; };
    const ModelConfig mixtral = config(R"("model_type":"mixtral")");
    EXPECT_EQ(mixtral.router_score, RouterScore::Softmax);
    EXPECT_TRUE(mixtral.router_normalised);
    EXPECT_EQ(mixtral.router_scale, 1);
    const ModelConfig v3 = config(R"("model_type":"deepseek_v3")");
    EXPECT_EQ(v3.router_score, RouterScore::Sigmoid);
    EXPECT_EQ(v3.router_scale, 2.5);
    EXPECT_EQ(v3.router_groups, 8);
    EXPECT_EQ(v3.router_group_topk, 4);
    const ModelConfig kimi =
        config(R"("model_type":"kimi_k2","routed_scaling_factor":2.827,"n_group":1,"topk_group":1)");
    EXPECT_EQ(kimi.router_scale, 2.827);
    EXPECT_EQ(kimi.router_groups, 0);
    const std::string v2 = R"("model_type":"deepseek_v2","n_group":8,"topk_group":3,"topk_method":)";
    EXPECT_EQ(config(v2 + R"("group_limited_greedy")").router_groups, 8);
    EXPECT_EQ(config(v2 + R"("greedy")").router_groups, 0);
    EXPECT_FALSE(config(v2 + R"("greedy")").router_normalised);
    EXPECT_FALSE(config(R"("model_type":"qwen3_moe")").router_normalised);
    EXPECT_TRUE(config(R"("model_type":"qwen3_moe","norm_topk_prob":true)").router_normalised);
    EXPECT_EQ(
        config(R"("model_type":"mimo_v2_flash","hybrid_layer_pattern":[0,1],"routed_scaling_factor":null)")
            .router_scale,
        1);
    EXPECT_EQ(config(R"("model_type":"gpt_oss")").swiglu_limit, 7);
    EXPECT_EQ(config(R"("model_type":"gpt_oss","swiglu_limit":10.0)").swiglu_limit, 10);
    EXPECT_TRUE(mentions(loaded(sizes + R"("model_type":"glm4_moe","scoring_func":"tanh"})").warnings,
                         "/scoring_func: how a router scores by tanh is not described"));
}

TEST(HfConfig, NameOfTheFolder) {
    EXPECT_EQ(loaded(R"({"model_type":"gpt2"})").graph.name, "fixture");
}

TEST(HfConfig, SlidingWindows) {
    const auto windows = [](const std::string& text) {
        const LoadedModel model = loaded(text);
        std::vector<std::int64_t> found;
        for (int i = 1; i + 1 < model.graph.size(); ++i) {
            for (const Op& op : model.graph.layer(i).model->work({}).forward) {
                if (const auto* a = std::get_if<Attention>(&op.body)) found.push_back(a->window);
            }
        }
        return found;
    };
    const std::string sizes =
        R"("hidden_size":64,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,"intermediate_size":128,"vocab_size":100,)";
    EXPECT_EQ(windows("{" + sizes + R"("model_type":"gemma2","num_hidden_layers":4,"sliding_window":8})"),
              (std::vector<std::int64_t>{8, 0, 8, 0}));
    EXPECT_EQ(
        windows(
            "{" + sizes +
            R"("model_type":"gemma3_text","num_hidden_layers":7,"sliding_window":8,"sliding_window_pattern":6})"),
        (std::vector<std::int64_t>{8, 8, 8, 8, 8, 0, 8}));
    EXPECT_EQ(
        windows(
            "{" + sizes +
            R"("model_type":"olmo3","num_hidden_layers":2,"sliding_window":8,"layer_types":["full_attention","sliding_attention"]})"),
        (std::vector<std::int64_t>{0, 8}));
    EXPECT_EQ(windows("{" + sizes + R"("model_type":"mistral","num_hidden_layers":2,"sliding_window":null})"),
              (std::vector<std::int64_t>{0, 0}));
}

TEST(HfConfig, RefusalsNameTheKey) {
    EXPECT_NE(refusal(R"({"d_model":768,"n_layer":24,"vocab_size":50277,"ssm_cfg":{}})").find("/ssm_cfg"),
              std::string::npos);
    EXPECT_NE(refusal(R"({"model_type":"jamba","hidden_size":64})").find("/model_type"), std::string::npos);
    EXPECT_NE(refusal(R"({"producer":{},"quantization":{"quant_algo":"NVFP4"}})").find("/quantization"),
              std::string::npos);
    EXPECT_NE(refusal(R"({"model_type":"lama"})").find("did you mean 'llama'"), std::string::npos);
    EXPECT_NE(refusal(R"({"fonts":[1,2]})").find("/model_type"), std::string::npos);
    EXPECT_NE(refusal(R"({"model_type":"llama","hidden_size":-4096})").find("/hidden_size"),
              std::string::npos);
    EXPECT_NE(refusal(R"({"model_type":"llama","hidden_size":"4096"})").find("/hidden_size"),
              std::string::npos);
    EXPECT_NE(refusal(R"({"model_type":"llama","hidden_size":1e300})").find("/hidden_size"),
              std::string::npos);
    EXPECT_NE(refusal(R"({"model_type":"llama","num_hidden_layers":200000})").find("/num_hidden_layers"),
              std::string::npos);
    EXPECT_NE(refusal(R"({"model_type":"llama","num_attention_heads":33})")
                  .find("multiple of num_attention_heads 33"),
              std::string::npos);
    EXPECT_NE(refusal(R"({"model_type":"llama","hidden_act":"wobble"})").find("/hidden_act"),
              std::string::npos);
    EXPECT_NE(refusal(R"({"model_type":"llama","hidden_size":4096,"hidden_size":64})").find("duplicate key"),
              std::string::npos);
    EXPECT_NE(refusal(R"({"model_type":"olmo3","num_hidden_layers":2,"layer_types":["full_attention"]})")
                  .find("/layer_types"),
              std::string::npos);
    EXPECT_NE(
        refusal(
            R"({"model_type":"mixtral","hidden_size":1000000,"num_attention_heads":1000,"intermediate_size":16000000,"num_local_experts":65536,"num_hidden_layers":100000})")
            .find("too many parameters"),
        std::string::npos);
    // All errors at once.
    const std::string both = refusal(R"({"model_type":"gpt2","n_embd":-1,"n_layer":0})");
    EXPECT_NE(both.find("/n_embd"), std::string::npos);
    EXPECT_NE(both.find("/n_layer"), std::string::npos);
}

// What only the whole description shows to be wrong is said in the document's own words, whichever of its
// names a key has.
// What a run reads besides the sizes.
TEST(HfConfig, ValuesOfTheWrongKindAreRefused) {
    const std::string sizes =
        R"({"model_type":"llama","hidden_size":64,"intermediate_size":128,"num_hidden_layers":4,"num_attention_heads":4,"vocab_size":300,)";
    for (const auto& [key, value] : {std::pair("rms_norm_eps", "\"abc\""), std::pair("rms_norm_eps", "-1"),
                                     std::pair("rope_theta", "-5"), std::pair("initializer_range", "\"x\""),
                                     std::pair("partial_rotary_factor", "2"), std::pair("rope_scaling", "3"),
                                     std::pair("torch_dtype", "\"foo\""), std::pair("torch_dtype", "16"),
                                     std::pair("num_key_value_heads", "0"), std::pair("head_dim", "0")}) {
        const std::string said = refusal(sizes + "\"" + key + "\":" + value + "}");
        EXPECT_NE(said.find(std::string("/") + key), std::string::npos) << said;
    }
    loaded(
        sizes +
        R"("rms_norm_eps":1e-05,"rope_theta":500000,"rope_scaling":null,"torch_dtype":null,"dtype":"bfloat16"})");
}

TEST(HfConfig, ContradictionsNameTheDocumentsOwnKeys) {
    EXPECT_EQ(refusal(R"({"model_type":"llama","hidden_size":100,"num_attention_heads":7})"),
              "fixture/config.json: /num_attention_heads: hidden_size 100 is not a multiple of "
              "num_attention_heads 7 "
              "(hint: give head_dim where it is not hidden_size / num_attention_heads)");
    EXPECT_NE(refusal(R"({"model_type":"gpt2","n_embd":100,"n_head":7})")
                  .find("/n_head: n_embd 100 is not a multiple of n_head 7"),
              std::string::npos);
    EXPECT_NE(refusal(R"({"model_type":"mpt","d_model":100,"n_heads":7})").find("/n_heads: d_model 100"),
              std::string::npos);
    EXPECT_NE(refusal(R"({"model_type":"llama","num_attention_heads":32,"num_key_value_heads":5})")
                  .find("/num_key_value_heads: num_attention_heads 32 is not a multiple of "
                        "num_key_value_heads 5"),
              std::string::npos);
    EXPECT_NE(refusal(R"({"model_type":"mixtral","num_local_experts":4,"num_experts_per_tok":5})")
                  .find("/num_experts_per_tok: 5 is outside [1, num_local_experts = 4]"),
              std::string::npos);
    EXPECT_NE(
        refusal(
            R"({"model_type":"gemma3","text_config":{"model_type":"gemma3_text","num_attention_heads":8,"num_key_value_heads":3}})")
            .find("/text_config/num_key_value_heads: num_attention_heads 8"),
        std::string::npos);
}

TEST(HfConfig, TypesAreSortedAndBuildable) {
    const std::vector<std::string> types = hf_model_types();
    EXPECT_TRUE(std::is_sorted(types.begin(), types.end()));
    EXPECT_GE(types.size(), 50u);
    int built = 0;
    for (const std::string& type : types) {
        const auto model = load_model_text(R"({"model_type":")" + type + R"("})", "defaults");
        // Some classes have no complete defaults; those must say which key is missing.
        if (model) {
            ++built;
            EXPECT_GT(model->graph.parameters(), 0) << type;
        } else {
            EXPECT_NE(to_string(model.errors()).find("required key is missing"), std::string::npos)
                << type << ": " << to_string(model.errors());
        }
    }
    EXPECT_GE(built, 50);
}

TEST(HfConfig, SharedFilesAreRead) {
    const std::filesystem::path root = TW_SOURCE_DIR "/../shared/inputs/models";
    if (!std::filesystem::exists(root)) GTEST_SKIP() << "no shared model files at " << root;
    int files = 0, read = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
        if (!entry.is_regular_file()) continue;
        ++files;
        const auto model = load_model(entry.path().string());
        if (model) {
            ++read;
            EXPECT_GT(model->graph.parameters(), 0) << entry.path();
        } else {
            EXPECT_NE(to_string(model.errors()).find('/'), std::string::npos);
        }
    }
    EXPECT_EQ(files, 122);
    EXPECT_GE(read, 105);
}

}  // namespace
}  // namespace tw
