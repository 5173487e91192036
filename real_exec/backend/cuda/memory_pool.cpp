#include "real_exec/backend/cuda/memory_pool.hpp"

#include <iterator>

#include "base/check.hpp"
#include "real_exec/backend/cuda/runtime_api.hpp"

namespace tw::cuda {
namespace {

constexpr std::size_t kAlignment = 512;
constexpr std::size_t kSegment = std::size_t{2} << 20U;

std::size_t round_up(std::size_t bytes, std::size_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

}  // namespace

void* MemoryPool::allocate(std::size_t bytes) {
    const std::size_t size = round_up(bytes, kAlignment);
    const std::lock_guard lock(mutex_);
    auto found = free_.lower_bound({size, nullptr});
    if (found == free_.end()) {
        const std::size_t segment = round_up(size, kSegment);
        void* data = device_allocate(segment, stream_);
        if (data == nullptr) return nullptr;
        reserved_ += segment;
        auto* at = static_cast<char*>(data);
        blocks_[at] = {segment, false, true};
        found = free_.emplace(segment, at).first;
    }
    char* at = found->second;
    free_.erase(found);
    Block& block = blocks_[at];
    if (block.bytes > size) {
        blocks_[at + size] = {block.bytes - size, false, false};
        free_.emplace(block.bytes - size, at + size);
        block.bytes = size;
    }
    block.used = true;
    return at;
}

void MemoryPool::free(void* data) {
    const std::lock_guard lock(mutex_);
    const auto block = blocks_.find(static_cast<char*>(data));
    TW_CHECK(block != blocks_.end() && block->second.used);
    block->second.used = false;
    join(block);
}

void MemoryPool::join(Blocks::iterator block) {
    const auto next = std::next(block);
    if (next != blocks_.end() && !next->second.first && !next->second.used) {
        free_.erase({next->second.bytes, next->first});
        block->second.bytes += next->second.bytes;
        blocks_.erase(next);
    }
    if (!block->second.first) {
        const auto before = std::prev(block);
        if (!before->second.used) {
            free_.erase({before->second.bytes, before->first});
            before->second.bytes += block->second.bytes;
            blocks_.erase(block);
            block = before;
        }
    }
    free_.emplace(block->second.bytes, block->first);
}

void MemoryPool::release() {
    const std::lock_guard lock(mutex_);
    for (auto it = blocks_.begin(); it != blocks_.end();) {
        const auto next = std::next(it);
        const bool whole =
            it->second.first && !it->second.used && (next == blocks_.end() || next->second.first);
        if (whole) {
            free_.erase({it->second.bytes, it->first});
            reserved_ -= it->second.bytes;
            device_free(it->first, stream_);
            blocks_.erase(it);
        }
        it = next;
    }
}

std::size_t MemoryPool::reserved() const {
    const std::lock_guard lock(mutex_);
    return reserved_;
}

}  // namespace tw::cuda
