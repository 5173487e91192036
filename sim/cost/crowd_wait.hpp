// What waiting for others costs where ranks share cores, beyond the cores' own time: the system runs ranks in
// slices, and whoever is waited for may not be the one that it runs. From the profile's host entries:
//
//   "crowd"          a collective after each rank has computed for a while, beyond that computation
//   "crowd product"  that while: a product by all ranks at once
//   "crowd idle"     a collective where nobody computes
//   "crowd half", "crowd half idle"   the same two of each half of the ranks by itself: while it waits the
//                    other half has the cores, so that the wait costs less
//   "crowd message"  a message between two ranks while all others compute
//
// After shorter computations a collective waits for less: a rank that is one computation ahead cannot hold a
// core for longer than that takes. Between "idle" and "product" the wait grows in proportion.
#pragma once

#include "models/hardware/profile.hpp"

namespace tw {

struct CrowdWait {
    double idle_s = 0, long_s = 0;            // of a collective of all ranks
    double half_idle_s = 0, half_long_s = 0;  // of one beside others
    double product_s = 0;                     // computations from which on it is long_s; 0: always
    double message_s = 0;

    // `computed_s`: by each rank since the collective before, on the shared cores. `all`: every rank takes
    // part.
    [[nodiscard]] double collective_s(double computed_s, bool all) const {
        const double most = all ? long_s : half_long_s, least = all ? idle_s : half_idle_s;
        if (product_s <= 0 || computed_s >= product_s) return most;
        return least + (most - least) * computed_s / product_s;
    }
};

// Nothing is waited for where the profile has no such entry.
CrowdWait crowd_wait(const HardwareProfile& profile);

}  // namespace tw
