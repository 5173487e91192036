// A 4-ary heap of events whose top is removed lazily: a push right after a pop takes the top's place with one
// walk down instead of two walks, which is what an event loop does almost always (an event ends one thing and
// starts another).
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/check.hpp"

namespace tw {

// Event has an operator<; equal ones come in any order.
template <class Event>
class EventHeap {
  public:
    void clear() {
        items_.clear();
        hole_ = false;
    }
    [[nodiscard]] bool empty() const { return items_.size() == (hole_ ? 1U : 0U); }
    // The least event; not empty.
    [[nodiscard]] const Event& top() const { return hole_ ? items_[least_child(0)] : items_.front(); }
    void pop() {
        if (hole_) fill();
        hole_ = true;
    }
    // The least event, which is then gone.
    Event take() {
        pop();
        return items_.front();
    }
    // Of the least event, where events are in the order of their keys first: less work than top().
    template <class Key>
    [[nodiscard]] auto top_key(const Key& key) const {
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
        while (i > 0 && event < items_[(i - 1) / 4]) {
            items_[i] = items_[(i - 1) / 4];
            i = (i - 1) / 4;
        }
        items_[i] = event;
    }

  private:
    // Of the children of i that exist; there is one.
    [[nodiscard]] std::size_t least_child(std::size_t i) const { return least_child(i, items_.size()); }
    [[nodiscard]] std::size_t least_child(std::size_t i, std::size_t size) const {
        std::size_t least = 4 * i + 1;
        if (least + 3 < size) {  // almost always; two comparisons at once, then one, and no branches
            const std::size_t a = least + less(least + 1, least);
            const std::size_t b = least + 2 + less(least + 3, least + 2);
            return a + (b - a) * less(b, a);
        }
        const std::size_t end = std::min(4 * i + 5, size);
        for (std::size_t child = least + 1; child < end; ++child)
            least = items_[child] < items_[least] ? child : least;
        return least;
    }
    [[nodiscard]] std::size_t less(std::size_t a, std::size_t b) const {
        return static_cast<std::size_t>(items_[a] < items_[b]);
    }
    // Puts an event where the top was; the heap is the first `size` items.
    void sink(Event event, std::size_t size) {
        std::size_t i = 0;
        while (4 * i + 1 < size) {
            const std::size_t least = least_child(i, size);
            if (event < items_[least]) break;
            items_[i] = items_[least];
            i = least;
        }
        items_[i] = event;
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
