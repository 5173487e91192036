#include "sim/validate/truth_case.hpp"

#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "models/hardware/scale_profile.hpp"
#include "plan/check_plan.hpp"
#include "sim/validate/row_words.hpp"
#include "sim/validate/truth_plan.hpp"

namespace tw {
namespace {

// Profiles are documents of 800 lines: decoded once a device.
Result<HardwareProfile> cached_profile(const Device& device) {
    static std::mutex mutex;
    static std::map<std::string, HardwareProfile> known;
    const std::lock_guard lock(mutex);
    if (const auto it = known.find(device.name); it != known.end()) return it->second;
    auto profile = profile_for(device);
    if (!profile) return reason("GPU " + device.name + " has no profile");
    known.emplace(device.name, *profile);
    return std::move(*profile);
}

bool hopper_or_later(const Device& device) {
    return device.architecture == "hopper" || device.architecture == "blackwell";
}

// Training of a part of the parameters, or on sequences of other lengths than the row states: words of a
// model's name or a framework's, "Llama 3 70B LoRA".
Status check_task(const TruthRow& row) {
    static constexpr std::array<std::string_view, 8> kOther = {"lora", "qlora", "peft", "adapter",
                                                               "sft",  "dpo",   "rlhf", "finetuning"};
    for (const std::string& text : {row.model.name, row.framework}) {
        for (const std::string& token : tokens_of(text)) {
            for (const std::string_view other : kOther) {
                if (token == other) return reason("training by " + token + " is not modelled");
            }
        }
    }
    return ok();
}

// Functional tests of GPT set the unfused backend, but for those that resume from a checkpoint, those of
// hierarchical context parallelism and gpt3_7b, which leave it to Transformer Engine
// (tests/functional_tests/test_cases/gpt,
// */model_config.yaml: no --attention-backend).
// With --deterministic-mode, and so in all whose names do not say nondeterministic, Transformer Engine drops
// cuDNN's attention on Blackwell ("for determinism reasons", attention/dot_product_attention/utils.py,
// get_attention_backend) and FlashAttention-2 is left; hierarchical context parallelism asks for it.
void apply_test(const TruthRow& row, const FrameworkDefaults& defaults, const Device& device,
                ParallelPlan& plan) {
    const std::string& test = row.model.name;
    if (begins(test, "gpt") && says_any(test, {"gpt3_7b", "resume", "a2a_p2p"})) {
        const bool fused = hopper_or_later(device) && !says(test, "a2a_p2p") &&
                           (device.architecture != "blackwell" || says(test, "nondeterministic"));
        plan.attention = fused ? defaults.flash_hopper : defaults.flash;
    }
    // Those of hierarchical context parallelism set both dropouts to 0.
    if (says(test, "a2a_p2p")) plan.dropout = false;
}

// Megatron-Bridge's recipe of DeepSeek-V3 on Hopper.
bool sends_per_node(const TruthRow& row, const FrameworkDefaults& defaults, const Device& device,
                    const ParallelPlan& plan) {
    return defaults.deepseek_per_node && device.architecture == "hopper" && plan.mesh.ep > 1 &&
           says(lower(row.model.name), "deepseek");
}

// What the recipes recompute of DeepSeek-V3 where the row is silent.
RecomputeModules recipe_modules(const TruthRow& row, const FrameworkDefaults& defaults,
                                const Device& device) {
    if (!defaults.deepseek_modules || !row.recompute.empty() || !says(lower(row.model.name), "deepseek"))
        return {};
    RecomputeModules modules = {RecomputeModule::LatentUpProjection};
    if (device.architecture == "hopper") modules.add(RecomputeModule::Mlp);
    return modules;
}

void apply_recompute(const TruthRow& row, const FrameworkDefaults& defaults, const StatedRecompute& stated,
                     ValidationCase& c) {
    ParallelPlan& plan = c.plan;
    const RecomputeModules legal = c.graph.recompute_modules();
    RecomputeModules modules = recipe_modules(row, defaults, c.cluster.groups.front().device);
    if (stated.mode == RecomputeMode::Modules) modules = stated.modules;
    for (const RecomputeModule module : kRecomputeModules) {
        if (modules.has(module) && legal.has(module)) plan.recompute_modules.add(module);
    }
    if (stated.mode) {
        plan.recompute = *stated.mode;
        if (stated.other_modules)
            c.assumed.push_back(
                fmt::format("recompute \"{}\": {}", row.recompute, to_string(plan.recompute)));
        // Nothing comes of modules that the model lacks.
        if (stated.mode == RecomputeMode::Modules && !plan.recompute_modules.any())
            plan.recompute = RecomputeMode::None;
    } else if (plan.recompute_modules.any()) {
        plan.recompute = RecomputeMode::Modules;
    } else if (!row.recompute.empty()) {
        c.assumed.push_back(fmt::format("recompute \"{}\": {}, the framework's default", row.recompute,
                                        to_string(plan.recompute)));
    }
}

// What the row says over the framework's defaults.
Status apply_row(const TruthRow& row, const FrameworkDefaults& defaults, const StatedRecompute& recompute,
                 ValidationCase& c) {
    ParallelPlan& plan = c.plan;
    const Device& device = c.cluster.groups.front().device;
    if (row.flash_attention) {
        plan.attention = !*row.flash_attention     ? AttentionKernel::Unfused
                         : hopper_or_later(device) ? defaults.flash_hopper
                                                   : defaults.flash;
    }
    if (row.shape == TruthShape::Functional) apply_test(row, defaults, device, plan);
    if (sends_per_node(row, defaults, device, plan))
        plan.expert_dispatch = WorkShape::ExpertDispatch::PerNode;
    if (row.dropout) plan.dropout = *row.dropout;
    if (row.sequence_parallel) plan.sequence_parallel = *row.sequence_parallel && plan.mesh.tp > 1;
    if (Status sharding = set_sharding(row, c.cluster.groups.front().type.devices, plan, c.assumed);
        !sharding)
        return sharding;
    apply_recompute(row, defaults, recompute, c);
    if (row.async_tp) plan.overlap.tp = true;
    // DeepSpeed's overlap_comm is on under ZeRO-3.
    const bool overlaps = plan.zero_stage == 3 && framework_defaults(plan.framework).reduces_on_compute;
    if (row.overlap_grad_reduce || overlaps) plan.overlap.grad_reduce = true;
    if (row.overlap_param_gather) plan.overlap.param_gather = true;
    return ok();
}

Status set_cluster(const TruthRow& row, ValidationCase& c) {
    auto cluster = cluster_of(row, c.plan.mesh.devices(), &c.assumed);
    if (!cluster) return cluster.errors();
    c.cluster = std::move(*cluster);
    const Device& device = c.cluster.groups.front().device;
    auto profile = cached_profile(device);
    if (!profile) return profile.errors();
    c.profile = std::move(*profile);
    fit_collectives_to(c.cluster.groups.front().type, device, c.profile);
    return ok();
}

Status set_plan(const TruthRow& row, const FrameworkDefaults& defaults, ValidationCase& c) {
    const Device& device = c.cluster.groups.front().device;
    const bool no_bf16 = defaults.precision == Precision::Bf16 && device.peak_bf16.value <= 0;
    auto precision = precision_of(row, no_bf16 ? Precision::Fp16 : defaults.precision, c.assumed);
    if (!precision) return precision.errors();
    const StatedRecompute recompute = stated_recompute(row, defaults);
    if (!recompute.refused.empty()) return reason(recompute.refused);
    const bool images = c.graph.family == "vit";  // as long as an image has patches, whatever the row says
    c.plan.seq_len = images ? c.graph.default_seq_len : row.model.seq_len.value_or(c.graph.default_seq_len);
    c.plan.precision.compute = *precision;
    apply_framework(defaults, hopper_or_later(device), c.plan);
    if (Status applied = apply_row(row, defaults, recompute, c); !applied) return applied;
    if (Status schedule = set_schedule(row, c.graph, recompute, c.plan, c.assumed); !schedule)
        return schedule;
    // The same recipe overlaps them (set_moe_a2a_overlap_overrides).
    if (c.plan.expert_dispatch == WorkShape::ExpertDispatch::PerNode && c.plan.schedule == "interleaved")
        c.plan.schedule = "interleaved-overlap";
    return ok();
}

}  // namespace

Result<ValidationCase> make_case(const TruthRow& row, const FrameworkDefaults* own) {
    if (!row.errors.empty()) return row.errors;
    if (row.status == TruthStatus::NotComparable) {
        return reason(row.status_reason.empty() ? "marked not comparable" : row.status_reason);
    }
    ValidationCase c;
    c.assumed = row.assumed;
    if (Status task = check_task(row); !task) return task.errors();
    if (Status mesh = set_mesh(row, c.plan); !mesh) {
        // Missing layers are the more telling reason.
        if (row.model.document.empty() && !row.model.layers && row.shape == TruthShape::Main)
            return reason("layers missing");
        return mesh.errors();
    }
    auto defaults = own != nullptr ? Result<const FrameworkDefaults*>(own) : framework_of(row);
    if (!defaults) return defaults.errors();
    if (own == nullptr && !row.framework.empty() && named_table(row).empty())
        c.assumed.push_back(fmt::format("framework \"{}\": taken for {}", row.framework, (*defaults)->name));
    auto graph = graph_of(row, **defaults, &c.assumed);
    if (!graph) return graph.errors();
    c.graph = std::move(*graph);
    if (Status cluster = set_cluster(row, c); !cluster) return cluster.errors();
    if (Status plan = set_plan(row, **defaults, c); !plan) return plan.errors();
    const PlanCheck check = check_plan(c.graph, c.cluster, c.plan);
    if (!check.errors.empty()) return reason("the plan is not legal: " + check.errors.front().message);
    return c;
}

}  // namespace tw
