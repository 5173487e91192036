#include "sim/schedule_cache.hpp"

#include <cmath>

namespace tw {
namespace {

using Key = std::vector<std::int64_t>;

Key order_key(const std::string& name, const ScheduleShape& shape, const StageCosts* costs) {
    Key key = {shape.ranks,         shape.virtual_stages,
               shape.microbatches,  shape.microbatch_group,
               shape.vertical_sync, static_cast<std::int64_t>(shape.replicas.size()),
               shape.steps};
    key.insert(key.end(), shape.replicas.begin(), shape.replicas.end());
    key.insert(key.end(), name.begin(), name.end());
    if (costs == nullptr) return key;
    for (const auto* times : {&costs->forward, &costs->backward_input, &costs->backward_weight}) {
        key.insert(key.end(), times->begin(), times->end());
    }
    key.push_back(costs->transfer);
    for (const auto* bytes :
         {&costs->activation_bytes, &costs->weight_grad_bytes, &costs->memory_limit_bytes}) {
        for (const double b : *bytes)
            key.push_back(std::llround(b));
    }
    return key;
}

// The order's address stands for the order: the entry keeps it alive.
Key lowered_key(const OrderedSchedule* ordered, const LoweringOptions& o) {
    Key key = {static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(ordered)),
               static_cast<std::int64_t>(o.p2p),
               o.batch_p2p,
               o.overlap_p2p,
               static_cast<std::int64_t>(o.p2p_calls),
               static_cast<std::int64_t>(o.grad_sync),
               o.overlap_grad_sync,
               o.sync_every_microbatch,
               o.gather_params_after_step,
               o.overlap_param_gather,
               o.unshard,
               o.tied_embeddings,
               o.grad_norm,
               o.offload_activations,
               o.parameter_server,
               o.collectives_on_compute};
    key.insert(key.end(), o.buckets.begin(), o.buckets.end());
    return key;
}

std::size_t size_of(const std::vector<RankMemoryProfile>& profiles) {
    std::size_t bytes = 0;
    for (const RankMemoryProfile& p : profiles) {
        bytes += sizeof(p) + p.snapshots.capacity() * sizeof(MemorySnapshot) +
                 (p.stages.capacity() + p.counts.capacity()) * sizeof(std::uint16_t);
    }
    return bytes;
}

std::int64_t size_of(const OrderedSchedule& s) {
    std::size_t bytes = 4096 + size_of(s.memory);
    for (const auto& rank : s.order.ranks)
        bytes += rank.capacity() * sizeof(Action);
    return static_cast<std::int64_t>(bytes);
}

std::int64_t size_of(const LoweredSchedule& s) {
    return static_cast<std::int64_t>(s.schedule.instruction_count() * (sizeof(Instruction) + 32) +
                                     s.compiled.nodes() * 20 + 4096 + size_of(s.memory));
}

// The same instructions, collectives over replicas in the lane of the compute instructions.
Schedule on_one_thread(const Schedule& schedule) {
    Schedule one = schedule;
    for (RankProgram& program : one.programs) {
        for (Instruction& in : program.instructions) {
            if (in.stream == Stream::Dp && in.group == 0 && in.opcode != Opcode::GradNorm)
                in.stream = Stream::Compute;
        }
    }
    return one;
}

}  // namespace

std::shared_ptr<const OrderedSchedule> ordered_schedule(std::string name, ComputeOrder order) {
    auto made = std::make_shared<OrderedSchedule>();
    made->name = std::move(name);
    made->order = std::move(order);
    made->memory = memory_profile(made->order);
    return made;
}

Result<std::shared_ptr<const OrderedSchedule>> ScheduleCache::order(const std::string& name,
                                                                    const ScheduleShape& shape,
                                                                    const StageCosts* costs) {
    Key key = order_key(name, shape, costs);
    if (auto known = orders_.find(key)) return known;
    auto order = generate_order(name, shape, costs);
    if (!order) return order.errors();
    auto result = ordered_schedule(name, std::move(*order));
    orders_.add(std::move(key), result, size_of(*result));
    return result;
}

Result<std::shared_ptr<const LoweredSchedule>> lower_and_compile(
    std::shared_ptr<const OrderedSchedule> ordered, const LoweringOptions& options) {
    auto lowered = std::make_shared<LoweredSchedule>();
    lowered->schedule = lower(ordered->order, ordered->name, options);
    auto compiled = options.collectives_on_compute ? compile_schedule(on_one_thread(lowered->schedule))
                                                   : compile_schedule(lowered->schedule);
    if (!compiled) return compiled.errors();
    lowered->compiled = std::move(*compiled);
    const bool passes_move_memory =
        ordered->order.boundary == StepBoundary::None || options.offload_activations;
    lowered->memory = passes_move_memory ? memory_profile(lowered->schedule) : ordered->memory;
    lowered->ordered = std::move(ordered);
    return std::shared_ptr<const LoweredSchedule>(std::move(lowered));
}

Result<std::shared_ptr<const LoweredSchedule>> ScheduleCache::lowered(
    const std::shared_ptr<const OrderedSchedule>& ordered, const LoweringOptions& options) {
    Key key = lowered_key(ordered.get(), options);
    if (auto known = lowered_.find(key)) return known;
    auto made = lower_and_compile(ordered, options);
    if (made) lowered_.add(std::move(key), *made, size_of(**made));
    return made;
}

}  // namespace tw
