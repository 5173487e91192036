// Small models, clusters and plans for the tests of plans: layers without arithmetic, only what legality
// needs.
#pragma once

#include <string>
#include <vector>

#include "models/graph/layer_graph.hpp"
#include "models/hardware/cluster.hpp"
#include "plan/check_plan.hpp"
#include "plan/parallel_plan.hpp"
#include "plan/stage_partition.hpp"

namespace tw::testing {

class BareLayer final : public LayerModel {
  public:
    explicit BareLayer(std::vector<Divisibility> rules) : rules_(std::move(rules)) {}
    [[nodiscard]] LayerWork work(const WorkShape&) const override { return {}; }
    [[nodiscard]] std::int64_t parameters() const override { return 1; }
    [[nodiscard]] FlopCount model_flops(std::int64_t, std::int64_t, bool) const override {
        return FlopCount(0);
    }
    [[nodiscard]] std::vector<Divisibility> divisibility() const override { return rules_; }

  private:
    std::vector<Divisibility> rules_;
};

struct ModelShape {
    int blocks = 8;
    std::int64_t heads = 64, kv_heads = 64, ffn = 28672, experts = 0, hidden = 8192, vocab = 50257;
};

// embedding, blocks, head
inline LayerGraph make_model(const ModelShape& shape) {
    using Rule = LayerModel::Divisibility::Rule;
    LayerGraph graph;
    graph.name = "bare";
    graph.family = "test";
    graph.hidden = shape.hidden;
    graph.vocab = shape.vocab;
    graph.heads = shape.heads;
    graph.kv_heads = shape.kv_heads;
    graph.experts = shape.experts;
    graph.blocks = shape.blocks;
    std::vector<LayerModel::Divisibility> rules = {{"num_attention_heads", shape.heads, Rule::TpDivides},
                                                   {"intermediate_size", shape.ffn, Rule::TpDivides}};
    if (shape.kv_heads != shape.heads) {
        rules.push_back({"num_key_value_heads", shape.kv_heads, Rule::TpDividesOrMultiple});
    }
    if (shape.experts > 0) rules.push_back({"num_experts", shape.experts, Rule::EpDivides});
    const auto bare = std::make_shared<BareLayer>(std::vector<LayerModel::Divisibility>{});
    const auto block = std::make_shared<BareLayer>(rules);
    const auto add = [&](std::string name, LayerRole role, int layer_class,
                         std::shared_ptr<const LayerModel> model) {
        const auto vertex =
            boost::add_vertex(Layer{std::move(name), role, layer_class, std::move(model)}, graph.dag);
        if (vertex > 0)
            boost::add_edge(vertex - 1, vertex, TensorEdge{static_cast<double>(shape.hidden)}, graph.dag);
    };
    add("embedding", LayerRole::Embedding, 0, bare);
    for (int i = 0; i < shape.blocks; ++i)
        add("block." + std::to_string(i), LayerRole::Block, 1, block);
    add("head", LayerRole::Head, 2, bare);
    return graph;
}

inline Cluster make_cluster(int devices, int per_node = 8) {
    NodeGroup group;
    group.device.name = "h100";
    group.device.memory = Bytes(std::int64_t{80} << 30);
    group.device.peak_fp32 = FlopRate(67e12);
    group.device.peak_bf16 = group.device.peak_fp16 = FlopRate(989e12);
    group.device.peak_fp8 = FlopRate(1979e12);
    group.type.name = "node";
    group.type.device = "h100";
    group.type.devices = devices < per_node ? devices : per_node;
    group.nodes = devices / group.type.devices;
    Cluster cluster;
    cluster.name = "h100:" + std::to_string(devices);
    cluster.groups.push_back(group);
    return cluster;
}

// A plan whose dp, microbatches and stages follow from the rest; illegal where that does not divide.
inline ParallelPlan make_plan(const LayerGraph& graph, const Cluster& cluster, DeviceMesh mesh,
                              std::int64_t global_batch, std::int64_t microbatch = 1) {
    ParallelPlan plan;
    mesh.dp = std::max(1, cluster.devices() / (mesh.tp * mesh.pp * mesh.cp));
    plan.mesh = mesh;
    plan.stages = uniform_partition(graph, mesh.pp, RecomputeMode::None);
    plan.microbatch = microbatch;
    plan.global_batch = global_batch;
    plan.microbatches = std::max<std::int64_t>(1, global_batch / (microbatch * mesh.dp));
    return plan;
}

inline std::vector<StageSpec> stages_of(const LayerGraph& graph, const std::vector<int>& blocks) {
    auto stages = explicit_partition(graph, blocks, RecomputeMode::None);
    return *stages;
}

inline std::string text_of(const PlanCheck& check) {
    std::string text = to_string(check.errors);
    for (const std::string& warning : check.warnings)
        text += "\nwarning: " + warning;
    return text;
}

}  // namespace tw::testing
