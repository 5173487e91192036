#include "sim/schedule_cache.hpp"

#include <algorithm>
#include <cmath>

#include "sim/engine/engine.hpp"

namespace tw {
namespace {

std::vector<std::int64_t> key_of(const std::string& name, const ScheduleShape& shape,
                                 const LoweringOptions& o, const StageCosts* costs) {
    std::vector<std::int64_t> key = {shape.ranks,
                                     shape.virtual_stages,
                                     shape.microbatches,
                                     shape.microbatch_group,
                                     shape.vertical_sync,
                                     static_cast<std::int64_t>(o.p2p),
                                     o.batch_p2p,
                                     o.overlap_p2p,
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
                                     static_cast<std::int64_t>(o.buckets.size())};
    key.insert(key.end(), o.buckets.begin(), o.buckets.end());
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

std::int64_t size_of(const LoweredSchedule& s) {
    const auto instructions = static_cast<std::int64_t>(s.schedule.instruction_count());
    return instructions * static_cast<std::int64_t>(sizeof(Instruction) + 32) +
           static_cast<std::int64_t>(s.compiled.nodes()) * 20;
}

}  // namespace

Result<std::shared_ptr<const LoweredSchedule>> lower_and_compile(const std::string& name,
                                                                 const ScheduleShape& shape,
                                                                 const LoweringOptions& options,
                                                                 const StageCosts* costs) {
    auto order = generate_order(name, shape, costs);
    if (!order) return order.errors();
    auto lowered = std::make_shared<LoweredSchedule>();
    lowered->schedule = lower(*order, name, options);
    auto compiled = compile_schedule(lowered->schedule);
    if (!compiled) return compiled.errors();
    lowered->compiled = std::move(*compiled);
    lowered->memory = memory_profile(lowered->schedule);
    return std::shared_ptr<const LoweredSchedule>(std::move(lowered));
}

Result<std::shared_ptr<const LoweredSchedule>> ScheduleCache::get(const std::string& name,
                                                                  const ScheduleShape& shape,
                                                                  const LoweringOptions& options,
                                                                  const StageCosts* costs) {
    const std::vector<std::int64_t> key = key_of(name, shape, options, costs);
    {
        const std::lock_guard lock(mutex_);
        const auto found =
            std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.key == key; });
        if (found != entries_.end()) {
            entries_.splice(entries_.begin(), entries_, found);
            return found->value;
        }
    }
    auto made = lower_and_compile(name, shape, options, costs);
    if (!made) return made;
    const std::lock_guard lock(mutex_);
    entries_.push_front({key, *made, size_of(**made)});
    bytes_ += entries_.front().bytes;
    while (bytes_ > capacity_ && entries_.size() > 1) {
        bytes_ -= entries_.back().bytes;
        entries_.pop_back();
    }
    return made;
}

}  // namespace tw
