// A 4-ary heap of events whose top is removed lazily: a push right after a pop takes the top's place with one
// walk down instead of two walks, which is what an event loop does almost always (an event ends one thing and
// starts another).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/check.hpp"

namespace tw {

// Events in the order of their keys, integers of up to 62 bits; equal ones in any order.
template <class Event, class Key = std::identity>
class EventHeap {
  public:
    void clear() {
        items_.clear();
        hole_ = false;
    }
    [[nodiscard]] bool empty() const { return items_.size() == (hole_ ? 1U : 0U); }
    // The least event; not empty.
    [[nodiscard]] const Event& top() const {
        return hole_ ? items_[least_child(0, items_.size())] : items_.front();
    }
    void pop() {
        if (hole_) fill();
        hole_ = true;
    }
    // The least event, which is then gone.
    Event take() {
        pop();
        return items_.front();
    }
    // Of the least event: less work than top().
    [[nodiscard]] std::int64_t top_key() const {
        if (!hole_) return key(items_.front());
        auto least = key(items_[1]);
        const std::size_t end = std::min<std::size_t>(5, items_.size());
        for (std::size_t child = 2; child < end; ++child)
            least = std::min(least, key(items_[child]));
        return least;
    }
    void push(Event event) {
        if (hole_) {
            hole_ = false;
            sink(event, items_.size());
            return;
        }
        std::size_t i = items_.size();
        items_.push_back(event);
        while (i > 0 && key(event) < key(items_[(i - 1) / 4])) {
            items_[i] = items_[(i - 1) / 4];
            i = (i - 1) / 4;
        }
        items_[i] = event;
    }

  private:
    [[nodiscard]] static std::int64_t key(const Event& event) { return Key{}(event); }
    // Of the children of i; there is one. Which is the least is anybody's guess, so among four
    // there are no branches: the number of a child is below its key.
    [[nodiscard]] std::size_t least_child(std::size_t i, std::size_t size) const {
        const std::size_t first = 4 * i + 1;
        const Event* children = items_.data() + first;
        if (first + 3 < size) {
            const auto numbered = [&](int child) { return key(children[child]) * 4 + child; };
            const std::int64_t least =
                std::min(std::min(numbered(0), numbered(1)), std::min(numbered(2), numbered(3)));
            return first + static_cast<std::size_t>(least & 3);
        }
        std::size_t least = first;
        for (std::size_t child = first + 1; child < size; ++child)
            least = key(items_[child]) < key(items_[least]) ? child : least;
        return least;
    }
    // Puts an event where the top was; the heap is the first `size` items.
    void sink(Event event, std::size_t size) {
        Event* items = items_.data();
        std::size_t i = 0;
        while (4 * i + 1 < size) {
            const std::size_t least = least_child(i, size);
            if (key(event) < key(items[least])) break;
            items[i] = items[least];
            i = least;
        }
        items[i] = event;
    }
    void fill() {
        TW_CHECK(!items_.empty());
        hole_ = false;
        const Event last = items_.back();
        items_.pop_back();
        if (!items_.empty()) sink(last, items_.size());
    }

    std::vector<Event> items_;
    bool hole_ = false;  // the top was taken and nothing has its place yet
};

}  // namespace tw
