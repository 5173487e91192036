// Max-plus matrices over the ready times of a rank's streams: out[i] = max_j (in[j] + at[i][j]). Composition
// is exact, so a stage of 96 equal layers is a power of one layer's matrix (Baccelli, Cohen, Olsder, Quadrat
// 1992, chapter 3).
#pragma once

#include <algorithm>
#include <array>

#include "base/sim_time.hpp"

namespace tw {

// Comm: collectives of tensor, context and expert parallelism. Shard: gathers of parameters and reductions of
// gradients, another communicator's, which run beside them.
enum class CostStream : std::size_t { Host, Compute, Comm, Shard };
inline constexpr std::size_t kCostStreams = 4;
inline constexpr SimTime kUnreachable = -kNever;

struct MaxPlus {
    std::array<std::array<SimTime, kCostStreams>, kCostStreams> at{};

    static MaxPlus identity() {
        MaxPlus m;
        for (std::size_t i = 0; i < kCostStreams; ++i) {
            for (std::size_t j = 0; j < kCostStreams; ++j)
                m.at[i][j] = i == j ? 0 : kUnreachable;
        }
        return m;
    }

    using Row = std::array<SimTime, kCostStreams>;
    [[nodiscard]] Row& row(CostStream s) { return at[static_cast<std::size_t>(s)]; }
    [[nodiscard]] SimTime get(CostStream to, CostStream from) const {
        return at[static_cast<std::size_t>(to)][static_cast<std::size_t>(from)];
    }

    friend bool operator==(const MaxPlus&, const MaxPlus&) = default;
};

inline SimTime plus(SimTime a, SimTime b) {
    // No sum of two of them overflows.
    return a <= kUnreachable || b <= kUnreachable ? kUnreachable : std::min(a + b, kNever);
}

inline MaxPlus::Row max_rows(const MaxPlus::Row& a, const MaxPlus::Row& b) {
    MaxPlus::Row r;
    for (std::size_t j = 0; j < kCostStreams; ++j)
        r[j] = std::max(a[j], b[j]);
    return r;
}

inline MaxPlus::Row add_to_row(MaxPlus::Row row, SimTime d) {
    for (SimTime& x : row)
        x = plus(x, d);
    return row;
}

// `second` after `first`.
inline MaxPlus compose(const MaxPlus& first, const MaxPlus& second) {
    MaxPlus m;
    for (std::size_t i = 0; i < kCostStreams; ++i) {
        m.at[i].fill(kUnreachable);
        for (std::size_t k = 0; k < kCostStreams; ++k) {
            const SimTime after = second.at[i][k];
            if (after <= kUnreachable) continue;
            m.at[i] = max_rows(m.at[i], add_to_row(first.at[k], after));
        }
    }
    return m;
}

// n times in a row, n >= 0: repeated squaring.
inline MaxPlus power(MaxPlus base, int n) {
    MaxPlus result = MaxPlus::identity();
    while (n > 0) {
        if (n & 1) result = compose(result, base);
        n >>= 1;
        if (n > 0) base = compose(base, base);
    }
    return result;
}

}  // namespace tw
