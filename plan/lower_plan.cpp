#include "plan/lower_plan.hpp"

#include <algorithm>
#include <bit>

#include "plan/frameworks/framework.hpp"
#include "plan/plan_order.hpp"
#include "plan/sharded_layers.hpp"

namespace tw {

ScheduleShape schedule_shape(const ParallelPlan& plan) {
    ScheduleShape shape;
    shape.ranks = plan.mesh.pp;
    shape.virtual_stages = plan.virtual_stages;
    shape.microbatches = static_cast<int>(plan.microbatches);
    shape.microbatch_group = plan.microbatch_group;
    const bool replicated = std::any_of(plan.stages.begin(), plan.stages.end(),
                                        [](const StageSpec& s) { return s.replicas > 1; });
    if (replicated) {
        for (const StageSpec& s : plan.stages)
            shape.replicas.push_back(s.replicas);
    }
    return shape;
}

static double gradient_element(const ParallelPlan& plan) {
    return plan.precision.gradient_fp32 ? 4.0 : 2.0;
}

double bucket_bytes(const ParallelPlan& plan) {
    if (plan.bucket_bytes > 0) return plan.bucket_bytes;
    const FrameworkDefaults& defaults = framework_defaults(plan.framework);
    if (defaults.bucket_parameters_per_dp > 0) {
        return gradient_element(plan) * std::max(40e6, defaults.bucket_parameters_per_dp * plan.mesh.dp);
    }
    return defaults.bucket_bytes;
}

double bucket_count(const ParallelPlan& plan, int stage, double parameters, double element_bytes) {
    if (framework_defaults(plan.framework).bucket_parameters_per_dp > 0) {
        if (stage > 0 || !plan.overlap.grad_reduce) return 1;
        element_bytes = gradient_element(plan);
    }
    return parameters * element_bytes / bucket_bytes(plan);
}

// Sharded gradients leave no room to accumulate whole ones (DeepSpeed ZeRO-2).
bool syncs_every_microbatch(const ParallelPlan& plan) {
    return plan.zero_stage == 2 && plan.microbatches > 1 && !fsdp_in_pipeline(plan);
}

bool gathers_beside_forward(const ParallelPlan& plan) {
    return plan.overlap.param_gather || fsdp_in_pipeline(plan);
}

LoweringOptions lowering_options(const LayerGraph& graph, const ParallelPlan& plan,
                                 const std::vector<double>& parameters) {
    LoweringOptions options;
    const FrameworkDefaults& defaults = framework_defaults(plan.framework);
    const bool own_loop = plan.schedule == "1f1b" || is_interleaved(plan.schedule);
    const bool blocks = defaults.p2p_calls != LoweringOptions::P2pCalls::Posted;
    options.overlap_p2p =
        own_loop ? plan.overlap.p2p && (plan.virtual_stages > 1 || !defaults.overlap_p2p_needs_virtual_stages)
                 : plan.overlap.p2p || blocks;
    if (own_loop && !options.overlap_p2p) {
        options.p2p_calls = defaults.p2p_synchronised_by_tp && plan.mesh.tp > 1
                                ? LoweringOptions::P2pCalls::Synchronised
                                : defaults.p2p_calls;
    }
    options.tied_embeddings = graph.shared_by_ends() > 0 && plan.mesh.pp > 1;
    options.offload_activations = plan.offload_activations;
    options.parameter_server = plan.gradient_sync.starts_with("ps-");
    // Experts that tensor parallel does not split have replicas where the dense layers have none.
    const bool replicas = plan.mesh.dp * plan.mesh.cp > 1 || (graph.experts > 0 && plan.mesh.expert_dp() > 1);
    options.overlap_grad_sync = plan.overlap.grad_reduce;
    const ShardedLayers sharded = sharded_layers(plan);
    if (!replicas || sharded.all()) {
        options.grad_sync = LoweringOptions::GradSync::None;
    } else if (plan.zero_stage > 0) {
        options.grad_sync = LoweringOptions::GradSync::ReduceScatter;
        options.sync_every_microbatch = syncs_every_microbatch(plan);
        options.gather_params_after_step = !sharded.gathers_forward;
        options.overlap_param_gather = gathers_beside_forward(plan);
    }
    const bool in_chunks =
        options.overlap_grad_sync && !options.sync_every_microbatch && !fsdp_in_pipeline(plan);
    if (options.grad_sync != LoweringOptions::GradSync::None && in_chunks) {
        for (std::size_t s = 0; s < parameters.size(); ++s) {
            const double buckets =
                bucket_count(plan, static_cast<int>(s), parameters[s], gradient_element(plan));
            options.buckets.push_back(
                static_cast<int>(std::bit_floor(static_cast<unsigned>(std::clamp(buckets, 1.0, 8.0)))));
        }
    }
    return options;
}

Result<Schedule> lower_plan(const LayerGraph& graph, const ParallelPlan& plan,
                            const std::vector<double>& parameters, const StageCosts* costs) {
    auto order = plan_order(plan, costs);
    if (!order) return order.errors();
    return lower(*order, plan.schedule, lowering_options(graph, plan, parameters));
}

}  // namespace tw
