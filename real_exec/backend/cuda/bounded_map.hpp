// A map of at most so many entries: one more takes the place of the one that was used longest ago.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <utility>

namespace tw::cuda {

template <class Key, class Value>
class BoundedMap {
  public:
    explicit BoundedMap(std::size_t most) : most_(most) {}  // at least 1

    // The key's value; where there is none, what `make` gives. Valid until the next call.
    template <class Make>
    Value& get(const Key& key, const Make& make) {
        const auto found = places_.find(key);
        if (found != places_.end()) {
            entries_.splice(entries_.begin(), entries_, found->second);
            return entries_.front().second;
        }
        entries_.emplace_front(key, make());
        places_.emplace(key, entries_.begin());
        if (entries_.size() > most_) {
            places_.erase(entries_.back().first);
            entries_.pop_back();
        }
        return entries_.front().second;
    }
    [[nodiscard]] std::size_t size() const { return entries_.size(); }

  private:
    using Entries = std::list<std::pair<Key, Value>>;
    std::size_t most_;
    Entries entries_;  // the latest used first
    std::map<Key, typename Entries::iterator> places_;
};

}  // namespace tw::cuda
