#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

#include "plan/frameworks/framework.hpp"
#include "plan/rules/attention_kernel.hpp"
#include "plan/rules/rule.hpp"

namespace tw {
namespace {

// Whether a device of the architecture has the kernel at all; of an unknown one nothing is known.
bool has_kernel(std::string_view architecture, AttentionKernel kernel) {
    // Neither AMD's nor later ones are among them.
    static constexpr std::array<std::string_view, 6> kNvidia = {"pascal", "volta", "turing",
                                                                "ampere", "ada",   "hopper"};
    if (architecture == "cpu") return kernel != AttentionKernel::Flash3 && kernel != AttentionKernel::CuDnn;
    const auto at = std::find(kNvidia.begin(), kNvidia.end(), architecture) - kNvidia.begin();
    const bool blackwell = architecture == "blackwell", amd = architecture.starts_with("cdna");
    if (at == std::ssize(kNvidia) && !blackwell && !amd) return true;
    switch (kernel) {
        case AttentionKernel::Unfused:
            return true;
        case AttentionKernel::Flash1:
            return at >= 2;
        case AttentionKernel::Flash2:
            return at >= 3;
        case AttentionKernel::Flash3:
            return architecture == "hopper";
        case AttentionKernel::CuDnn:
            return at >= 3 && !amd;
    }
    TW_CHECK_MSG(false, "unknown attention kernel");
}

void check_attention(const RuleContext& context, PlanCheck& check) {
    if (context.graph.heads == 0) return;
    const ParallelPlan& plan = context.plan;
    const Precision precision = plan.precision.compute;
    const std::string_view framework =
        context.target == TargetFramework::Megatron ? "megatron" : std::string_view(plan.framework);
    for (const NodeGroup& group : context.cluster.groups) {
        const std::string why = why_no_attention(group.device, plan.attention, precision, framework);
        if (why.empty()) continue;
        refuse(
            context, check, PlanKnob::Attention, why,
            fmt::format("attention {}", to_string(fastest_attention(context.cluster, precision, framework))));
        return;
    }
}

}  // namespace

std::string why_no_attention(const Device& device, AttentionKernel kernel, Precision precision,
                             std::string_view framework) {
    const FrameworkDefaults& defaults = framework_defaults(framework);
    const bool megatrons = defaults.host == HostCode::Megatron ||
                           defaults.host == HostCode::MegatronCompiled ||
                           defaults.host == HostCode::TransformerEngine;
    if (!megatrons && (kernel == AttentionKernel::Flash1 || kernel == AttentionKernel::Flash2)) return {};
    const bool wide = precision == Precision::Fp32 || precision == Precision::Tf32;
    if (wide && kernel != AttentionKernel::Unfused) {
        return fmt::format("attention {} computes in 16 bits or less, the plan in {}", to_string(kernel),
                           to_string(precision));
    }
    if (has_kernel(device.architecture, kernel)) return {};
    return fmt::format("attention {} does not run on {} ({})", to_string(kernel), device.name,
                       device.architecture);
}

AttentionKernel fastest_attention(const Cluster& cluster, Precision precision, std::string_view framework) {
    const auto runs = [&](AttentionKernel kernel) {
        return std::all_of(cluster.groups.begin(), cluster.groups.end(), [&](const NodeGroup& group) {
            return why_no_attention(group.device, kernel, precision, framework).empty();
        });
    };
    const AttentionKernel fastest = default_attention(cluster);
    for (const AttentionKernel kernel :
         {AttentionKernel::CuDnn, AttentionKernel::Flash2, AttentionKernel::Flash1}) {
        if (kernel <= fastest && runs(kernel)) return kernel;
    }
    return AttentionKernel::Unfused;
}

void check_hardware(const RuleContext& context, PlanCheck& check) {
    const Precision precision = context.plan.precision.compute;
    for (const NodeGroup& group : context.cluster.groups) {
        const Device& device = group.device;
        const bool known = (precision == Precision::Fp8 && device.peak_fp8.value > 0) ||
                           (precision == Precision::Nvfp4 && device.peak_nvfp4.value > 0) ||
                           (precision == Precision::Bf16 && device.peak_bf16.value > 0) ||
                           (precision == Precision::Fp16 && device.peak_fp16.value > 0) ||
                           (precision == Precision::Tf32 && device.peak_tf32.value > 0) ||
                           precision == Precision::Fp32;
        if (known) continue;
        // Emulated formats run at an unknown fraction of fp32's rate: no honest prediction.
        refuse(context, check, PlanKnob::Precision,
               device.name + " has no " + std::string(to_string(precision)) + " arithmetic",
               std::string(to_string(default_precision(context.cluster))));
    }
    check_attention(context, check);
}

}  // namespace tw
