// Prefetcher: a thread that prepares the samples of the next steps while this one trains.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.hpp"
#include "real_exec/data/dataset.hpp"

namespace tw {

// The samples of one microbatch, in host memory; see SampleRows for the layout.
struct HostBatch {
    std::int64_t first_sample = 0, count = 0;
    std::vector<std::int32_t> tokens, targets;
    std::vector<float> images;
};

struct PrefetchPlan {
    std::int64_t first_step = 0;
    std::int64_t last_step = 0;              // first step that is not needed
    std::vector<std::int64_t> first_sample;  // of each microbatch of this rank, within the global batch
    std::int64_t microbatch = 1;             // samples of each
    int depth = 2;                           // steps prepared ahead
};

class Prefetcher {
  public:
    // The dataset outlives the prefetcher.
    Prefetcher(const Dataset& dataset, PrefetchPlan plan);
    ~Prefetcher();
    Prefetcher(const Prefetcher&) = delete;
    Prefetcher& operator=(const Prefetcher&) = delete;

    // The microbatches of the next step, in the plan's order; waits for them. Steps come in order; asking for
    // another one than the next is a broken invariant.
    Result<std::vector<HostBatch>> take(std::int64_t step);
    // Seconds that take() waited in all.
    [[nodiscard]] double waited_s() const;

  private:
    struct Work;
    std::unique_ptr<Work> work_;
};

}  // namespace tw
