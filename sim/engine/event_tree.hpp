// The next event of each of many numbered things: a tournament of their times. A change plays one way up of
// the tree again: where it goes is known at once and there is nothing to guess, so that it takes fewer cycles
// than a walk down a heap, whose every level depends on the one above. Each thing has one event, so none is
// ever out of date.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

#include "sim/engine/engine.hpp"

namespace tw {

class EventTree {
  public:
    void clear() {
        leaves_ = 1;
        entries_.assign(2, {});
    }
    // kNever: it has no event. Ids are small: the tree is as large as the largest.
    void set(int id, SimTime time) {
        const auto leaf = static_cast<std::size_t>(id);
        if (leaf >= leaves_) grow(leaf);
        Entry* entries = entries_.data();
        Entry first{time, id};
        for (std::size_t i = leaves_ + leaf; i > 1; i /= 2) {
            entries[i] = first;
            const Entry other = entries[i ^ 1U];
            // Which of two is first is anybody's guess: all bits are set where the other is, so that
            // compilers make no branch of it.
            const SimTime other_first = (other.time - first.time) >> 63;
            first.time = std::min(first.time, other.time);
            first.id ^= (first.id ^ other.id) & static_cast<int>(other_first);
        }
        entries[1] = first;
    }
    // Of the first event; kNever: there is none. Of several at one time, any.
    [[nodiscard]] SimTime time() const { return entries_[1].time; }
    [[nodiscard]] int id() const { return entries_[1].id; }

  private:
    struct Entry {
        SimTime time = kNever;
        int id = 0;
    };
    void grow(std::size_t leaf) {
        const std::vector<Entry> before = std::move(entries_);
        const std::size_t count = leaves_;
        leaves_ = std::bit_ceil(leaf + 1);
        entries_.assign(2 * leaves_, {});
        for (std::size_t i = 0; i < count; ++i)
            set(static_cast<int>(i), before[count + i].time);
    }

    std::size_t leaves_ = 1;  // a power of two
    // The first event of each subtree: the root's at 1, the children's of i at 2 * i and 2 * i + 1, and the
    // leaves' from leaves_.
    std::vector<Entry> entries_ = std::vector<Entry>(2);
};

}  // namespace tw
