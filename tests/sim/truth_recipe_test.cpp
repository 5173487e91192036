// What Megatron-Bridge's recipes do where a row of its tables is silent.
#include <gtest/gtest.h>

#include "base/json.hpp"
#include "sim/validate/predict.hpp"
#include "sim/validate/truth_case.hpp"

namespace tw {
namespace {

// A row of its performance summary, with fields put in place of its own.
TruthRow recipe_row(const Json& changes) {
    Json row = {{"id", "r-1"},
                {"source", "Megatron-Bridge performance summary"},
                {"framework", "Megatron-Bridge / Megatron-Core"},
                {"model",
                 {{"name", "Qwen3_30B_a3B (tokendrop)"},
                  {"family", "moe"},
                  {"layers", 48},
                  {"hidden", 2048},
                  {"heads", 32},
                  {"kv_heads", 4},
                  {"ffn", 768},
                  {"vocab", 151936},
                  {"seq_len", 4096},
                  {"experts", 128},
                  {"topk", 8}}},
                {"hardware", {{"gpu", "B200"}, {"gpus_per_node", 8}}},
                {"precision", "BF16"},
                {"gpus", 8},
                {"dp", 8},
                {"tp", 1},
                {"pp", 1},
                {"ep", 8},
                {"micro_batch", 1},
                {"global_batch", 512},
                {"iteration_time_s", 10.0},
                {"status", "ok"}};
    if (changes.is_object()) row.merge_patch(changes);
    const auto rows = read_truth_text(("[" + row.dump() + "]"), "recipes.json");
    EXPECT_TRUE(rows) << to_string(rows.errors());
    return rows->front();
}

ValidationCase case_of(const Json& changes) {
    auto c = make_case(recipe_row(changes));
    EXPECT_TRUE(c) << to_string(c.errors());
    return std::move(*c);
}

TEST(TruthRecipe, DroppedTokensRunAsOneGraphOnBlackwellWithoutAPipeline) {
    EXPECT_EQ(case_of({}).plan.framework, "nemo-graphs");
    EXPECT_EQ(case_of({{"hardware", {{"gpu", "H100"}}}}).plan.framework, "nemo");
    EXPECT_EQ(case_of({{"pp", 2}, {"dp", 4}, {"ep", 4}}).plan.framework, "nemo");
    EXPECT_EQ(case_of({{"model", {{"name", "Qwen3_30B_a3B"}}}}).plan.framework, "nemo");
}

TEST(TruthRecipe, DeepSeekOnHopperSendsAMessageForEachNode) {
    const Json deepseek = {{"model",
                            {{"name", "DeepSeekV3"},
                             {"family", "moe-mla"},
                             {"layers", 61},
                             {"hidden", 7168},
                             {"heads", 128},
                             {"kv_heads", nullptr},
                             {"ffn", 18432},
                             {"vocab", 129280},
                             {"experts", 256}}},
                           {"hardware", {{"gpu", "H100"}}},
                           {"gpus", 1024},
                           {"dp", 128},
                           {"pp", 8},
                           {"ep", 64}};
    EXPECT_EQ(case_of(deepseek).plan.expert_dispatch, WorkShape::ExpertDispatch::PerNode);
    Json blackwell = deepseek;
    blackwell["hardware"]["gpu"] = "B200";
    EXPECT_EQ(case_of(blackwell).plan.expert_dispatch, WorkShape::ExpertDispatch::AllToAll);
    // And recomputes the modules that the recipes name, where the row is silent.
    EXPECT_EQ(to_string(case_of(deepseek).plan.recompute_modules), "mla_up_proj+mlp");
    EXPECT_EQ(case_of(deepseek).plan.stages.front().recompute, RecomputeMode::Modules);
    EXPECT_EQ(to_string(case_of(blackwell).plan.recompute_modules), "mla_up_proj");
    blackwell["recompute"] = "none";
    EXPECT_FALSE(case_of(blackwell).plan.recompute_modules.any());
    EXPECT_FALSE(case_of({}).plan.recompute_modules.any());
}

// 30 billion parameters with their states on sixteen H100 of 80 GB: nothing fits without recomputation at a
// microbatch of 4, which is predicted slower than the same row that states none.
TEST(TruthRecipe, AsMuchIsRecomputedAsMemoryAsks) {
    const Json tight = {{"hardware", {{"gpu", "H100"}}}, {"gpus", 16}, {"dp", 16}, {"micro_batch", 4}};
    Json stated = tight;
    stated["recompute"] = "none";
    const auto step = [](const Json& changes) {
        const TruthRow row = recipe_row(changes);
        const auto p = predict(case_of(changes), row);
        EXPECT_TRUE(p) << to_string(p.errors());
        return *p;
    };
    EXPECT_FALSE(step(stated).fits);
    EXPECT_TRUE(step(tight).fits);
    EXPECT_GT(step(tight).step_time_s, 1.01 * step(stated).step_time_s);
    const Json roomy = {{"hardware", {{"gpu", "B200"}}}};
    Json roomy_stated = roomy;
    roomy_stated["recompute"] = "none";
    EXPECT_EQ(step(roomy).step_time_s, step(roomy_stated).step_time_s);
}

}  // namespace
}  // namespace tw
