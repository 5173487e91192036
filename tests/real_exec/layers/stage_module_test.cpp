#include "real_exec/layers/stage_module.hpp"

#include <algorithm>

#include "real_exec/layers/model_style.hpp"
#include "tests/real_exec/layers/module_harness.hpp"

namespace tw::testing {
namespace {

std::vector<ModelConfig> all_configs() {
    ModelConfig untied = gpt_config();
    untied.name = "gpt-untied";
    untied.tied_embeddings = false;
    ModelConfig window = llama_config();
    window.name = "llama-window";
    window.window = 4;
    window.qkv_bias = true;
    ModelConfig relu = gpt_config();
    relu.name = "gpt-relu";
    relu.activation = ActivationKind::Relu;
    return {gpt_config(), untied,        relu,         llama_config(),
            window,       bert_config(), moe_config(), dropping_config()};
}

// Loss of one process, one stage, with a parameter moved along a direction.
class Loss {
  public:
    Loss(const LayerGraph& graph, const ParallelPlan& plan, const Batch& batch, double dropout = 0,
         const ModelStyle* style = nullptr)
        : transports_(local_transports(1)),
          rig_(graph, plan, 0, *transports_[0], dropout, nullptr, 0.3, style),
          batch_(batch) {}
    Rig& rig() { return rig_; }
    double operator()() {
        LossResult loss;
        rig_.module->forward(0, batch_, {}, {}, &loss);
        rig_.module->discard(0);
        return loss.sum;
    }
    void gradients() {
        LossResult loss;
        rig_.zero_gradients();
        rig_.module->forward(0, batch_, {}, {}, &loss);
        rig_.module->backward(0, {}, {}, 1, 0, layers_of());
    }
    int layers_of() const { return layers_; }
    void set_layers(int n) { layers_ = n; }
    // (L(p + step d) - L(p - step d)) / 2 step.
    double derivative(Parameter& p, const std::vector<double>& direction, double step) {
        const auto move = [&](double by) {
            for (std::size_t i = 0; i < direction.size(); ++i)
                p.value.as<float>()[i] += static_cast<float>(by * direction[i]);
        };
        const std::vector<float> saved(p.value.as<float>(), p.value.as<float>() + p.value.elements());
        move(step);
        const double up = (*this)();
        std::copy(saved.begin(), saved.end(), p.value.as<float>());
        move(-step);
        const double down = (*this)();
        std::copy(saved.begin(), saved.end(), p.value.as<float>());
        return (up - down) / (2 * step);
    }

  private:
    std::vector<std::unique_ptr<Transport>> transports_;
    Rig rig_;
    Batch batch_;
    int layers_ = 0;
};

// The derivative along the gradient itself, and along a random direction, of every parameter of every layer.
void expect_finite_differences(const ModelConfig& config, double dropout = 0,
                               const ModelStyle* style = nullptr) {
    const LayerGraph graph = graph_of(config);
    const ParallelPlan plan = plan_of(graph);
    const TokenBatch batch(plan.microbatch, plan.seq_len, graph.vocab);
    Loss loss(graph, plan, batch.batch, dropout, style);
    loss.set_layers(graph.size());
    loss.gradients();
    std::uint64_t draw = 0;
    for (Parameter& p : loss.rig().module->parameters()) {
        const std::vector<double> g(p.grad.as<float>(), p.grad.as<float>() + p.grad.elements());
        const double norm = norm_of(g);
        // A key's bias shifts all scores of a query alike: its gradient is 0.
        if (norm < 1e-4) continue;
        std::vector<double> along = g;
        for (double& x : along)
            x /= norm;
        // A router's choices jump, and relu bends: stay where they hold.
        const bool bends = config.experts > 0 || config.activation == ActivationKind::Relu;
        const double step = bends ? 1e-3 : 4e-3;
        EXPECT_NEAR(loss.derivative(p, along, step) / norm, 1, bends ? 0.02 : 6e-3)
            << config.name << " " << p.name;
        std::vector<double> random(g.size());
        double expected = 0;
        for (std::size_t i = 0; i < g.size(); ++i) {
            random[i] = counter_random(5, 5, draw++) % 2 == 0 ? 1 : -1;
            random[i] /= std::sqrt(static_cast<double>(g.size()));
            expected += random[i] * g[i];
        }
        EXPECT_NEAR(loss.derivative(p, random, step), expected, 0.02 * norm) << config.name << " " << p.name;
    }
}

TEST(StageModule, GradientsAreFiniteDifferences) {
    for (const ModelConfig& config : all_configs())
        expect_finite_differences(config);
}

TEST(StageModule, GradientsAreFiniteDifferencesUnderDropout) {
    for (const ModelConfig& config : {gpt_config(), bert_config(), llama_config()})
        expect_finite_differences(config, 0.2);
}

// Another base of the rotary angles, another epsilon and the other form of GELU.
TEST(StageModule, GradientsAreFiniteDifferencesInEveryStyle) {
    ModelStyle style = style_of(graph_of(llama_config()));
    style.rope_theta = 50;
    style.norm_eps = 0.05;
    expect_finite_differences(llama_config(), 0, &style);
    style = style_of(graph_of(gpt_config()));
    style.gelu = Activation::GeluExact;
    expect_finite_differences(gpt_config(), 0, &style);
    style = style_of(graph_of(bert_config()));
    style.gelu = Activation::GeluTanh;
    expect_finite_differences(bert_config(), 0, &style);
}

TEST(StageModule, StagesMakeNoDifference) {
    for (const ModelConfig& config : all_configs()) {
        const LayerGraph graph = graph_of(config);
        const Outcome whole = run_model(graph, plan_of(graph));
        // Tied tables of two stages are summed by gather_gradients, as the runtime's all-reduce does.
        expect_close(whole, run_model(graph, plan_of(graph, {2})), 1e-12, 1e-6);
        expect_close(whole, run_model(graph, plan_of(graph, {1, 3})), 1e-12, 1e-6);
    }
}

TEST(StageModule, TensorParallelRanksComputeTheSame) {
    for (const ModelConfig& config : all_configs()) {
        if (config.experts > 0) continue;
        const LayerGraph graph = graph_of(config);
        ParallelPlan plan = plan_of(graph);
        plan.vocab_divisor = 16;
        const Outcome one = run_model(graph, plan);
        for (const int tp : {2, 4}) {
            for (const bool sequence_parallel : {false, true}) {
                if (sequence_parallel && plan.seq_len * plan.microbatch % tp != 0) continue;
                plan.mesh.tp = tp;
                plan.sequence_parallel = sequence_parallel && plan.seq_len % tp == 0;
                SCOPED_TRACE(config.name + " tp " + std::to_string(tp));
                expect_close(one, run_model(graph, plan), 1e-6, 2e-5);
            }
        }
    }
}

TEST(StageModule, SequenceParallelRanksDropTheSameElements) {
    const LayerGraph graph = graph_of(gpt_config());
    ParallelPlan plan = plan_of(graph);
    plan.seq_len = 8;
    RunOptions options;
    options.dropout = 0.2;
    const Outcome one = run_model(graph, plan, options);
    EXPECT_NE(one.loss, run_model(graph, plan).loss);
    plan.mesh.tp = 2;
    expect_close(one, run_model(graph, plan, options), 1e-6, 2e-5);
    plan.sequence_parallel = true;
    expect_close(one, run_model(graph, plan, options), 1e-6, 2e-5);
}

TEST(StageModule, RecomputationIsBitEqual) {
    for (const ModelConfig& config : all_configs()) {
        const LayerGraph graph = graph_of(config);
        ParallelPlan plan = plan_of(graph);
        RunOptions options;
        options.dropout = 0.1;
        const Outcome kept = run_model(graph, plan, options);
        for (const RecomputeMode mode : {RecomputeMode::Selective, RecomputeMode::Full}) {
            for (const int layers : {-1, 1}) {
                plan.recompute = plan.stages[0].recompute = mode;
                plan.stages[0].recompute_layers = layers;
                const Outcome again = run_model(graph, plan, options);
                EXPECT_EQ(kept.loss, again.loss) << config.name;
                EXPECT_EQ(kept.gradients, again.gradients) << config.name;
            }
        }
    }
}

TEST(StageModule, SplitAndChunkedBackwardsAreBitEqual) {
    for (const ModelConfig& config : all_configs()) {
        const LayerGraph graph = graph_of(config);
        for (const std::vector<int>& cuts : {std::vector<int>{}, std::vector<int>{2}}) {
            const ParallelPlan plan = plan_of(graph, cuts);
            RunOptions options;
            options.dropout = 0.1;
            const Outcome whole = run_model(graph, plan, options);
            options.chunk = 1;
            EXPECT_EQ(whole.gradients, run_model(graph, plan, options).gradients) << config.name;
            options.split = true;
            EXPECT_EQ(whole.gradients, run_model(graph, plan, options).gradients) << config.name;
        }
    }
}

TEST(StageModule, SplitBackwardUnderSequenceParallelism) {
    const LayerGraph graph = graph_of(llama_config());
    ParallelPlan plan = plan_of(graph);
    plan.mesh.tp = 2;
    plan.sequence_parallel = true;
    const Outcome whole = run_model(graph, plan);
    RunOptions options;
    options.split = true;
    EXPECT_EQ(whole.gradients, run_model(graph, plan, options).gradients);
}

// Tokens of two ranks through experts that each hold half of: the same as each rank with all experts.
void expect_expert_parallel_ranks_to_compute_the_same(const ModelConfig& config) {
    const LayerGraph graph = graph_of(config);
    ParallelPlan plan = plan_of(graph);
    Whole expected;
    std::vector<double> losses(2);
    for (int part = 0; part < 2; ++part) {
        run_local_ranks(1, [&](Transport& transport) {
            Rig rig(graph, plan, 0, transport);
            const TokenBatch batch(plan.microbatch, plan.seq_len, graph.vocab, part * plan.microbatch);
            LossResult loss;
            rig.module->forward(0, batch.batch, {}, {}, &loss);
            rig.module->backward(0, {}, {}, 1, 0, graph.size());
            std::mutex mutex;
            gather_gradients(rig, expected, mutex);
            losses[static_cast<std::size_t>(part)] = loss.sum;
        });
    }
    plan.mesh.ep = 2;
    Whole got;
    std::mutex mutex;
    run_local_ranks(2, [&](Transport& transport) {
        Rig rig(graph, plan, 0, transport);
        const int part = transport.rank();
        const TokenBatch batch(plan.microbatch, plan.seq_len, graph.vocab, part * plan.microbatch);
        LossResult loss;
        rig.module->forward(0, batch.batch, {}, {}, &loss);
        rig.module->backward(0, {}, {}, 1, 0, graph.size());
        EXPECT_NEAR(loss.sum, losses[static_cast<std::size_t>(part)], 1e-6 * loss.sum);
        gather_gradients(rig, got, mutex);
    });
    ASSERT_EQ(expected.size(), got.size());
    for (const auto& [name, x] : expected) {
        for (std::size_t i = 0; i < x.size(); ++i)
            ASSERT_NEAR(x[i], got.at(name)[i], 2e-5 * (1e-2 + norm_of(x))) << name;
    }
}

TEST(StageModule, ExpertParallelRanksComputeTheSame) {
    for (const ModelConfig& config : {moe_config(), dropping_config()})
        expect_expert_parallel_ranks_to_compute_the_same(config);
}

// Under sequence parallelism each rank routes its own tokens, to experts of its own or of all ranks; how full
// an expert is when a sequence goes on, it knows from the ranks before it. Five samples: a sequence crosses
// from one rank to the next.
TEST(StageModule, ExpertsUnderSequenceParallelism) {
    for (const ModelConfig& config : {moe_config(), dropping_config()}) {
        const LayerGraph graph = graph_of(config);
        ParallelPlan plan = plan_of(graph);
        for (const int samples : {2, 5}) {
            plan.mesh = {};
            plan.microbatch = samples;
            const Outcome one = run_model(graph, plan);
            plan.mesh.tp = 2;
            plan.sequence_parallel = true;
            for (const int ep : {1, 2}) {
                plan.mesh.ep = ep;
                SCOPED_TRACE(config.name + ", " + std::to_string(samples) + " samples");
                expect_close(one, run_model(graph, plan), 1e-6, 2e-5);
            }
        }
    }
}

// Logits of one process, F32, row after row.
std::vector<float> logits_of(const ModelConfig& config, const Batch& batch) {
    const LayerGraph graph = graph_of(config);
    std::vector<float> logits;
    run_local_ranks(1, [&](Transport& transport) {
        Rig rig(graph, plan_of(graph), 0, transport);
        const Buffer buffer = rig.module->logits(0, batch, {});
        const Shape shape{batch.tokens.elements(), 64};
        const Tensor view = buffer.view(DType::F32, shape);
        logits.assign(view.as<float>(), view.as<float>() + shape.elements());
    });
    return logits;
}

// Experts with room for one token of a sequence take the first that chooses them: the first token of each
// sequence is computed as without a capacity, later ones lose experts, and none hears of a token behind it or
// of another sequence.
TEST(StageModule, ExpertsTakeTheFirstTokensOfASequence) {
    ModelConfig one_token = dropping_config();
    one_token.expert_capacity_factor = 1e-6;
    TokenBatch batch(2, 10, 61);
    // Products of another number of rows round differently.
    const auto difference = [](const std::vector<float>& a, const std::vector<float>& b, std::size_t row) {
        float most = 0;
        for (std::size_t i = 64 * row; i < 64 * (row + 1); ++i)
            most = std::max(most, std::abs(a[i] - b[i]));
        return most;
    };
    const std::vector<float> whole = logits_of(moe_config(), batch.batch);
    const std::vector<float> dropped = logits_of(one_token, batch.batch);
    for (const std::size_t first : {0U, 10U})
        EXPECT_LT(difference(whole, dropped, first), 1e-5F);
    for (const std::size_t later : {5U, 9U, 15U, 19U})
        EXPECT_GT(difference(whole, dropped, later), 1e-2F);
    // Room for all of a sequence: as without a capacity, to the last bit.
    ModelConfig roomy = dropping_config();
    roomy.expert_capacity_factor = 2;  // 4 experts, 2 a token: 10 tokens of 10
    EXPECT_EQ(logits_of(roomy, batch.batch), whole);

    batch.tokens[9] = (batch.tokens[9] + 1) % 61;  // the end of the first sequence
    const std::vector<float> changed = logits_of(one_token, batch.batch);
    for (std::size_t r = 0; r < 20; ++r) {
        if (r != 9) {
            EXPECT_LT(difference(dropped, changed, r), 1e-5F) << r;
        }
    }
    EXPECT_GT(difference(dropped, changed, 9), 1e-2F);
}

TEST(StageModule, Bf16StaysNearFp32) {
    for (const ModelConfig& config : {gpt_config(), llama_config(), moe_config()}) {
        const LayerGraph graph = graph_of(config);
        ParallelPlan plan = plan_of(graph);
        RunOptions options;
        options.weight_scale = 0.15;
        const Outcome exact = run_model(graph, plan, options);
        plan.precision.compute = plan.precision.parameters = Precision::Bf16;
        const Outcome rounded = run_model(graph, plan, options);
        // bf16 has 8 bits: each of about ten roundings in a row is off by 2^-9 at most.
        EXPECT_NEAR(rounded.loss, exact.loss, 0.02 * exact.loss) << config.name;
        if (config.experts > 0) continue;  // a rounded router may choose otherwise
        for (const auto& [name, x] : exact.gradients) {
            double difference = 0;
            for (std::size_t i = 0; i < x.size(); ++i)
                difference += std::pow(x[i] - rounded.gradients.at(name)[i], 2);
            EXPECT_LT(std::sqrt(difference), 0.08 * norm_of(x) + 1e-2) << config.name << " " << name;
        }
    }
}

TEST(StageModule, GradientsAddUpAndScale) {
    const LayerGraph graph = graph_of(gpt_config());
    const ParallelPlan plan = plan_of(graph);
    RunOptions options;
    options.grad_scale = 0.25;
    const Outcome scaled = run_model(graph, plan, options);
    const Outcome whole = run_model(graph, plan);
    for (const auto& [name, x] : whole.gradients) {
        for (std::size_t i = 0; i < x.size(); ++i)
            ASSERT_NEAR(scaled.gradients.at(name)[i], x[i] / 4, 1e-5 * (1e-2 + norm_of(x))) << name;
    }
}

TEST(StageModule, PaddingOfTheVocabularyHasNoGradient) {
    const LayerGraph graph = graph_of(gpt_config());
    ParallelPlan plan = plan_of(graph);
    plan.vocab_divisor = 64;
    const Outcome outcome = run_model(graph, plan);
    const auto& table = outcome.gradients.at("transformer.wte.weight");
    ASSERT_EQ(table.size(), 64U * 32U);
    for (std::size_t i = 61 * 32; i < table.size(); ++i)
        EXPECT_EQ(table[i], 0.0);
}

// Every kept byte is returned, and recomputation keeps less.
TEST(StageModule, MemoryComesBackAndRecomputationSavesIt) {
    const LayerGraph graph = graph_of(llama_config());
    ParallelPlan plan = plan_of(graph);
    std::map<RecomputeMode, std::size_t> kept;
    for (const RecomputeMode mode : {RecomputeMode::None, RecomputeMode::Selective, RecomputeMode::Full}) {
        plan.stages[0].recompute = mode;
        run_local_ranks(1, [&](Transport& transport) {
            Rig rig(graph, plan, 0, transport);
            const TokenBatch batch(plan.microbatch, plan.seq_len, graph.vocab);
            const std::size_t before = rig.backend->memory().current;
            LossResult loss;
            rig.module->forward(0, batch.batch, {}, {}, &loss);
            kept[mode] = rig.backend->memory().current - before;
            rig.module->backward(0, {}, {}, 1, 0, graph.size());
            EXPECT_EQ(rig.backend->memory().current, before);
        });
    }
    EXPECT_LT(kept[RecomputeMode::Full], kept[RecomputeMode::Selective]);
    EXPECT_LT(kept[RecomputeMode::Selective], kept[RecomputeMode::None]);
}

TEST(StageModule, HooksSurroundEveryLayer) {
    struct Recorder : LayerHooks {
        std::vector<std::string> calls;
        void before(int layer, Pass pass) override {
            calls.push_back("<" + std::to_string(layer) + "F" + std::to_string(static_cast<int>(pass)));
        }
        void after(int layer, Pass pass) override {
            calls.push_back(">" + std::to_string(layer) + "F" + std::to_string(static_cast<int>(pass)));
        }
    };
    const LayerGraph graph = graph_of(gpt_config());
    const ParallelPlan plan = plan_of(graph, {2});
    run_local_ranks(1, [&](Transport& transport) {
        Recorder recorder;
        Rig rig(graph, plan, 1, transport, 0, &recorder);
        const TokenBatch batch(plan.microbatch, plan.seq_len, graph.vocab);
        Buffer input = rig.backend->allocate(DType::F32, rig.module->input_shape(), MemoryUse::Activations);
        rig.backend->fill(input.view(DType::F32, rig.module->input_shape()), 0.5);
        Buffer gradient =
            rig.backend->allocate(DType::F32, rig.module->input_shape(), MemoryUse::Activations);
        LossResult loss;
        rig.module->forward(0, batch.batch, std::move(input), {}, &loss);
        rig.module->backward(0, {}, gradient.view(DType::F32, rig.module->input_shape()), 1, 0, 2);
        const std::vector<std::string> expected = {"<2F0", ">2F0", "<3F0", ">3F0",
                                                   "<3F3", ">3F3", "<2F3", ">2F3"};
        EXPECT_EQ(recorder.calls, expected);
        gradient.reset();
    });
}

TEST(StageModule, UnsupportedPartsAreNamed) {
    const LayerGraph graph = graph_of(gpt_config());
    ParallelPlan plan = plan_of(graph);
    EXPECT_TRUE(unsupported_by_layers(graph, plan).empty());
    plan.mesh.cp = 2;
    plan.precision.compute = Precision::Fp8;
    const Errors errors = unsupported_by_layers(graph, plan);
    ASSERT_EQ(errors.size(), 2U);
    EXPECT_EQ(errors[0].context, "/plan/mesh/cp");
    EXPECT_EQ(errors[1].context, "/plan/precision/compute");

    ModelConfig latent = llama_config();
    latent.family = "deepseek";
    latent.kv_heads = 0;
    latent.kv_lora_rank = 16;
    latent.qk_nope_head_dim = 8;
    latent.qk_rope_head_dim = 8;
    latent.v_head_dim = 8;
    const LayerGraph mla = graph_of(latent);
    const Errors refused = unsupported_by_layers(mla, plan_of(mla));
    ASSERT_FALSE(refused.empty());
    EXPECT_NE(refused[0].message.find("MLA"), std::string::npos);
    EXPECT_EQ(refused[0].context, "/model/block.0");
}

}  // namespace
}  // namespace tw::testing
