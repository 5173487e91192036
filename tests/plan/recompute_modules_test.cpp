// Recomputation by module: what of a layer is dropped and what runs again, against Megatron-Core's modules.
#include <gtest/gtest.h>

#include "models/load_model.hpp"
#include "plan/parallel_plan.hpp"
#include "plan/stage_program/stage_program.hpp"

namespace tw {
namespace {

using Module = RecomputeModule;
constexpr std::int64_t kTokens = 4096;
constexpr double kT = kTokens;

const LayerGraph& deepseek() {
    static const LayerGraph graph = load_model("deepseek-v3")->graph;
    return graph;
}

// Of DeepSeek-V3: the first block has a plain MLP, the others experts.
LayerWork block(const char* name, RecomputeModules modules, Precision precision = Precision::Bf16, int ep = 1,
                int tp = 1) {
    WorkShape shape;
    shape.seq_len = kTokens;
    shape.precision = precision;
    shape.ep = ep;
    shape.tp = tp;
    shape.sequence_parallel = tp > 1;
    shape.modules = modules;
    const LayerGraph& graph = deepseek();
    for (int i = 0; i < graph.size(); ++i) {
        if (graph.layer(i).name == name) return graph.layer(i).model->work(shape);
    }
    ADD_FAILURE() << name;
    return {};
}

constexpr const char *kPlain = "block.0", *kExperts = "block.5";

double dropped(const char* name, RecomputeModules modules, Precision precision = Precision::Bf16) {
    const LayerWork work = block(name, modules, precision);
    return saved_bytes(work, RecomputeMode::None) - saved_bytes(work, RecomputeMode::Modules);
}

struct Again {
    double product_flops = 0, bytes = 0;  // matrix products; memory-bound kernels
    int gathers = 0, exchanges = 0, reductions = 0, cores = 0;
};
Again again(const LayerWork& work, RecomputeMode mode = RecomputeMode::Modules) {
    Again sum;
    visit_layer_ops(work, mode, Opcode::BackwardInput, [&](const Op& op, bool recomputed) {
        if (!recomputed) return;
        if (std::holds_alternative<Gemm>(op.body)) sum.product_flops += op_flops(op).value;
        if (std::holds_alternative<MemoryOp>(op.body)) sum.bytes += op_bytes(op);
        if (std::holds_alternative<Attention>(op.body)) ++sum.cores;
        if (const auto* call = std::get_if<CollectiveOp>(&op.body)) {
            if (call->kind == CollectiveKind::AllToAll) ++sum.exchanges;
            if (call->kind == CollectiveKind::AllGather) ++sum.gathers;
            if (call->kind == CollectiveKind::ReduceScatter) ++sum.reductions;
        }
    });
    return sum;
}

TEST(RecomputeModules, NamesAndSets) {
    for (const RecomputeModule module : kRecomputeModules)
        EXPECT_EQ(*recompute_module_named(to_string(module)), module);
    const RecomputeModules two = {Module::LatentUpProjection, Module::Norm};
    EXPECT_EQ(to_string(two), "layernorm+mla_up_proj");
    EXPECT_EQ(*recompute_modules_named("mla_up_proj+layernorm"), two);
    EXPECT_EQ(*recompute_modules_named("layernorm mla_up_proj", ' '), two);
    const auto wrong = recompute_modules_named("mla_upproj");
    ASSERT_FALSE(wrong);
    EXPECT_NE(wrong.error().hint.find("mla_up_proj"), std::string::npos) << wrong.error().hint;
    EXPECT_FALSE(recompute_modules_named(""));
}

TEST(RecomputeModules, AModelHasThoseOfItsLayers) {
    const auto names = [](const char* model) {
        return to_string(load_model(model)->graph.recompute_modules());
    };
    EXPECT_EQ(names("deepseek-v3"), "core_attn+moe_act+layernorm+mla_up_proj+mlp+moe+shared_experts");
    EXPECT_EQ(names("qwen3-30b-a3b"), "core_attn+moe_act+layernorm+moe");
    EXPECT_EQ(names("llama3-8b"), "core_attn+mlp");  // its norms are parts of the products behind them
    EXPECT_EQ(names("resnet50"), "");
    EXPECT_EQ(to_string(usual_modules(deepseek())), "moe_act+layernorm+mla_up_proj");
    EXPECT_EQ(to_string(usual_modules(load_model("mixtral-8x7b")->graph)), "moe_act+layernorm");
    EXPECT_FALSE(usual_modules(load_model("llama3-8b")->graph).any());
}

// 128 heads of 128 + 64 for queries and keys and 128 for values; latents of 1536 and 512.
TEST(RecomputeModules, LatentUpProjection) {
    const double qkv = 128.0 * (192 + 192 + 128);
    EXPECT_DOUBLE_EQ(dropped(kExperts, {Module::LatentUpProjection}), kT * 2 * (qkv + 1536 + 512));
    const Again ran = again(block(kExperts, {Module::LatentUpProjection}));
    EXPECT_DOUBLE_EQ(ran.product_flops, 2 * kT * 128 * (1536.0 * 192 + 512.0 * 256));
    EXPECT_EQ(ran.cores, 0);
    // With sequence parallelism the latents are gathered again.
    EXPECT_EQ(again(block(kExperts, {Module::LatentUpProjection}, Precision::Bf16, 1, 2)).gathers, 2);
}

TEST(RecomputeModules, NormsOfTheirOwn) {
    EXPECT_DOUBLE_EQ(dropped(kExperts, {Module::Norm}), 2 * kT * 7168 * 2);
    // The plain MLP's is part of its first product.
    EXPECT_DOUBLE_EQ(dropped(kPlain, {Module::Norm}), kT * 7168 * 2);
    const Again ran = again(block(kExperts, {Module::Norm}));
    EXPECT_DOUBLE_EQ(ran.product_flops, 0);
    EXPECT_DOUBLE_EQ(ran.bytes, 2 * (2 * kT * 7168 * 2));  // each reads and writes
    // In fp8 the casts that products keep go too: of attention's input one (two products read it), of the
    // experts' input the one of 16 bits and the shared expert's cast.
    EXPECT_DOUBLE_EQ(dropped(kExperts, {Module::Norm}, Precision::Fp8), kT * 7168 * (1 + 2 + 1));
    // Both norms, and three casts of 16 bits to 8.
    EXPECT_DOUBLE_EQ(again(block(kExperts, {Module::Norm}, Precision::Fp8)).bytes,
                     kT * 7168 * (2 * 4 + 3 * 3));
}

TEST(RecomputeModules, ActivationInsideTheExperts) {
    EXPECT_DOUBLE_EQ(dropped(kExperts, {Module::ExpertActivation}), 8 * kT * 2048 * 2);
    EXPECT_DOUBLE_EQ(dropped(kPlain, {Module::ExpertActivation}), 0);
    const Again ran = again(block(kExperts, {Module::ExpertActivation}));
    EXPECT_DOUBLE_EQ(ran.product_flops, 0);
    EXPECT_DOUBLE_EQ(ran.bytes, 8 * kT * 2048 * 2 * 3);  // gate, up, product
    EXPECT_DOUBLE_EQ(dropped(kExperts, {Module::ExpertActivation}, Precision::Fp8), 8 * kT * 2048);
    EXPECT_DOUBLE_EQ(again(block(kExperts, {Module::ExpertActivation}, Precision::Fp8)).bytes,
                     8 * kT * 2048 * (2 * 3 + 3));
}

TEST(RecomputeModules, PlainMlp) {
    // Its norm's output, gate and up, their product.
    EXPECT_DOUBLE_EQ(dropped(kPlain, {Module::Mlp}), kT * 2 * (7168 + 3 * 18432.0));
    EXPECT_DOUBLE_EQ(dropped(kExperts, {Module::Mlp}), 0);
    EXPECT_DOUBLE_EQ(again(block(kPlain, {Module::Mlp})).product_flops, 2 * kT * 3 * 7168 * 18432);
    const Again split = again(block(kPlain, {Module::Mlp}, Precision::Bf16, 1, 2));
    EXPECT_EQ(split.gathers, 1);
    EXPECT_EQ(split.reductions, 1);
}

TEST(RecomputeModules, ExpertsWithTheirExchanges) {
    const LayerWork work = block(kExperts, {Module::Experts}, Precision::Bf16, 8);
    double inside = 0;
    for (const SavedTensor& t : work.saved) {
        if (t.name.starts_with("moe.") || t.name == "mlp.act_in" || t.name == "mlp.act_out")
            inside += t.bytes;
    }
    EXPECT_DOUBLE_EQ(saved_bytes(work, RecomputeMode::None) - saved_bytes(work, RecomputeMode::Modules),
                     inside);
    const Again ran = again(work);
    EXPECT_EQ(ran.exchanges, 2);  // there and back
    // The router; eight experts and the shared one.
    EXPECT_DOUBLE_EQ(ran.product_flops, 2 * kT * 7168 * (256 + 9 * 3 * 2048.0));
    EXPECT_EQ(again(block(kPlain, {Module::Experts})).product_flops, 0);
}

TEST(RecomputeModules, SharedExpertsAlone) {
    EXPECT_DOUBLE_EQ(dropped(kExperts, {Module::SharedExperts}), kT * 2 * 3 * 2048);
    EXPECT_DOUBLE_EQ(again(block(kExperts, {Module::SharedExperts})).product_flops,
                     2 * kT * 7168 * 3 * 2048.0);
    // The checkpoint's input is the one of 16 bits, which the router keeps anyway.
    EXPECT_DOUBLE_EQ(dropped(kExperts, {Module::SharedExperts}, Precision::Fp8),
                     kT * (7168 + 2048 * (2 * 2 + 1)));
}

TEST(RecomputeModules, TheCoreIsWhatSelectiveDrops) {
    const LayerWork work = block(kExperts, {Module::CoreAttention});
    EXPECT_DOUBLE_EQ(saved_bytes(work, RecomputeMode::Modules), saved_bytes(work, RecomputeMode::Selective));
    EXPECT_EQ(again(work).cores, 1);
}

TEST(RecomputeModules, AddUp) {
    const RecomputeModules all = {Module::LatentUpProjection, Module::Norm, Module::ExpertActivation};
    EXPECT_DOUBLE_EQ(dropped(kExperts, all), dropped(kExperts, {Module::LatentUpProjection}) +
                                                 dropped(kExperts, {Module::Norm}) +
                                                 dropped(kExperts, {Module::ExpertActivation}));
    // "moe" has the activation inside, which is dropped and runs again once.
    EXPECT_DOUBLE_EQ(dropped(kExperts, {Module::Experts, Module::ExpertActivation, Module::SharedExperts}),
                     dropped(kExperts, {Module::Experts}));
    const LayerWork work = block(kExperts, all);
    EXPECT_LT(saved_bytes(work, RecomputeMode::Full), saved_bytes(work, RecomputeMode::Modules));
    // Attention's tensors come back when those of the experts are gone: 128 heads' against two latents and
    // norms.
    EXPECT_DOUBLE_EQ(recomputed_bytes(work, RecomputeMode::Modules),
                     kT * 2 * (128.0 * 512 + 1536 + 512 + 7168));
}

TEST(RecomputeModules, ModesWithoutThemAreAsBefore) {
    const RecomputeModules all = {Module::LatentUpProjection, Module::Experts};
    const LayerWork with = block(kExperts, all), without = block(kExperts, {});
    for (const RecomputeMode mode : {RecomputeMode::None, RecomputeMode::Selective, RecomputeMode::Full}) {
        EXPECT_DOUBLE_EQ(saved_bytes(with, mode), saved_bytes(without, mode));
        EXPECT_DOUBLE_EQ(again(with, mode).product_flops, again(without, mode).product_flops);
    }
    EXPECT_DOUBLE_EQ(saved_bytes(without, RecomputeMode::Modules), saved_bytes(without, RecomputeMode::None));
}

}  // namespace
}  // namespace tw
