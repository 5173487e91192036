// What faster hardware would bring a plan: the same simulation with one figure of the hardware changed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "sim/simulator.hpp"

namespace tw {

struct HardwareChange {
    std::string what;  // "matrix products 2x as fast"
    std::shared_ptr<const Environment> environment;
};

// Each of these times `factor` (> 1) on every node: matrix products, device memory rate, device memory, links
// inside a node, network, dispatch by the host. What a cluster does not have is left out.
std::vector<HardwareChange> hardware_changes(const Environment& environment, double factor);

struct JudgedHardware {
    std::string what;
    Evaluation evaluation;
};

// By step time, then in the order above. An error where the plan itself cannot be simulated.
Result<std::vector<JudgedHardware>> judge_hardware(const Environment& environment, const ParallelPlan& plan,
                                                   double factor);

}  // namespace tw
