#include "sim/cost/crowd_wait.hpp"

namespace tw {

CrowdWait crowd_wait(const HardwareProfile& profile) {
    CrowdWait wait;
    wait.long_s = host_dispatch_seconds(profile, "crowd").value_or(0);
    const auto product = host_dispatch_seconds(profile, "crowd product");
    const auto idle = host_dispatch_seconds(profile, "crowd idle");
    wait.idle_s = idle.value_or(wait.long_s);
    wait.half_long_s = host_dispatch_seconds(profile, "crowd half").value_or(wait.long_s);
    wait.half_idle_s = host_dispatch_seconds(profile, "crowd half idle").value_or(wait.idle_s);
    wait.product_s = product && idle ? *product : 0;
    wait.message_s = host_dispatch_seconds(profile, "crowd message").value_or(0);
    return wait;
}

}  // namespace tw
