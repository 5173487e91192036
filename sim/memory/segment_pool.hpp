// Large blocks of PyTorch's caching allocator (c10/cuda/CUDACachingAllocator.cpp): a request is served by the
// smallest cached segment with room for it, else by a new segment of its own; freed segments stay reserved.
#pragma once

#include <cstddef>
#include <vector>

namespace tw {

class SegmentPool {
  public:
    // Returns the segment's number, for release(). Requests of 0 bytes cost nothing.
    std::size_t take(double bytes);
    void release(std::size_t segment, double bytes);
    [[nodiscard]] double reserved() const { return reserved_; }

  private:
    struct Segment {
        double free = 0;
    };
    std::vector<Segment> segments_;
    double reserved_ = 0;
};

}  // namespace tw
