#include <string>

#include "plan/rules/rule.hpp"

namespace tw {

void check_hardware(const RuleContext& context, PlanCheck& check) {
    const Precision precision = context.plan.precision.compute;
    for (const NodeGroup& group : context.cluster.groups) {
        const Device& device = group.device;
        if (precision == Precision::Fp8 && device.peak_fp8.value <= 0) {
            const bool bf16 = device.peak_bf16.value > 0;
            refuse(context, check, PlanKnob::Precision, device.name + " has no fp8 arithmetic",
                   bf16 ? "bf16" : "fp16");
        } else if ((precision == Precision::Bf16 && device.peak_bf16.value <= 0) ||
                   (precision == Precision::Fp16 && device.peak_fp16.value <= 0) ||
                   (precision == Precision::Tf32 && device.peak_tf32.value <= 0)) {
            check.warnings.push_back(device.name + " has no " + std::string(to_string(precision)) +
                                     " arithmetic: matrix products run at the rate of fp32");
        }
    }
}

}  // namespace tw
