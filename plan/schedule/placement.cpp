#include "plan/schedule/placement.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace tw {

std::vector<std::uint16_t> rank_of_stage(const ScheduleGenerator& generator, const ScheduleShape& shape) {
    using Key = std::pair<const ScheduleGenerator*, std::vector<int>>;
    thread_local std::map<Key, std::vector<std::uint16_t>> known;
    std::vector<int> sizes = {shape.ranks, shape.virtual_stages};
    sizes.insert(sizes.end(), shape.replicas.begin(), shape.replicas.end());
    Key key{&generator, std::move(sizes)};
    if (const auto it = known.find(key); it != known.end()) return it->second;
    ScheduleShape smallest = shape;
    smallest.microbatch_group = 0;
    smallest.microbatches = shape.ranks;
    if (!generator.check(smallest).empty()) smallest = shape;
    return known.emplace(std::move(key), generator.generate(smallest, nullptr).rank_of_stage).first->second;
}

}  // namespace tw
