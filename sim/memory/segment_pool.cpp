#include "sim/memory/segment_pool.hpp"

namespace tw {

std::size_t SegmentPool::take(double bytes) {
    std::size_t best = segments_.size();
    for (std::size_t i = 0; i < segments_.size(); ++i) {
        if (segments_[i].free < bytes) continue;
        if (best == segments_.size() || segments_[i].free < segments_[best].free) best = i;
    }
    if (best == segments_.size()) {
        segments_.push_back({bytes});
        reserved_ += bytes;
    }
    segments_[best].free -= bytes;
    return best;
}

void SegmentPool::release(std::size_t segment, double bytes) {
    segments_[segment].free += bytes;
}

}  // namespace tw
