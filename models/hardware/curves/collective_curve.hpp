// Time of a measured collective as a function of its size: the least of up to three lines alpha + bytes /
// rate, which are NCCL's three protocols, LL (low latency, a quarter to a half of the bandwidth), LL128 and
// Simple (full bandwidth, high latency); NCCL picks the fastest by the same comparison (NVIDIA/nccl,
// src/graph/tuning.cc). Hockney 1994 for one line.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

namespace tw {

struct AlphaBeta {
    double alpha_s = 0;
    double rate = 1e9;  // bytes of the collective's size per second (algorithm bandwidth)
    friend bool operator==(const AlphaBeta&, const AlphaBeta&) = default;
};

struct CollectiveCurve {
    std::vector<AlphaBeta> lines;  // at least one
    friend bool operator==(const CollectiveCurve&, const CollectiveCurve&) = default;
};

inline double collective_seconds(const CollectiveCurve& curve, double bytes) {
    double best = std::numeric_limits<double>::infinity();
    for (const AlphaBeta& line : curve.lines)
        best = std::min(best, line.alpha_s + bytes / line.rate);
    return best;
}

}  // namespace tw
