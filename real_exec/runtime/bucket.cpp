#include "real_exec/runtime/bucket.hpp"

#include <algorithm>

namespace tw {

std::vector<BucketRun> update_runs(const Bucket& bucket, std::span<const Parameter> parameters,
                                   std::int64_t begin, std::int64_t end, int first_layer,
                                   std::span<const std::int64_t> earlier) {
    std::vector<BucketRun> runs;
    for (std::size_t i = 0; i < bucket.slices.size(); ++i) {
        const BucketSlice& slice = bucket.slices[i];
        const std::int64_t next = i + 1 < bucket.slices.size() ? bucket.slices[i + 1].begin : bucket.elements;
        const std::int64_t from = std::max(begin, slice.begin), to = std::min(end, next);
        if (from >= to) continue;
        const Parameter& p = parameters[static_cast<std::size_t>(slice.parameter)];
        const std::int64_t updates = earlier[static_cast<std::size_t>(p.layer - first_layer)];
        if (!runs.empty() && runs.back().decay == p.decay && runs.back().earlier == updates) {
            runs.back().elements += to - from;
        } else {
            runs.push_back({from, to - from, p.decay, updates});
        }
    }
    return runs;
}

}  // namespace tw
