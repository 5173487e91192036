// The models of torchtitan's releases with TOML configurations (up to v0.2.2): torchtitan/models, and what
// the TrainSpec in each __init__.py and each README say of pipelines and context parallelism. flux makes
// images.
#include <array>

#include <fmt/format.h>

#include "plan/rules/framework_limits.hpp"

namespace tw {
namespace {

// Queries, keys and values of all heads, without biases and sinks.
bool plain_attention(const AttentionSpec& a, QkNormKind norm) {
    return a.kv_rank == 0 && a.qk_norm == norm && !a.qkv_bias && !a.out_bias && !a.sinks;
}

bool llama3(const BlockSpec& b) {
    return llama_like(b) && plain_attention(b.attention, QkNormKind::None) && b.attention.window == 0 &&
           !b.moe;
}

// Every mixture has a shared expert; three of four layers attend in chunks, described as windows.
bool llama4(const BlockSpec& b) {
    return llama_like(b) && plain_attention(b.attention, QkNormKind::None) && (!b.moe || b.moe->shared);
}

bool qwen3(const BlockSpec& b) {
    return llama_like(b) && plain_attention(b.attention, QkNormKind::PerHead) && b.attention.window == 0 &&
           (!b.moe || !b.moe->shared);
}

bool deepseek_v3(const BlockSpec& b) {
    return llama_like(b) && b.attention.kv_rank > 0;
}

bool gpt_oss(const BlockSpec& b) {
    return llama_like(b) && b.attention.sinks && b.moe && b.moe->expert.bias;
}

struct Model {
    std::string_view name;
    bool (*block)(const BlockSpec&);  // every block is such
    bool experts = false;             // some block has them
    bool pipeline = true;             // TrainSpec's pipelining_fn
    bool context = true;              // context parallelism
};

constexpr std::array kModels = {
    Model{"llama3", llama3},
    Model{"llama4", llama4, true},
    Model{"qwen3", qwen3, false, false, false},
    Model{"deepseek_v3", deepseek_v3},
    Model{"gpt_oss", gpt_oss, true, false, false},
};

const Model* model_of(const LayerGraph& graph) {
    for (const Model& model : kModels) {
        const bool other = any_block(graph, [&](const BlockSpec& block) { return !model.block(block); });
        if (!other && (graph.experts > 0 || !model.experts)) return &model;
    }
    return nullptr;
}

}  // namespace

void only_torchtitan_models(const RuleContext& context, PlanCheck& check) {
    const Model* model = model_of(context.graph);
    if (model == nullptr) {
        std::string names;
        for (const Model& known : kModels)
            names += fmt::format("{}{}", names.empty() ? "" : ", ", known.name);
        check.errors.push_back(
            {ErrorCode::Unreadable,
             fmt::format("torchtitan up to v0.2.2 has the models {}: {} is like none of them", names,
                         context.graph.name),
             "model", "a plan for trainwright or deepspeed"});
        return;
    }
    if (context.plan.mesh.pp > 1 && !model->pipeline) {
        refuse(context, check, PlanKnob::Pp, fmt::format("torchtitan has no pipeline for {}", model->name),
               "pp 1");
    }
    if (context.plan.mesh.cp > 1 && !model->context) {
        refuse(context, check, PlanKnob::Cp,
               fmt::format("torchtitan has no context parallelism for {}", model->name), "cp 1");
    }
}

}  // namespace tw
