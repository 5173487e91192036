#include "sim/cost/shape_cost.hpp"

#include <algorithm>
#include <bit>

#include "base/let_go.hpp"
#include "plan/frameworks/executor_work.hpp"
#include "plan/frameworks/framework.hpp"
#include "sim/cost/host_dispatch.hpp"
#include "sim/cost/one_thread.hpp"
#include "sim/memory/model_states.hpp"

namespace tw {
namespace {

std::vector<std::int64_t> flat(const ShapeKey& k) {
    std::vector<std::int64_t> key;
    key.reserve(160);
    const auto add = [&](auto v) { key.push_back(static_cast<std::int64_t>(v)); };
    const auto add_real = [&](double v) { key.push_back(std::bit_cast<std::int64_t>(v)); };
    const WorkShape& w = k.shape;
    add(w.microbatch);
    add(w.seq_len);
    add(w.tp);
    add(w.cp);
    add(w.ep);
    add(w.etp);
    add(w.sequence_parallel);
    add(w.cp_kind);
    add(w.expert_dispatch);
    add(w.precision);
    add(w.attention);
    add(w.dropout);
    add(w.fused_elementwise);
    add(w.autocast);
    add(w.gathered_parameters);
    add(w.composite_norms);
    add(w.norms_of_copies);
    add(w.grad_accumulation_fused);
    add(w.gradient_fp32);
    add(w.padded_vocab);
    add_real(w.expert_imbalance);
    add(w.by_op);
    add(w.modules.bits());
    for (const GroupPlacement* g :
         {&k.tp, &k.cp, &k.ep, &k.etp, &k.shard, &k.replica, &k.expert_shard, &k.expert_replica}) {
        add(g->size);
        add(g->nodes);
        add(g->per_node);
        add(g->pods);
        add_real(g->nic_share);
    }
    add(k.sharded.gathers_forward);
    add(k.sharded.gathers_backward);
    add(k.sharded.scatters);
    add(k.sharded.blocks);
    add(k.overlap_tp);
    add(k.launch_blocking);
    add_real(k.parameter_bytes);
    add(k.gradient_bytes);
    add_real(k.gather_copy_bytes);
    add_real(k.reduce_copy_bytes);
    add(k.node_group);
    add(k.host);
    add(k.host_extras.graphs_on_grace);
    add_real(k.host_extras.gradient_hook);
    add_real(k.host_extras.uninitialised);
    add(k.fsdp);
    add(k.own_executor);
    add(k.crowded);
    for (const auto& [axis, choice] : k.collectives) {
        for (const std::string* text : {&axis, &choice}) {
            for (const char c : *text)
                add(c);
            add(0);
        }
    }
    return key;
}

std::int64_t size_of(const ShapeCost& cost) {
    std::size_t bytes = sizeof(ShapeCost);
    for (const LayerWork& w : cost.works)
        bytes += sizeof(LayerWork) + w.saved.size() * (sizeof(SavedTensor) + 16);
    return static_cast<std::int64_t>(bytes + cost.layers.size() * 10 * sizeof(PhaseCost));
}

}  // namespace

namespace {

bool has_experts(const ShapeCost& cost, std::size_t layer_class) {
    return cost.works[layer_class].expert_parameters > 0;
}

// As layer_works; of layers without experts what `dense` has of them, where it is given.
std::vector<LayerWork> works_beside(const LayerGraph& graph, const WorkShape& shape, const ShapeCost* dense) {
    if (dense == nullptr) return layer_works(graph, shape);
    std::vector<LayerWork> works = dense->works;
    std::vector<bool> done(works.size(), false);
    for (int i = 0; i < graph.size(); ++i) {
        const auto c = static_cast<std::size_t>(graph.layer(i).layer_class);
        if (!done[c] && has_experts(*dense, c)) works[c] = graph.layer(i).model->work(shape);
        done[c] = true;
    }
    return works;
}

}  // namespace

ShapeKey shape_key(const LayerGraph& graph, const ParallelPlan& plan, const RankPlacement& placement,
                   int node_group) {
    ShapeKey key;
    key.shape = plan.work_shape(graph);
    if (plan.mesh.tp > 1) key.tp = placement.group({Axis::Tp});
    if (plan.mesh.cp > 1) key.cp = placement.group({Axis::Cp});
    if (plan.mesh.ep > 1) key.ep = placement.group({Axis::Ep});
    if (plan.mesh.etp > 1) key.etp = placement.group({Axis::Etp});
    key.sharded = sharded_layers(plan);
    if (key.sharded.any()) {
        const ShardRanks shard = zero_shard_ranks(plan);
        key.shard = placement.shard_group({Axis::Dp, Axis::Cp}, shard.dense);
        key.replica = placement.replica_group({Axis::Dp, Axis::Cp}, shard.dense);
        if (graph.experts > 0) {
            key.expert_shard = placement.shard_group({Axis::Edp}, shard.expert);
            key.expert_replica = placement.replica_group({Axis::Edp}, shard.expert);
        }
    }
    key.collectives = plan.collectives;
    key.overlap_tp = plan.overlap.tp;
    const FrameworkDefaults& defaults = framework_defaults(plan.framework);
    key.launch_blocking = defaults.launch_blocking;
    key.gather_copy_bytes = defaults.gather_copy_bytes;
    key.reduce_copy_bytes = defaults.reduce_copy_bytes;
    key.parameter_bytes = gathered_parameter_bytes(plan);
    key.gradient_bytes = static_cast<int>(bytes_per_element(plan.precision.gradient_reduce));
    key.node_group = node_group;
    key.host = defaults.host;
    key.host_extras = defaults.host_extras;
    key.fsdp = defaults.fsdp;
    key.own_executor = defaults.own_executor;
    key.crowded = placement.world() > 1;
    return key;
}

std::shared_ptr<const ShapeCost> ShapeCostCache::get(const Environment& environment, const ShapeKey& key) {
    std::vector<std::int64_t> flat_key = flat(key);
    flat_key.push_back(std::bit_cast<std::int64_t>(environment.cluster.oversubscription));
    if (auto known = shapes_.find(flat_key); known && known->shape == key.shape) return known;
    CostContext context;
    context.profile = &environment.profile(key.node_group);
    context.node = &environment.node_group(key.node_group).type;
    context.multiprocessors = environment.node_group(key.node_group).device.sms;
    context.tp = key.tp;
    context.cp = key.cp;
    context.ep = key.ep;
    context.etp = key.etp;
    context.host = key.host;
    context.host_extras = key.host_extras;
    const std::string& device = environment.node_group(key.node_group).device.name;
    context.dispatch_s = environment.dispatch_s * dispatch_share(key.host, device);
    context.host_extras.graphs_on_grace &= device.rfind("gb", 0) == 0 || device.rfind("gh", 0) == 0;
    context.collectives = AxisCollectives(key.collectives);
    context.free_axes = environment.free_axes;
    context.overlap_tp = key.overlap_tp;
    context.launch_blocking = key.launch_blocking;
    context.replicas_beside = key.fsdp;
    context.gather_copy_bytes = key.gather_copy_bytes;
    context.reduce_copy_bytes = key.reduce_copy_bytes;
    context.sharded = key.sharded;
    context.shard = key.shard;
    context.replica = key.replica;
    context.expert_shard = key.expert_shard;
    context.expert_replica = key.expert_replica;
    context.oversubscription = environment.cluster.oversubscription;
    context.parameter_bytes = key.parameter_bytes;
    context.gradient_bytes = key.gradient_bytes;
    auto cost = std::make_shared<ShapeCost>();
    cost->shape = key.shape;
    cost->executor = key.own_executor && runs_on_processors(environment.node_group(key.node_group).device);
    if (key.own_executor && key.sharded.scatters) {
        // Each layer's whole gradient is cleared before its backward, its shard added after
        // (real_exec/runtime/layer_sharding.cpp).
        context.reduce_copy_bytes = 4 + 12.0 / std::max(1, key.shard.size);
    }
    // Layers without experts are those of the same shape without expert parallel: a search asks for them
    // under many degrees of it.
    std::shared_ptr<const ShapeCost> dense;
    if (environment.graph.experts > 0 && (key.shape.ep > 1 || key.shape.etp > 1) && !key.sharded.any() &&
        !cost->executor) {
        ShapeKey without = key;
        without.shape.ep = without.shape.etp = 1;
        without.ep = without.etp = {};
        dense = get(environment, without);
    }
    if (cost->executor) {
        context.one_thread = one_thread(*context.profile, key.crowded);
        for (ExecutorLayer& layer : executor_layers(environment.graph, key.shape)) {
            cost->works.push_back(std::move(layer.work));
            cost->kept_for_weight_bytes.push_back(layer.kept_for_weight_bytes);
            cost->split_transient_bytes.push_back(layer.split_transient_bytes);
        }
    } else {
        cost->works = works_beside(environment.graph, key.shape, dense.get());
    }
    for (LayerWork& work : cost->works) {
        const std::size_t c = cost->layers.size();
        if (dense && !has_experts(*dense, c)) {
            cost->layers.push_back(dense->layers[c]);
            cost->parameter_tensors.push_back(dense->parameter_tensors[c]);
            cost->weight_gradient_bytes.push_back(dense->weight_gradient_bytes[c]);
            continue;
        }
        cost->layers.emplace_back(work, context);
        cost->parameter_tensors.push_back(layer_host(work, key.host).parameter_tensors);
        cost->weight_gradient_bytes.push_back(weight_gradient_bytes(work));
        let_go(work.forward);
        let_go(work.backward);
        if (work.by_op) let_go(work.by_op->again);
        work.saved.shrink_to_fit();
    }
    std::shared_ptr<const ShapeCost> result = std::move(cost);
    shapes_.add(std::move(flat_key), result, size_of(*result));
    return result;
}

namespace {

// Of tables with `parameters` in all, padded and split.
double local_table(const LayerGraph& graph, const WorkShape& shape, std::int64_t parameters) {
    const auto rows = static_cast<double>(shape.padded_vocab > 0 ? shape.padded_vocab : graph.vocab);
    return rows * static_cast<double>(parameters / graph.vocab) / shape.tp;
}

}  // namespace

double shared_table_parameters(const LayerGraph& graph, const WorkShape& shape) {
    if (!graph.tied_embeddings || graph.vocab <= 0) return 0;
    return local_table(graph, shape, graph.tied_parameters);
}

double mtp_table_parameters(const LayerGraph& graph, const StageSpec& stage, const WorkShape& shape) {
    if (graph.mtp_table_parameters == 0 || graph.vocab <= 0) return 0;
    bool looks_up = false, holds = false;
    for (int i = stage.first_layer; i < stage.last_layer; ++i) {
        const LayerRole role = graph.layer(i).role;
        looks_up |= role == LayerRole::Other;
        holds |= role == LayerRole::Embedding || (role == LayerRole::Head && graph.tied_embeddings);
    }
    return looks_up && !holds ? local_table(graph, shape, graph.mtp_table_parameters) : 0;
}

RankPlacement place_plan(const Cluster& cluster, const ParallelPlan& plan) {
    auto order = parse_rank_order(plan.rank_order);
    TW_CHECK(order.has_value());
    MeshDegrees degrees;
    degrees.tp = plan.mesh.tp;
    degrees.cp = plan.mesh.cp;
    degrees.dp = plan.mesh.dp;
    degrees.pp = plan.mesh.pp;
    degrees.ep = plan.mesh.ep;
    degrees.etp = plan.mesh.etp;
    auto placement = RankPlacement::make(cluster, *order, degrees);
    TW_CHECK(placement.has_value());
    return std::move(*placement);
}

}  // namespace tw
