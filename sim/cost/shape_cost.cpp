#include "sim/cost/shape_cost.hpp"

#include "base/prng.hpp"

namespace tw {
namespace {

std::uint64_t hash_of(const ShapeKey& k) {
    std::uint64_t h = 0;
    const auto add = [&](auto v) { h = mix64(h + static_cast<std::uint64_t>(v) + 0x9e3779b97f4a7c15ULL); };
    add(k.shape.microbatch);
    add(k.shape.seq_len);
    add(k.shape.tp);
    add(k.shape.cp);
    add(k.shape.ep);
    add(k.shape.etp);
    add(k.shape.sequence_parallel);
    add(k.shape.precision);
    add(k.shape.attention);
    for (const GroupPlacement* g : {&k.tp, &k.cp, &k.ep, &k.etp, &k.shard, &k.replica}) {
        add(g->size);
        add(g->nodes);
        add(g->nic_share * 64);
    }
    add(k.zero3);
    add(k.overlap_tp);
    add(k.node_group);
    return h;
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
    key.zero3 = plan.zero_stage == 3;
    if (key.zero3) {
        const int group = plan.mesh.dp * plan.mesh.cp;
        const int shard = plan.zero_shard > 0 ? plan.zero_shard : group;
        key.shard = placement.shard_group({Axis::Dp, Axis::Cp}, shard);
        key.replica = placement.replica_group({Axis::Dp, Axis::Cp}, shard);
        if (graph.experts > 0) key.expert_shard = placement.group({Axis::Edp});
    }
    key.overlap_tp = plan.overlap.tp;
    // FSDP gathers in the compute precision (mixed_precision.param_dtype), whatever it stores.
    key.parameter_bytes = bytes_per_element(plan.precision.compute);
    key.gradient_bytes = bytes_per_element(plan.precision.gradient_reduce);
    key.node_group = node_group;
    return key;
}

std::shared_ptr<const ShapeCost> ShapeCostCache::get(const Environment& environment, const ShapeKey& key) {
    const std::uint64_t hash = hash_of(key);
    {
        const std::lock_guard lock(mutex_);
        for (auto [it, end] = entries_.equal_range(hash); it != end; ++it) {
            if (it->second.first == key) return it->second.second;
        }
    }
    CostContext context;
    context.profile = &environment.profile(key.node_group);
    context.node = &environment.node_group(key.node_group).type;
    context.tp = key.tp;
    context.cp = key.cp;
    context.ep = key.ep;
    context.etp = key.etp;
    context.dispatch_s = environment.dispatch_s;
    context.overlap_tp = key.overlap_tp;
    context.zero3 = key.zero3;
    context.shard = key.shard;
    context.replica = key.replica;
    context.expert_shard = key.expert_shard;
    context.parameter_bytes = key.parameter_bytes;
    context.gradient_bytes = key.gradient_bytes;
    auto cost = std::make_shared<ShapeCost>();
    cost->shape = key.shape;
    cost->works = layer_works(environment.graph, key.shape);
    for (const LayerWork& work : cost->works)
        cost->layers.emplace_back(work, context);
    const std::lock_guard lock(mutex_);
    entries_.emplace(hash, std::pair{key, cost});
    return cost;
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
