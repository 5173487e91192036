// Time of a kernel bound by memory traffic: latency plus bytes over the rate its class reaches.
//
//   t = latency + bytes (hit / l2_bandwidth + (1 - hit) / (bandwidth efficiency))
//
// hit = 1 where the traffic fits the level-2 cache, 0 from twice that size on, linear between. `efficiency`
// of a class (normalisation, softmax, ...) is relative to a plain copy. STREAM-like measurement: McCalpin
// 1995.
#pragma once

namespace tw {

struct MemoryCurve {
    double latency_s = 0;
    double bandwidth = 1e12;     // bytes/s, read plus written, of a plain copy
    double l2_bandwidth = 1e12;  // bytes/s while the traffic fits the cache
    double l2_bytes = 0;         // traffic that fits; 0: no such effect

    friend bool operator==(const MemoryCurve&, const MemoryCurve&) = default;
};

// efficiency > 0. `extra_latency_s`: of the class, beyond a plain kernel's. `cached_efficiency`: of the
// cache's bandwidth; 0: `efficiency`, at most 1.
double memory_seconds(const MemoryCurve& curve, double bytes, double efficiency = 1,
                      double extra_latency_s = 0, double cached_efficiency = 0);

}  // namespace tw
