// Memory that stays mapped between steps: fresh pages cost more to fault in than the kernels that write them.
// Freed blocks are kept by size and handed out again to a request that they fit closely. Thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace tw::cpu {

class MemoryPool {
  public:
    MemoryPool() = default;
    MemoryPool(const MemoryPool&) = delete;
    MemoryPool& operator=(const MemoryPool&) = delete;
    ~MemoryPool() { release(); }

    void* allocate(std::size_t bytes);  // 64-byte aligned; never null: out of memory is a CHECK
    void free(void* data);
    void release();  // returns all kept blocks to the system

  private:
    std::mutex mutex_;
    std::multimap<std::size_t, void*> kept_;
    std::map<void*, std::size_t> sizes_;  // of all blocks, handed out or kept
};

}  // namespace tw::cpu
