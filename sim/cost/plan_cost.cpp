#include "sim/cost/plan_cost.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "plan/frameworks/executor_kernels.hpp"
#include "plan/frameworks/framework.hpp"
#include "plan/gradient_sync/gradient_sync.hpp"
#include "plan/lower_plan.hpp"
#include "plan/sharded_layers.hpp"
#include "sim/collectives/collective_cost.hpp"
#include "sim/collectives/multiprocessors.hpp"
#include "sim/cost/host_dispatch.hpp"
#include "sim/memory/model_states.hpp"

namespace tw {
namespace {

// A kernel bound by memory, as the profile times it.
CurveEstimate memory_kernel(const HardwareProfile& profile, MemoryOpKind kind, double bytes) {
    Op op;
    MemoryOp body;
    body.kind = kind;
    body.bytes = bytes;
    op.body = body;
    return kernel_time(profile, op);
}

}  // namespace

double dispatch_seconds(const Environment& environment, const FrameworkDefaults& framework, int node_group) {
    return environment.dispatch_s *
           dispatch_share(framework.host, environment.node_group(node_group).device.name);
}

TransferCost PlanCost::transfer(Axis axis, CollectiveKind kind, double bytes, const GroupPlacement& group,
                                int node_group) const {
    TransferCost cost;
    cost.bytes = bytes;
    if (group.size <= 1 || bytes <= 0 || environment_.free_axes.has(axis)) return cost;
    CollectiveOptions options = collectives_.of(axis);
    options.oversubscription = group.pods > 1 ? environment_.cluster.oversubscription : 1.0;
    const CollectiveCost estimate =
        collective_cost(kind, bytes, group, environment_.node_group(node_group).type,
                        &environment_.profile(node_group), options);
    cost.seconds = estimate.seconds;
    cost.sigma_s = estimate.seconds * estimate.relative_sigma;
    const NodeGroup& nodes = environment_.node_group(node_group);
    cost.taken_s = estimate.seconds * multiprocessor_share(kind, group, nodes.type, nodes.device.sms);
    cost.source = group.nodes > 1 ? ErrorSource::InterNode : ErrorSource::IntraNode;
    cost.algorithm = estimate.algorithm;
    cost.out_of_range = estimate.out_of_range;
    return cost;
}

double PlanCost::pieces(int stage, double parameters, double element_bytes) const {
    // The executor sends each chunk of gradients, and all parameters of a stage, as they are
    // (real_exec/runtime/executor_sync.cpp).
    if (framework_.own_executor) return 1;
    if (fsdp_in_pipeline(plan_)) {  // a layer at a time
        const StageSpec& spec = plan_.stages[static_cast<std::size_t>(stage)];
        return std::max(1, spec.last_layer - spec.first_layer);
    }
    return std::max(1.0, std::ceil(bucket_count(plan_, stage, parameters, element_bytes)));
}

TransferCost PlanCost::bucketed(CollectiveKind kind, int stage, double parameters, double element_bytes,
                                const GroupPlacement& group) const {
    const int node_group = plan_.stages[static_cast<std::size_t>(stage)].node_group;
    const double bytes = parameters * element_bytes;
    const double n = pieces(stage, parameters, element_bytes);
    TransferCost cost = transfer(Axis::Dp, kind, bytes / n, group, node_group);
    cost.seconds *= n;
    cost.sigma_s *= n;
    cost.taken_s *= n;
    cost.bytes = bytes;
    return cost;
}

double PlanCost::waited_gather(int s) const {
    const StageCostSet& c = stage(s);
    const double all = c.parameter_gather.seconds;
    if (!gathers_beside_forward(plan_) || c.gather_pieces <= 1) return all;
    return std::max(all / c.gather_pieces, all - to_seconds(c.forward.device_time()).value);
}

PlanCost::PlanCost(const Environment& environment, const ParallelPlan& plan,
                   std::span<const std::uint16_t> ranks, ShapeCostCache& cache)
    : environment_(environment),
      plan_(plan),
      framework_(framework_defaults(plan.framework)),
      placement_(place_plan(environment.cluster, plan)),
      collectives_(plan.collectives),
      rank_of_stage_(ranks.begin(), ranks.end()) {
    TW_CHECK(ranks.size() == plan.stages.size());
    std::vector<std::vector<StageSegment>> segments(plan.stages.size());
    std::vector<std::size_t> distinct;  // inner stages that were computed
    for (int r = 0; r < plan.mesh.pp; ++r)
        links_.push_back(placement_.pipeline_link(r));
    // PipeDream's replicated stages have more ranks than the mesh; each is one device, in rank order.
    const int last_rank = ranks.empty() ? 0 : *std::max_element(ranks.begin(), ranks.end());
    for (int r = plan.mesh.pp; r <= last_rank; ++r) {
        const int next = (r + 1) % environment.cluster.devices();
        GroupPlacement link;
        link.size = 2;
        link.nodes = environment.cluster.node_of(r) == environment.cluster.node_of(next) ? 1 : 2;
        link.per_node = 2 / link.nodes;
        links_.push_back(link);
    }
    const ShapeKey key = shape_key(environment.graph, plan, placement_, 0);
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
        const StageSpec& spec = plan.stages[s];
        segments[s] = stage_segments(environment.graph, spec);
        if (s > 0 && spec.node_group == plan.stages[s - 1].node_group) {
            shapes_.push_back(shapes_.back());
        } else {
            ShapeKey own = key;
            own.node_group = spec.node_group;
            shapes_.push_back(cache.get(environment, own));
        }
        // Equal stages are found by a look at the few distinct ones so far.
        std::shared_ptr<const StageCostSet> same;
        const auto neighbours = [&](std::size_t a) {
            const int here = rank_of_stage_[a];
            return std::tuple(links_[static_cast<std::size_t>(here)], rank_of_stage_[a - 1] == here,
                              rank_of_stage_[a + 1] == here, links_[rank_of_stage_[a - 1]]);
        };
        const bool inner = s > 0 && s + 1 < plan.stages.size();
        for (std::size_t d = 0; d < distinct.size() && inner && !same; ++d) {
            const std::size_t t = distinct[d];
            if (shapes_[t] == shapes_[s] && segments[t] == segments[s] && neighbours(t) == neighbours(s))
                same = stages_[t];
        }
        if (!same && inner) distinct.push_back(s);
        stages_.push_back(
            same ? same
                 : std::make_shared<StageCostSet>(make_stage(static_cast<int>(s), *shapes_[s], segments[s])));
    }
    if (const std::int64_t shared = environment.graph.shared_by_ends(); shared > 0 && plan.mesh.pp > 1) {
        const double bytes = static_cast<double>(shared) / plan.mesh.tp * 4.0;
        tied_ = transfer(Axis::Pp, CollectiveKind::AllReduce, bytes, links_.back(), 0);
    }
    if (placement_.world() > 1) {
        // Replicas that step by themselves have norms of their own (real_exec/runtime/groups.cpp).
        const auto sync = find_gradient_sync(plan.gradient_sync);
        const bool alone = sync && (*sync)->info().semantics != Semantics::Synchronous;
        norm_ = transfer(Axis::Dp, CollectiveKind::AllReduce, 4.0,
                         placement_.group(alone ? AxisSet{Axis::Tp, Axis::Pp}
                                                : AxisSet{Axis::Tp, Axis::Cp, Axis::Dp, Axis::Pp}),
                         0);
    }
    // The executor squares its gradients when the norm begins (real_exec/runtime/executor_sync.cpp): in its
    // traces they are the norm's, not the update's. The ranks meet behind the one with the most of them.
    std::vector<double> squares(links_.size(), 0);
    for (std::size_t s = 0; s < stages_.size(); ++s) {
        if (!shapes_[s]->executor) continue;
        double tensors = 0;
        for (const StageSegment& segment : segments[s])
            tensors +=
                shapes_[s]->parameter_tensors[static_cast<std::size_t>(segment.layer_class)] * segment.count;
        const HardwareProfile& profile = environment.profile(plan.stages[s].node_group);
        const OneThread thread = one_thread(profile, placement_.world() > 1);
        Op op;
        op.body = executor_op(
            ExecutorKernel::SquareSum, 1,
            updated_parameters(plan, stages_[s]->dense_parameters, stages_[s]->expert_parameters), 4);
        squares[ranks[s]] += kernel_time(profile, op).seconds * thread.memory + tensors * thread.operation_s;
    }
    norm_.seconds += *std::max_element(squares.begin(), squares.end());
}

namespace {

// So much work of the host; `behind`: after it has read from the device (the batch's sizes, before a
// forward).
PhaseCost host_work(double seconds, bool behind) {
    PhaseCost phase;
    auto& host = phase.matrix.row(CostStream::Host);
    if (behind) host = max_rows(host, phase.matrix.row(CostStream::Compute));
    host = add_to_row(host, sim_time(seconds));
    phase.dispatch_s = seconds;
    return phase;
}

// Compute ends no sooner than copies that take so long and begin with it.
void take_at_least(double seconds, PhaseCost& phase) {
    const double wait = seconds - to_seconds(phase.device_time()).value;
    if (wait <= 0) return;
    auto& compute = phase.matrix.row(CostStream::Compute);
    for (const CostStream other : {CostStream::Comm, CostStream::Shard})
        compute = max_rows(compute, phase.matrix.row(other));
    compute = add_to_row(compute, sim_time(wait));
    phase.offload_wait_s += wait;
}

}  // namespace

StageCostSet PlanCost::make_stage(int s, const ShapeCost& shape,
                                  const std::vector<StageSegment>& segments) const {
    const StageSpec& spec = plan_.stages[static_cast<std::size_t>(s)];
    const int group = spec.node_group;
    const HardwareProfile& profile = environment_.profile(group);
    const NodeType& node = environment_.node_group(group).type;
    StageCostSet c;
    c.forward = stage_cost(shape.layers, segments, Opcode::Forward);
    const FrameworkDefaults& framework = framework_;
    const double dispatch_s = dispatch_seconds(environment_, framework, group);
    const bool end = s == 0 || s + 1 == plan_.stage_count();
    if (framework.batch_read_back == StageSet::All || (framework.batch_read_back == StageSet::Ends && end)) {
        PhaseCost forward = host_work(framework.batch_dispatches * dispatch_s, true);
        forward.append(c.forward);
        c.forward = forward;
    }
    c.backward = stage_cost(shape.layers, segments, Opcode::Backward);
    c.backward_input = stage_cost(shape.layers, segments, Opcode::BackwardInput);
    c.backward_weight = stage_cost(shape.layers, segments, Opcode::BackwardWeight);
    if (end) c.forward.append(host_work(framework.host_extras.microbatch * dispatch_s, false));
    double saved = 0, tensors = 0;
    for (const StageSegment& segment : segments) {
        tensors += shape.parameter_tensors[static_cast<std::size_t>(segment.layer_class)] * segment.count;
        const LayerWork& work = shape.works[static_cast<std::size_t>(segment.layer_class)];
        c.dense_parameters += static_cast<double>(work.dense_parameters) * segment.count;
        c.expert_parameters += static_cast<double>(work.expert_parameters) * segment.count;
        saved += saved_bytes(work, segment.recompute) * segment.count;
    }

    const int replicas = plan_.mesh.dp * plan_.mesh.cp;
    c.step_dispatches =
        step_dispatches(tensors, framework, plan_.zero_stage > 0 ? zero_shard_ranks(plan_).dense : 1);

    if (plan_.mesh.pp == 1 && s + 1 == plan_.stage_count())
        c.dense_parameters -= shared_table_parameters(environment_.graph, shape.shape);
    c.dense_parameters += mtp_table_parameters(environment_.graph, spec, shape.shape);

    const UpdateTraffic traffic = update_traffic(plan_, c.dense_parameters, c.expert_parameters);
    // What is offloaded is updated where it lies (DeepSpeed's DeepSpeedCPUAdam, csrc/adam/cpu_adam_impl.cpp;
    // Megatron-LM core/optimizer/cpu_offloading: HybridDeviceOptimizer), behind the device's share.
    const CurveEstimate update = memory_kernel(profile, MemoryOpKind::Optimizer,
                                               (1 - plan_.offload_optimizer) * traffic.optimizer_bytes);
    const CurveEstimate norm = memory_kernel(profile, MemoryOpKind::Copy, traffic.gradient_norm_bytes);
    c.optimizer_s = update.seconds + norm.seconds;
    if (plan_.offload_optimizer > 0) {  // gradients down, parameters up
        const double host = node.host_memory_bandwidth.value > 0
                                ? node.host_memory_bandwidth.value / node.devices
                                : node.pcie_bandwidth.value;
        c.optimizer_s += plan_.offload_optimizer *
                         (traffic.offload_bytes / node.pcie_bandwidth.value + traffic.optimizer_bytes / host);
    }
    c.optimizer_sigma_s = update.seconds * update.sigma + norm.seconds * norm.sigma;
    if (framework.bucket_copy_bytes > 0 && plan_.mesh.dp * plan_.mesh.cp > 1) {
        c.optimizer_s +=
            memory_kernel(profile, MemoryOpKind::Copy,
                          framework.bucket_copy_bytes * (c.dense_parameters + c.expert_parameters))
                .seconds;
    }
    if (shape.executor) {
        const double parameters = c.dense_parameters + c.expert_parameters;
        const double updated = updated_parameters(plan_, c.dense_parameters, c.expert_parameters);
        const double held = plan_.zero_stage >= 2 ? updated : parameters;
        const OneThread thread = one_thread(profile, placement_.world() > 1);
        const auto seconds = [&](ExecutorKernel kernel, double elements, double element_bytes) {
            Op op;
            op.body = executor_op(kernel, 1, elements, element_bytes);
            return kernel_time(profile, op).seconds * thread.memory;
        };
        // Runs of parameters that decay and that do not, one after the other; with a compute copy 30 bytes,
        // else 28.
        const bool copy = bytes_per_element(plan_.precision.compute) < 4;
        c.optimizer_s = seconds(ExecutorKernel::OptimizerUpdate, updated, copy ? 30.0 / 7 : 4) +
                        seconds(ExecutorKernel::Fill, held, 4) + 2 * tensors * thread.operation_s;
    }
    c.stash_s = memory_kernel(profile, MemoryOpKind::Copy,
                              2.0 * (c.dense_parameters + c.expert_parameters) *
                                  bytes_per_element(plan_.precision.parameters))
                    .seconds;
    if (plan_.offload_activations && node.pcie_bandwidth.value > 0) {
        const auto last = static_cast<std::size_t>(segments.back().layer_class);
        const double last_saved = saved_bytes(shape.works[last], segments.back().recompute);
        c.offload_s = last_saved / node.pcie_bandwidth.value;
        for (PhaseCost* phase : {&c.forward, &c.backward, &c.backward_input})
            take_at_least((saved - last_saved) / node.pcie_bandwidth.value, *phase);
    }

    const bool by_method = plan_.zero_stage == 0 && plan_.gradient_sync != "all-reduce";
    if (by_method) synchronise_by_method(c, group);
    const ShardedLayers sharded = sharded_layers(plan_);
    if (!by_method && !sharded.all()) {
        const double wire = bytes_per_element(plan_.precision.gradient_reduce);
        const double element = fsdp_in_pipeline(plan_) ? gathered_parameter_bytes(plan_)
                                                       : bytes_per_element(plan_.precision.parameters);
        const auto add = [&](TransferCost& total, const TransferCost& more) {
            total.seconds += more.seconds;
            total.sigma_s += more.sigma_s;
            total.taken_s += more.taken_s;
            total.bytes += more.bytes;
            total.out_of_range |= more.out_of_range;
            if (more.seconds > 0) total.source = more.source, total.algorithm = more.algorithm;
        };
        const ShardRanks shard_ranks = zero_shard_ranks(plan_);
        const auto sync = [&](double parameters, AxisSet axes, int size, int shard) {
            if (parameters <= 0 || size <= 1) return;
            const GroupPlacement whole = placement_.group(axes);
            if (plan_.zero_stage == 0) {
                add(c.gradient_sync, bucketed(CollectiveKind::AllReduce, s, parameters, wire, whole));
                return;
            }
            const GroupPlacement inner = shard == size ? whole : placement_.shard_group(axes, shard);
            if (plan_.zero_stage == 1 && framework.zero1_by_tensor) {
                add(c.gradient_sync, bucketed(CollectiveKind::AllReduce, s, parameters, wire, whole));
                const double senders = std::max(1.0, std::min(static_cast<double>(shard), tensors));
                TransferCost updated = transfer(Axis::Dp, CollectiveKind::Broadcast,
                                                parameters * element / senders, inner, group);
                updated.seconds *= senders;
                updated.sigma_s *= senders;
                updated.bytes *= senders;
                add(c.parameter_gather, updated);
                return;
            }
            if (!sharded.scatters)
                add(c.gradient_sync, bucketed(CollectiveKind::ReduceScatter, s, parameters, wire, inner));
            if (!sharded.scatters && shard < size) {
                add(c.gradient_sync, bucketed(CollectiveKind::AllReduce, s, parameters, wire / shard,
                                              placement_.replica_group(axes, shard)));
            }
            if (sharded.gathers_forward) return;
            c.gather_pieces = std::max(c.gather_pieces, pieces(s, parameters, element));
            add(c.parameter_gather, bucketed(CollectiveKind::AllGather, s, parameters, element, inner));
        };
        sync(c.dense_parameters, {Axis::Dp, Axis::Cp}, replicas, shard_ranks.dense);
        if (c.expert_parameters > 0)
            sync(c.expert_parameters, {Axis::Edp}, plan_.mesh.expert_dp(), shard_ranks.expert);
        if (spec.replicas > 1) {  // PipeDream's replicated stage: its replicas are neighbours in rank order
            GroupPlacement replicas_group;
            replicas_group.size = replicas_group.per_node = spec.replicas;
            replicas_group.nodes = (spec.replicas + node.devices - 1) / node.devices;
            replicas_group.per_node = std::min(spec.replicas, node.devices);
            add(c.gradient_sync,
                bucketed(CollectiveKind::AllReduce, s, c.dense_parameters, wire, replicas_group));
        }
    }

    const auto boundary = [&](int cut, int a, int b) {
        const int ra = rank_of_stage_[static_cast<std::size_t>(a)];
        const int rb = rank_of_stage_[static_cast<std::size_t>(b)];
        if (ra == rb) return TransferCost{};
        const int from = (ra + 1) % plan_.mesh.pp == rb ? ra : rb;
        const double bytes = environment_.graph.cut_bytes(cut, shape.shape);
        const bool replicated = plan_.mesh.tp > 1 && !shape.shape.sequence_parallel;
        const bool scattered = replicated && framework.scatter_gather;
        TransferCost cost =
            transfer(Axis::Pp, CollectiveKind::SendRecv, scattered ? bytes / plan_.mesh.tp : bytes,
                     links_[static_cast<std::size_t>(from)], group);
        if (scattered) {
            const TransferCost gather =
                transfer(Axis::Pp, CollectiveKind::AllGather, bytes, placement_.group({Axis::Tp}), group);
            cost.seconds += gather.seconds;
            cost.sigma_s += gather.sigma_s;
        }
        return cost;
    };
    if (s + 1 < plan_.stage_count()) c.send_activation = boundary(spec.last_layer, s, s + 1);
    if (s > 0) c.send_gradient = boundary(spec.first_layer, s, s - 1);
    return c;
}

void PlanCost::synchronise_by_method(StageCostSet& c, int node_group) const {
    SyncRequest request;
    request.parameters = c.dense_parameters + c.expert_parameters;
    request.gradient = plan_.precision.gradient_reduce;
    request.parameter = plan_.precision.parameters;
    request.replicas = plan_.mesh.dp * plan_.mesh.cp;
    request.microbatches = static_cast<int>(plan_.microbatches);
    request.matrix_dim = environment_.graph.hidden;
    const auto method = gradient_sync_cost(plan_.gradient_sync, request, plan_.gradient_sync_options);
    TW_CHECK_MSG(method.has_value(), "check_plan accepts the method");
    const GroupPlacement replicas = placement_.group({Axis::Dp, Axis::Cp});
    const NodeType& node = environment_.node_group(node_group).type;
    const double port = replicas.nodes > 1 ? node.network_per_device().value : node.link_bandwidth.value;
    const SyncInfo info = (*find_gradient_sync(plan_.gradient_sync))->info();
    const bool all_at_once = info.semantics == Semantics::Synchronous;
    for (const SyncCollective& collective : method->collectives) {
        const TransferCost once = transfer(Axis::Dp, collective.kind, collective.bytes, replicas, node_group);
        // What all workers send at once takes its turns at a server's port.
        const double turns = all_at_once && port > 0 ? collective.server_bytes / port : 0;
        TransferCost& total = collective.moment == SyncMoment::AfterBackward ? c.gradient_sync
                              : info.semantics == Semantics::LocalSteps      ? c.average
                                                                             : c.parameter_gather;
        total.seconds += std::max(once.seconds, turns) * collective.times;
        total.sigma_s += once.sigma_s * collective.times;
        total.bytes += once.bytes * collective.times;
        total.source = once.source;
        total.algorithm = once.algorithm;
        total.out_of_range |= once.out_of_range;
    }
    c.sync.wire_bytes = method->wire_bytes;
    c.sync.server_bytes = method->server_bytes;
    c.sync.server_s = port > 0 ? method->server_bytes / port : 0;
    c.sync.memory_bytes = method->memory_bytes;
    c.sync.kernel_bytes = method->kernel_bytes;
    c.sync.kernel_s =
        memory_kernel(environment_.profile(node_group), MemoryOpKind::Copy, method->kernel_bytes).seconds;
    c.optimizer_s += c.sync.kernel_s;
}

std::vector<double> PlanCost::parameters() const {
    std::vector<double> result;
    for (const auto& stage : stages_)
        result.push_back(stage->dense_parameters + stage->expert_parameters);
    return result;
}

double PlanCost::dispatch_sigma() const {
    for (const HostEntry& entry : environment_.profile(0).host) {
        if (entry.mode == "eager") return entry.fit.sigma;
    }
    return 0;
}

StageCosts PlanCost::stage_costs() const {
    StageCosts costs;
    for (int s = 0; s < stages(); ++s) {
        const StageCostSet& c = stage(s);
        costs.forward.push_back(c.forward.device_time());
        costs.backward_input.push_back(c.backward_input.device_time());
        costs.backward_weight.push_back(c.backward_weight.device_time());
        costs.transfer = std::max(costs.transfer, sim_time(c.send_activation.seconds));
        double saved = 0, held = 0;
        for (const StageSegment& segment :
             stage_segments(environment_.graph, plan_.stages[static_cast<std::size_t>(s)])) {
            const LayerWork& work = shape(s).works[static_cast<std::size_t>(segment.layer_class)];
            saved += saved_bytes(work, segment.recompute) * segment.count;
            held +=
                shape(s).weight_gradient_bytes[static_cast<std::size_t>(segment.layer_class)] * segment.count;
        }
        costs.activation_bytes.push_back(saved);
        costs.weight_grad_bytes.push_back(std::min(held, saved));
    }
    return costs;
}

}  // namespace tw
