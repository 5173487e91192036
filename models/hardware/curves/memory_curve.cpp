#include "models/hardware/curves/memory_curve.hpp"

#include <algorithm>

namespace tw {

double memory_seconds(const MemoryCurve& curve, double bytes, double efficiency, double extra_latency_s,
                      double cached_efficiency) {
    double hit = 0;
    if (curve.l2_bytes > 0) hit = std::clamp(2.0 - bytes / curve.l2_bytes, 0.0, 1.0);
    const double far = 1.0 / (curve.bandwidth * efficiency);
    const double cached = cached_efficiency > 0 ? cached_efficiency : std::min(1.0, efficiency);
    const double near = std::min(far, 1.0 / (curve.l2_bandwidth * cached));
    return curve.latency_s + extra_latency_s + bytes * (hit * near + (1.0 - hit) * far);
}

}  // namespace tw
