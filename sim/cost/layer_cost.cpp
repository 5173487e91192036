#include "sim/cost/layer_cost.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "models/hardware/scatter.hpp"
#include "sim/collectives/collective_cost.hpp"
#include "sim/collectives/multiprocessors.hpp"
#include "sim/cost/host_dispatch.hpp"
#include "sim/cost/node_spread.hpp"

namespace tw {
namespace {

const GroupPlacement& placement(const CostContext& c, Axis axis) {
    switch (axis) {
        case Axis::Cp:
            return c.cp;
        case Axis::Ep:
            return c.ep;
        case Axis::Etp:
            return c.etp;
        default:
            return c.tp;
    }
}

OpCost collective(const CostContext& c, Axis axis, CollectiveKind kind, double bytes,
                  const GroupPlacement& group) {
    OpCost cost;
    if (group.size <= 1 || bytes <= 0) return cost;
    CollectiveOptions options = c.collectives.of(axis);
    options.oversubscription = group.pods > 1 ? c.oversubscription : 1.0;
    const CollectiveCost estimate = collective_cost(kind, bytes, group, *c.node, c.profile, options);
    cost.seconds = estimate.seconds;
    cost.sigma_s = estimate.seconds * estimate.relative_sigma;
    cost.source = group.nodes > 1 ? ErrorSource::InterNode : ErrorSource::IntraNode;
    cost.algorithm = estimate.algorithm;
    cost.out_of_range = estimate.out_of_range;
    cost.time = to_sim_time(Seconds(cost.seconds));
    cost.taken =
        to_sim_time(Seconds(cost.seconds * multiprocessor_share(kind, group, *c.node, c.multiprocessors)));
    return cost;
}

// The messages between nodes, and beside them the copies over one node's links, which the slower of them
// hides: DeepEP's kernels forward what has come while the rest comes.
OpCost exchange(const CostContext& c, const CollectiveOp& call) {
    const GroupPlacement& group = c.ep;
    if (call.spread.copies == 0 || group.nodes <= 1)
        return collective(c, call.axis, call.kind, call.bytes, group);
    const double share = share_between_nodes(call.spread, group.nodes);
    OpCost between = collective(c, call.axis, call.kind, share * call.bytes, group);
    GroupPlacement node = group;
    node.size = node.per_node;
    node.nodes = node.pods = 1;
    OpCost within = collective(c, call.axis, call.kind, call.bytes, node);
    OpCost cost = between.seconds >= within.seconds ? between : within;
    cost.sent_share = share;
    return cost;
}

ErrorSource source_of(const Op& op) {
    if (std::holds_alternative<Attention>(op.body)) return ErrorSource::Attention;
    const auto* memory = std::get_if<MemoryOp>(&op.body);
    if (memory == nullptr) return ErrorSource::Gemm;
    switch (memory->kind) {
        case MemoryOpKind::Softmax:
        case MemoryOpKind::Dropout:
        case MemoryOpKind::BiasDropoutAdd:
            return ErrorSource::Softmax;
        case MemoryOpKind::CrossEntropy:
        case MemoryOpKind::Optimizer:
            return ErrorSource::Update;
        default:
            return ErrorSource::Memory;
    }
}

double slowdown(const OneThread& thread, const Op& op) {
    if (std::holds_alternative<Gemm>(op.body) || std::holds_alternative<Convolution>(op.body))
        return thread.products;
    return std::holds_alternative<Attention>(op.body) ? thread.attention : thread.memory;
}

OpCost op_cost(const CostContext& c, const Op& op, double dispatches) {
    OpCost cost;
    if (const auto* call = std::get_if<CollectiveOp>(&op.body)) {
        if (!c.free_axes.has(call->axis)) {
            cost = call->axis == Axis::Ep
                       ? exchange(c, *call)
                       : collective(c, call->axis, call->kind, call->bytes, placement(c, call->axis));
        }
    } else {
        const KernelEstimate estimate = kernel_time(*c.profile, op);
        cost.seconds = estimate.seconds * (c.one_thread ? slowdown(*c.one_thread, op) : 1);
        const double scatter = std::min(estimate.sigma, kernel_scatter(*c.profile, op));
        cost.scatter_s = cost.seconds * scatter;
        cost.sigma_s =
            cost.seconds * std::sqrt(std::max(0.0, estimate.sigma * estimate.sigma - scatter * scatter));
        if (c.one_thread) cost.seconds += c.one_thread->operation_s;
        cost.out_of_range = estimate.out_of_range;
        cost.source = source_of(op);
        cost.time = to_sim_time(Seconds(cost.seconds));
    }
    if (!c.one_thread) cost.host = to_sim_time(Seconds(dispatches * c.dispatch_s));
    return cost;
}

bool is_product(const Op& op) {
    return std::holds_alternative<Gemm>(op.body);
}

// The shards' collectives pass the ports of those that compute waits for: both stay inside a node, or both
// leave it. They share the ports' rate, so that taking turns ends as late as running beside each other.
bool shares_ports(const CostContext& c) {
    const bool leaves = std::max(c.shard.nodes, c.expert_shard.nodes) > 1;
    const std::array groups = {&c.tp, &c.cp, &c.ep, &c.etp};
    return std::any_of(groups.begin(), groups.end(), [&](const GroupPlacement* group) {
        return group->size > 1 && (group->nodes > 1) == leaves;
    });
}

// Adds ops to a PhaseCost one after the other.
class PhaseBuilder {
  public:
    explicit PhaseBuilder(const CostContext& context)
        : context_(context),
          shard_(context.one_thread || shares_ports(context) ? CostStream::Comm : CostStream::Shard) {}

    void add(const Op& op, const OpCost& cost, bool recomputed) {
        auto& host = phase_.matrix.row(CostStream::Host);
        auto& compute = phase_.matrix.row(CostStream::Compute);
        auto& comm = phase_.matrix.row(CostStream::Comm);
        if (host_waits_for_device(op, context_.host)) host = max_rows(host, compute);
        host = add_to_row(host, cost.host);
        phase_.dispatch_s += to_seconds(cost.host).value;
        phase_.uncertainty.add(cost.source, cost.sigma_s, cost.scatter_s);
        phase_.out_of_range |= cost.out_of_range;
        // A backward starts when what its checkpoint ran again has ended, exchanges beside the core included.
        if (op.joins || (recomputed_before_ && !recomputed)) compute = max_rows(compute, comm);
        recomputed_before_ = recomputed;
        if (const auto* call = std::get_if<CollectiveOp>(&op.body)) {
            const bool inside = context_.overlap_tp && overlaps_product(op);
            const bool gather = inside && call->kind == CollectiveKind::AllGather;
            const bool scatter = inside && !gather && after_product_;
            const bool beside = call->overlaps || gather || scatter;
            if (scatter) {
                // Its chunks leave while the product makes the next ones; what follows reads all of them.
                comm = max_rows(add_to_row(max_rows(comm, product_start_), cost.time), compute);
                comm = max_rows(comm, host);
                compute = comm;
            } else {
                comm = add_to_row(max_rows(max_rows(comm, compute), host), cost.time);
                if (!beside) compute = comm;
            }
            // Userbuffers' rings hold one multiprocessor (Transformer Engine, module/base.py: num_sm).
            if (call->overlaps) compute = add_to_row(compute, cost.taken);
            if (gather) join_after_product_ = true;
            after_product_ = false;
            count(axis_of(call->axis), cost, call->bytes * cost.sent_share, !beside);
            if (context_.launch_blocking) host = max_rows(host, comm);
        } else {
            compute = max_rows(compute, host);
            after_product_ = is_product(op);
            if (after_product_) product_start_ = compute;
            compute = add_to_row(compute, cost.time);
            phase_.kernel_s += cost.seconds;
            if (recomputed) {
                phase_.recompute_s += cost.seconds;
                if (!std::holds_alternative<MemoryOp>(op.body)) phase_.recompute_flops += op_flops(op).value;
            }
            if (join_after_product_ && after_product_) {
                compute = max_rows(compute, comm);
                join_after_product_ = false;
            }
            if (context_.launch_blocking) host = max_rows(host, compute);
        }
    }

    // The host alone.
    void dispatch(SimTime host_time) {
        auto& host = phase_.matrix.row(CostStream::Host);
        host = add_to_row(host, host_time);
        phase_.dispatch_s += to_seconds(host_time).value;
    }

    // A gather that needs nothing from compute. Compute waits for it after arrive().
    void prefetch(const OpCost& cost, double bytes) {
        auto& host = phase_.matrix.row(CostStream::Host);
        auto& shard = phase_.matrix.row(shard_);
        if (context_.one_thread) shard = max_rows(shard, phase_.matrix.row(CostStream::Compute));
        shard = add_to_row(max_rows(shard, host), cost.time);
        gathered_ = shard;
        auto& compute = phase_.matrix.row(CostStream::Compute);
        compute = add_to_row(compute, cost.taken);
        phase_.uncertainty.add(cost.source, cost.sigma_s, cost.scatter_s);
        count(phase_.dp, cost, bytes, false);
    }

    void arrive() {
        auto& compute = phase_.matrix.row(CostStream::Compute);
        compute = max_rows(compute, gathered_);
    }

    void kernel(const OpCost& cost) {
        auto& compute = phase_.matrix.row(CostStream::Compute);
        compute = add_to_row(compute, cost.time);
        phase_.kernel_s += cost.seconds;
        phase_.uncertainty.add(cost.source, cost.sigma_s, cost.scatter_s);
    }

    // A reduction of what compute has just made; nothing in this stage waits for it, unless it runs on the
    // stream that computes.
    void release(const OpCost& cost, double bytes) {
        auto& shard = phase_.matrix.row(shard_);
        auto& compute = phase_.matrix.row(CostStream::Compute);
        shard = add_to_row(max_rows(shard, compute), cost.time);
        const bool blocks = context_.sharded.blocks;
        compute = context_.one_thread || blocks ? shard : add_to_row(compute, cost.taken);
        phase_.uncertainty.add(cost.source, cost.sigma_s, cost.scatter_s);
        count(phase_.dp, cost, bytes, blocks);
    }

    [[nodiscard]] PhaseCost take() { return phase_; }

  private:
    PhaseCost::Communication& axis_of(Axis axis) {
        if (axis == Axis::Cp) return phase_.cp;
        return axis == Axis::Ep || axis == Axis::Etp ? phase_.ep : phase_.tp;
    }
    static void count(PhaseCost::Communication& c, const OpCost& cost, double bytes, bool blocking) {
        PhaseCost::Communication one;
        one.total_s = one.longest_s = cost.seconds;
        one.blocking_s = blocking ? cost.seconds : 0;
        one.bytes = bytes;
        one.algorithm = cost.algorithm;
        c.add(one, 1);
    }

    const CostContext& context_;
    // Of gathers and reductions over replicas. One thread makes all collectives in turn.
    CostStream shard_;
    PhaseCost phase_;
    MaxPlus::Row gathered_ = phase_.matrix.row(shard_);
    MaxPlus::Row product_start_ = phase_.matrix.row(CostStream::Compute);
    bool after_product_ = false;       // the last operation was a product, which began at product_start_
    bool join_after_product_ = false;  // of a gather beside it
    bool recomputed_before_ = false;   // the last operation ran again
};

}  // namespace

bool overlaps_product(const Op& op) {
    const auto* call = std::get_if<CollectiveOp>(&op.body);
    return call != nullptr && call->axis == Axis::Tp && !call->overlaps &&
           (call->kind == CollectiveKind::AllGather || call->kind == CollectiveKind::ReduceScatter) &&
           (op.name.rfind("attn.", 0) == 0 || op.name.rfind("xattn.", 0) == 0 ||
            op.name.rfind("mlp.", 0) == 0);
}

LayerCost::LayerCost(const LayerWork& work, const CostContext& context) {
    const std::vector<Op> none;
    const std::vector<Op>& by_op = work.by_op ? work.by_op->again : none;
    std::vector<OpCost> forward(work.forward.size()), backward(work.backward.size()), again(by_op.size());
    const LayerHost dispatches = layer_host(work, context.host, context.host_extras);
    for (std::size_t i = 0; i < again.size(); ++i)
        again[i] = op_cost(context, by_op[i], forward_dispatches(work, by_op[i], context.host));
    for (std::size_t i = 0; i < forward.size(); ++i)
        forward[i] = op_cost(context, work.forward[i], dispatches.forward[i]);
    for (std::size_t i = 0; i < backward.size(); ++i)
        backward[i] = op_cost(context, work.backward[i], dispatches.backward[i]);

    const double dense = static_cast<double>(work.dense_parameters);
    const double expert = static_cast<double>(work.expert_parameters);
    OpCost gather, gather_expert, scatter, scatter_expert, reduce, reduce_expert;
    const bool scatters = context.sharded.scatters;
    if (context.sharded.any() && !context.free_axes.has(Axis::Dp)) {
        const auto over = [&](Axis axis, CollectiveKind kind, double bytes, const GroupPlacement& group) {
            return collective(context, axis, kind, bytes, group);
        };
        gather = over(Axis::Dp, CollectiveKind::AllGather, dense * context.parameter_bytes, context.shard);
        scatter =
            over(Axis::Dp, CollectiveKind::ReduceScatter, dense * context.gradient_bytes, context.shard);
        reduce = over(Axis::Dp, CollectiveKind::AllReduce,
                      dense * context.gradient_bytes / std::max(1, context.shard.size), context.replica);
        gather_expert = over(Axis::Edp, CollectiveKind::AllGather, expert * context.parameter_bytes,
                             context.expert_shard);
        scatter_expert = over(Axis::Edp, CollectiveKind::ReduceScatter, expert * context.gradient_bytes,
                              context.expert_shard);
        reduce_expert = over(Axis::Edp, CollectiveKind::AllReduce,
                             expert * context.gradient_bytes / std::max(1, context.expert_shard.size),
                             context.expert_replica);
        // HSDP reduces shards over their copies on a stream of its own (torch/distributed/fsdp/_fully_shard:
        // FSDPCommContext.all_reduce_stream), over the network while gathers and scatters of other layers run
        // over the links inside nodes: of a layer's two lanes the longer one counts.
        if (context.replicas_beside && context.shard.nodes == 1 && context.replica.nodes > 1) {
            SimTime inside = scatter.time + scatter_expert.time;
            if (context.sharded.gathers_backward) inside += gather.time + gather_expert.time;
            for (OpCost* outside : {&reduce, &reduce_expert}) {
                const SimTime hidden = std::min(outside->time, inside);
                outside->time -= hidden;
                inside -= hidden;
            }
        }
    }

    const auto copy = [&](double bytes_each) {
        Op op;
        op.body = MemoryOp{MemoryOpKind::Copy, bytes_each * (dense + expert)};
        return bytes_each > 0 && context.sharded.any() ? op_cost(context, op, 0) : OpCost{};
    };
    const OpCost copy_out = copy(context.gather_copy_bytes), copy_in = copy(context.reduce_copy_bytes);
    phases_.reserve(9 + (work.by_op ? 2 : 0) + (work.modules.any() ? 2 : 0));
    const auto cost_of = [&](const Op& op) -> const OpCost& {
        const auto in = [&](const std::vector<Op>& ops) {
            return &op >= ops.data() && &op < ops.data() + ops.size();
        };
        if (in(work.forward)) return forward[static_cast<std::size_t>(&op - work.forward.data())];
        if (in(by_op)) return again[static_cast<std::size_t>(&op - by_op.data())];
        return backward[static_cast<std::size_t>(&op - work.backward.data())];
    };
    const auto place_of = [&](RecomputeMode mode, Opcode opcode) -> std::uint8_t& {
        return places_[static_cast<std::size_t>(mode) * kOpcodes + static_cast<std::size_t>(opcode)];
    };
    for (const RecomputeMode mode : kRecomputeModes) {
        // A layer that is recomputed neither by operation nor by module runs as it is.
        const bool as_it_is = (mode == RecomputeMode::SelectiveOps && !work.by_op) ||
                              (mode == RecomputeMode::Modules && !work.modules.any());
        for (const Opcode opcode :
             {Opcode::Forward, Opcode::Backward, Opcode::BackwardInput, Opcode::BackwardWeight}) {
            const bool recomputes = opcode == Opcode::Backward || opcode == Opcode::BackwardInput;
            const bool skips = mode == RecomputeMode::Full && opcode != Opcode::Forward;  // unless_recomputed
            if (mode != RecomputeMode::None && (as_it_is || (!recomputes && !skips))) {
                place_of(mode, opcode) = place_of(RecomputeMode::None, opcode);
                continue;
            }
            PhaseBuilder builder(context);
            const auto release = [&] {
                builder.release(scatter, dense * context.gradient_bytes);
                if (context.replica.size > 1) {
                    builder.release(reduce, dense * context.gradient_bytes / std::max(1, context.shard.size));
                }
                if (expert > 0) builder.release(scatter_expert, expert * context.gradient_bytes);
                if (expert > 0 && context.expert_replica.size > 1) {
                    builder.release(reduce_expert,
                                    expert * context.gradient_bytes / std::max(1, context.expert_shard.size));
                }
            };
            // A backward gathers the next layer before it reduces the gradients of the one before (FSDP's
            // backward_prefetch=BACKWARD_PRE, PyTorch's default and what FSDP2 does): on the lane that both
            // have a gather does not wait for the layer that runs. So each layer's phase has, behind
            // its gather, the reduction that the layer before it left.
            const bool gathers = opcode == Opcode::Forward
                                     ? context.sharded.gathers_forward
                                     : context.sharded.gathers_backward && opcode != Opcode::BackwardWeight;
            const bool late = gathers && scatters && !context.one_thread && opcode == Opcode::Backward;
            if (gathers) {
                builder.prefetch(gather, dense * context.parameter_bytes);
                if (expert > 0) builder.prefetch(gather_expert, expert * context.parameter_bytes);
                if (late) release();
                builder.arrive();
                builder.kernel(copy_out);
            }
            if (mode == RecomputeMode::Full && recomputes)
                builder.dispatch(to_sim_time(Seconds(dispatches.recompute * context.dispatch_s)));
            visit_layer_ops(work, mode, opcode,
                            [&](const Op& op, bool recomputed) { builder.add(op, cost_of(op), recomputed); });
            if (scatters && (opcode == Opcode::Backward || opcode == Opcode::BackwardWeight)) {
                builder.kernel(copy_in);
                if (!late) release();
            }
            place_of(mode, opcode) = static_cast<std::uint8_t>(phases_.size());
            phases_.push_back(builder.take());
        }
    }
}

PhaseCost stage_cost(const std::vector<LayerCost>& layers, const std::vector<StageSegment>& segments,
                     Opcode opcode) {
    PhaseCost total;
    const auto add = [&](const StageSegment& s) {
        const PhaseCost& one = layers[static_cast<std::size_t>(s.layer_class)].phase(s.recompute, opcode);
        if (s.count == 1) {
            total.append(one);
        } else {
            total.append(one.repeated(s.count));
        }
    };
    if (opcode == Opcode::Forward) {
        for (const StageSegment& s : segments)
            add(s);
    } else {
        for (auto s = segments.rbegin(); s != segments.rend(); ++s)
            add(*s);
    }
    return total;
}

}  // namespace tw
