// Device memory that is kept when it is freed: allocating is slow, a step's buffers come back every step. All
// kernels run on one stream, in call order, so a freed block may be handed out at once; segments come and go
// in the order of that stream too, without waiting for other streams, whose transfers may wait for a peer.
//
// Segments are multiples of 2 MiB; a request takes the smallest free block that holds it and gives the rest
// back; neighbours that are both free join. Thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "real_exec/backend/cuda/stream.hpp"

namespace tw::cuda {

class MemoryPool {
  public:
    explicit MemoryPool(Stream stream) : stream_(stream) {}
    MemoryPool(const MemoryPool&) = delete;
    MemoryPool& operator=(const MemoryPool&) = delete;
    ~MemoryPool() = default;  // what is in use or cached goes with the stream's device

    void* allocate(std::size_t bytes);  // 512-byte aligned; null: the device has no more
    void free(void* data);
    void release();                              // returns segments of which nothing is in use
    [[nodiscard]] std::size_t reserved() const;  // bytes held from the device

  private:
    struct Block {
        std::size_t bytes = 0;
        bool used = false;
        bool first = false;  // of its segment
    };
    using Blocks = std::map<char*, Block>;
    void join(Blocks::iterator block);

    Stream stream_;
    mutable std::mutex mutex_;
    Blocks blocks_;                                 // of all segments, by address
    std::set<std::pair<std::size_t, char*>> free_;  // by size
    std::size_t reserved_ = 0;
};

}  // namespace tw::cuda
