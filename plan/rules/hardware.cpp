#include <string>

#include "plan/rules/rule.hpp"

namespace tw {

void check_hardware(const RuleContext& context, PlanCheck& check) {
    const Precision precision = context.plan.precision.compute;
    for (const NodeGroup& group : context.cluster.groups) {
        const Device& device = group.device;
        const bool known = (precision == Precision::Fp8 && device.peak_fp8.value > 0) ||
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
}

}  // namespace tw
