// Most orders of many microbatches repeat themselves between warm-up and drain: one period of every rank's
// actions follows another, for later microbatches. What is made of such an order repeats as well, so lowering
// works on an order with fewer periods and puts copies of one into the programs in the end.
#pragma once

#include <optional>
#include <vector>

#include "plan/schedule/schedule.hpp"

namespace tw {

// An order without most of its steady phase.
struct ShortOrder {
    ComputeOrder order;
    int removed = 0;  // periods
    int shift = 0;    // microbatches a period
    struct Rank {
        std::size_t begin = 0;    // the first action of the steady phase
        std::size_t period = 0;   // actions
        std::size_t periods = 0;  // that are left
    };
    std::vector<Rank> ranks;
};

// Nothing where the order has no long steady phase, replicates stages or spans several steps.
std::optional<ShortOrder> shorten(const ComputeOrder& order);

// Makes the schedule of a short order that of the whole one, and says so in Schedule::steady. False, and
// nothing changed, where the programs do not repeat.
bool lengthen(const ShortOrder& cut, Schedule& schedule);

}  // namespace tw
