// A thread-safe cache of shared, immutable values: the most recently used ones, up to a number of bytes.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace tw {

template <class Value>
class RecentCache {
  public:
    using Key = std::vector<std::int64_t>;  // everything that decides the value

    explicit RecentCache(std::int64_t capacity_bytes) : capacity_(capacity_bytes) {}

    // Null where it is not held.
    std::shared_ptr<const Value> find(const Key& key) {
        const std::lock_guard lock(mutex_);
        const auto found = index_.find(key);
        if (found == index_.end()) return nullptr;
        entries_.splice(entries_.begin(), entries_, found->second);
        return found->second->value;
    }

    // Keeps what is already there where another thread was faster.
    void add(Key key, std::shared_ptr<const Value> value, std::int64_t bytes) {
        const std::lock_guard lock(mutex_);
        if (index_.contains(key)) return;
        entries_.push_front({key, std::move(value), bytes});
        index_.emplace(std::move(key), entries_.begin());
        bytes_ += bytes;
        while (bytes_ > capacity_ && entries_.size() > 1) {
            bytes_ -= entries_.back().bytes;
            index_.erase(entries_.back().key);
            entries_.pop_back();
        }
    }

  private:
    struct Entry {
        Key key;
        std::shared_ptr<const Value> value;
        std::int64_t bytes = 0;
    };
    using List = std::list<Entry>;

    std::mutex mutex_;
    List entries_;  // most recently used first
    std::map<Key, typename List::iterator> index_;
    std::int64_t bytes_ = 0;
    std::int64_t capacity_;
};

}  // namespace tw
