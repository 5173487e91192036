#include "sim/memory/rank_memory.hpp"

#include <algorithm>
#include <cmath>

#include "plan/frameworks/framework.hpp"
#include "plan/lower_plan.hpp"
#include "plan/sharded_layers.hpp"
#include "sim/memory/device_overhead.hpp"
#include "sim/memory/segment_pool.hpp"

namespace tw {
namespace {

// Flat blocks that an optimizer's step allocates one after the other; the pool's size at its end. Beside the
// bucket before it, they are too large for what activations left behind.
// `shards` > 1: they are gathered at its end.
double step_segments(const FrameworkDefaults& d, const RankFootprint& f, double bucket, double updated,
                     int shards) {
    SegmentPool pool;
    pool.release(pool.take(bucket), bucket);
    if (d.norm_in_double) {
        const double norm = 8 * std::min(f.largest_weight, updated);
        pool.release(pool.take(norm), norm);
    }
    const double flat = d.step_flat_bytes * updated;
    const std::size_t copy = pool.take(flat);
    // The gradient in fp32, then the optimizer's own temporaries, a number a parameter each.
    for (double left = d.step_bytes * updated; left > 0; left -= 4 * updated) {
        pool.take(4 * updated);
        if (left == d.step_bytes * updated) pool.release(copy, flat);
    }
    if (d.flat_gather_elements > 0 && shards > 1) {
        const double all = f.dense + f.expert;
        pool.take(2 * all / std::max(1.0, std::floor(all / d.flat_gather_elements)));
    }
    return pool.reserved();
}

}  // namespace

double in_blocks(double bytes) {
    constexpr double kBlock = 2.0 * 1048576;
    return std::ceil(bytes / kBlock) * kBlock;
}

RankMemory rank_memory(const ParallelPlan& plan, const RankFootprint& f) {
    const FrameworkDefaults& d = framework_defaults(plan.framework);
    const int replicas = plan.mesh.dp * plan.mesh.cp;
    RankMemory m;
    m.states = model_state_bytes(plan, f.dense, f.expert);
    // Megatron's buckets are views of its gradient buffer; ZeRO's optimizers flatten theirs even for one
    // replica.
    // FSDP's are its layers.
    const bool by_layer = plan.zero_stage == 3 || (plan.zero_stage == 2 && d.fsdp);
    const bool flattens = by_layer ? d.live_parameters > 0 : replicas > 1 || plan.zero_stage > 0;
    if (flattens && !d.gradient_buffer) {
        m.buckets = std::min(d.buckets_in_flight * bucket_bytes(plan), (f.dense + f.expert) * 4.0);
    }
    if (!holds_fp8_parameters(plan))
        m.quantised_weights = d.weight_casts * bytes_per_element(plan.precision.compute) * f.quantised;
    const bool whole = fsdp_in_pipeline(plan);  // parameters and gradients are
    if (plan.zero_stage == 2 && !f.executor && !whole)
        m.unsharded_gradients =
            std::max(f.largest_block, f.outside_blocks) * (plan.precision.gradient_fp32 ? 4.0 : 2.0);
    if (plan.zero_stage == 3 && !f.executor && !whole) {
        // The layer in use, the one prefetched, and what belongs to no layer: that is gathered for the whole
        // pass (torch/distributed/fsdp: the root is not resharded after the forward).
        const double live = d.live_parameters > 0 ? std::min(d.live_parameters, f.dense + f.expert)
                                                  : 2 * f.largest_block + f.outside_blocks;
        m.gathered = live * gathered_parameter_bytes(plan);
        m.unsharded_gradients = f.largest_block * bytes_per_element(plan.precision.gradient_reduce);
    }
    // Of the parameters that the step updates at once.
    const bool in_sub_groups = plan.zero_stage == 3 && d.sub_group_elements > 0;
    const double updated = in_sub_groups
                               ? std::min(updated_parameters(plan, f.dense, f.expert), d.sub_group_elements)
                               : updated_parameters(plan, f.dense, f.expert);
    m.step = d.step_bytes * updated;

    // A schedule that never flushes always has microbatches before.
    m.early_gradients = d.gradient_buffer || plan.microbatches > 1 || plan.zero_stage == 3 ||
                        plan.semantics != Semantics::Synchronous;
    const double dynamic =
        m.gathered + m.unsharded_gradients + f.sync_buffers + f.activations + f.transient + f.weight_stash;
    m.at_step = m.states.gradients + m.step > (m.early_gradients ? m.states.gradients : 0) + dynamic;
    m.holds_gradients = m.at_step || m.early_gradients;

    double blocks = 0;
    const auto add = [&](double bytes) {
        m.allocated += bytes;
        blocks += in_blocks(bytes);
    };
    for (const double bytes :
         {m.states.parameters, m.states.master, m.states.optimizer, m.buckets, m.quantised_weights})
        add(bytes);
    if (m.holds_gradients) add(m.states.gradients);
    const double before = blocks;
    if (m.at_step) {
        add(m.step);
    } else {
        for (const double bytes : {m.gathered, m.unsharded_gradients, f.sync_buffers, f.activations,
                                   f.transient, f.weight_stash}) {
            add(bytes);
        }
    }
    m.reserved = blocks;
    if (d.expandable_segments) {
        m.reserved += in_blocks(f.loose);
    } else if (d.step_bytes > 0) {
        // Segments of their own for the step and for the rest.
        const double segments = step_segments(d, f, m.buckets, updated, in_sub_groups ? 1 : replicas);
        m.reserved = before + (m.holds_gradients ? 0 : in_blocks(m.states.gradients)) +
                     in_blocks(std::max(0.0, segments - m.buckets));
        for (const double bytes : {m.gathered, m.unsharded_gradients, f.sync_buffers, f.activations,
                                   f.transient, f.weight_stash}) {
            m.reserved += in_blocks(bytes);
        }
        m.reserved = std::max(m.reserved, blocks);
    }
    if (d.stream_pools && plan.zero_stage == 3) {
        // Gathers and reduced gradients come from the pools of their own streams, which no other stream's
        // tensors use: the flat output of the root's gather and of the layer after it, and the gradients.
        m.reserved += in_blocks((f.outside_blocks + f.largest_block) * gathered_parameter_bytes(plan));
        if (!m.holds_gradients) m.reserved += in_blocks(m.states.gradients);
    }
    m.cached = m.reserved - blocks;
    m.host = offloaded_bytes(plan, f.dense, f.expert) + f.offloaded_activations;

    // Processors have no context and no communicators of NCCL.
    const double overhead =
        f.device->architecture == "cpu" ? f.outside : device_overhead(plan, *f.device, f.tied_ends);
    m.required = blocks + overhead;
    m.device = std::max(m.required,
                        std::min(m.reserved + overhead, std::max(f.capacity, as_double(f.device->memory))));
    return m;
}

}  // namespace tw
