#include "sim/cost/one_thread.hpp"

namespace tw {

OneThread one_thread(const HardwareProfile& profile, bool crowded) {
    OneThread t;
    t.operation_s = host_dispatch_seconds(profile, "layer").value_or(0);
    for (const InterferenceEntry& entry : profile.interference) {
        if (entry.beside != "step" && (!crowded || entry.beside != "ranks")) continue;
        t.products *= entry.products;
        t.attention *= entry.attention;
        t.memory *= entry.memory;
    }
    return t;
}

}  // namespace tw
