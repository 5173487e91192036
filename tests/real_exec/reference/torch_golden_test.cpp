// The executor's models against what PyTorch made of the same weights (tests/reference/torch_reference.py):
// logits, and the losses of 20 AdamW steps on another batch each.
#include <fstream>
#include <sstream>

#include "base/json.hpp"
#include "tests/real_exec/layers/module_harness.hpp"

namespace tw::testing {
namespace {

ModelConfig resized(ModelConfig c) {
    c.hidden = 64;
    c.vocab = 97;
    c.seq_len = 24;
    if (c.ffn != 0) c.ffn = c.family == "gpt" || c.family == "bert" ? 128 : 96;
    if (c.experts > 0) c.expert_ffn = 48;
    return c;
}

struct Golden {
    std::vector<double> logits, losses;
};

Golden read_golden(const std::string& name) {
    const std::string path = std::string(TW_SOURCE_DIR) + "/tests/reference/golden/" + name + ".json";
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    const Json json = Json::parse(text.str());
    return {json["logits"].get<std::vector<double>>(), json["losses"].get<std::vector<double>>()};
}

void train_step(Rig& rig, std::vector<Buffer>& states, std::int64_t step) {
    std::size_t i = 0;
    for (const Parameter& p : rig.module->parameters()) {
        if (states.size() <= i + 1) {
            for (int k = 0; k < 2; ++k) {
                states.push_back(rig.backend->allocate(DType::F32, p.shape, MemoryUse::OptimizerStates));
                rig.backend->fill(states.back().view(DType::F32, p.shape), 0);
            }
        }
        AdamSpec spec;
        spec.lr = 1e-3;
        spec.beta2 = 0.95;
        spec.weight_decay = p.decay ? 0.1 : 0;
        spec.step = step;
        rig.backend->adamw(p.value, {}, p.grad, states[i].view(DType::F32, p.shape),
                           states[i + 1].view(DType::F32, p.shape), spec);
        i += 2;
    }
}

void compare_with_torch(const ModelConfig& config, const std::string& name) {
    const Golden golden = read_golden(name);
    ASSERT_EQ(golden.losses.size(), 20U);
    const LayerGraph graph = graph_of(config);
    ParallelPlan plan = plan_of(graph);
    plan.microbatch = 4;
    plan.seq_len = 24;
    const auto transports = local_transports(1);
    Rig rig(graph, plan, 0, *transports[0], 0, nullptr, 0.12);
    const std::int64_t rows = plan.microbatch * plan.seq_len;
    {
        const TokenBatch batch(plan.microbatch, plan.seq_len, graph.vocab);
        const Buffer logits = rig.module->logits(0, batch.batch, {});
        const auto* values = static_cast<const float*>(logits.data());
        const std::int64_t width = static_cast<std::int64_t>(logits.bytes() / sizeof(float)) / rows;
        for (std::int64_t sample = 0; sample < plan.microbatch; ++sample) {
            const std::int64_t last = (sample + 1) * plan.seq_len - 1;
            for (std::int64_t v = 0; v < graph.vocab; ++v)
                ASSERT_NEAR(static_cast<double>(values[last * width + v]),
                            golden.logits[static_cast<std::size_t>(sample * graph.vocab + v)], 1e-4);
        }
    }
    std::vector<Buffer> states;
    for (std::size_t step = 0; step < golden.losses.size(); ++step) {
        const TokenBatch batch(plan.microbatch, plan.seq_len, graph.vocab,
                               static_cast<std::int64_t>(step) * plan.microbatch);
        LossResult loss;
        rig.zero_gradients();
        rig.module->forward(0, batch.batch, {}, {}, &loss);
        const auto count = static_cast<double>(loss.count);
        EXPECT_NEAR(loss.sum / count, golden.losses[step], 1e-3) << name << " step " << step;
        rig.module->backward(0, {}, {}, 1 / count, 0, graph.size());
        train_step(rig, states, static_cast<std::int64_t>(step) + 1);
    }
}

TEST(TorchGolden, Gpt) {
    compare_with_torch(resized(gpt_config()), "gpt");
}
TEST(TorchGolden, Llama) {
    compare_with_torch(resized(llama_config()), "llama");
}
TEST(TorchGolden, MixtureOfExperts) {
    compare_with_torch(resized(moe_config()), "moe");
}
TEST(TorchGolden, Bert) {
    compare_with_torch(resized(bert_config()), "bert");
}

}  // namespace
}  // namespace tw::testing
