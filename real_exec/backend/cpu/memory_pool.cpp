#include "real_exec/backend/cpu/memory_pool.hpp"

#include <cstdlib>

#include "base/check.hpp"

namespace tw::cpu {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t rounded(std::size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

void* MemoryPool::allocate(std::size_t bytes) {
    const std::size_t size = rounded(bytes);
    const std::lock_guard lock(mutex_);
    const auto it = kept_.lower_bound(size);
    if (it != kept_.end() && it->first <= size + size / 4) {
        void* data = it->second;
        kept_.erase(it);
        return data;
    }
    void* data = std::aligned_alloc(kAlignment, size);
    if (data == nullptr && !kept_.empty()) {
        for (const auto& [kept_size, block] : kept_) {
            sizes_.erase(block);
            std::free(block);  // NOLINT(cppcoreguidelines-no-malloc)
        }
        kept_.clear();
        data = std::aligned_alloc(kAlignment, size);
    }
    TW_CHECK_MSG(data != nullptr, "out of memory");
    sizes_[data] = size;
    return data;
}

void MemoryPool::free(void* data) {
    const std::lock_guard lock(mutex_);
    const auto it = sizes_.find(data);
    TW_CHECK(it != sizes_.end());
    kept_.emplace(it->second, data);
}

void MemoryPool::release() {
    const std::lock_guard lock(mutex_);
    for (const auto& [size, block] : kept_) {
        sizes_.erase(block);
        std::free(block);  // NOLINT(cppcoreguidelines-no-malloc)
    }
    kept_.clear();
}

}  // namespace tw::cpu
