#include "plan/schedule/schedule.hpp"

#include <algorithm>
#include <limits>

#include "base/check.hpp"

namespace tw {
namespace {

std::uint16_t find_or_add(std::vector<DurationKey>& keys, std::size_t first, const DurationKey& key) {
    const auto found = std::find(keys.begin() + static_cast<std::ptrdiff_t>(first), keys.end(), key);
    const auto index = static_cast<std::size_t>(found - keys.begin());
    if (found == keys.end()) {
        TW_CHECK_MSG(index <= std::numeric_limits<std::uint16_t>::max(), "too many instruction classes");
        keys.push_back(key);
    }
    return static_cast<std::uint16_t>(index);
}

}  // namespace

std::size_t Schedule::instruction_count() const {
    std::size_t count = 0;
    for (const RankProgram& program : programs)
        count += program.instructions.size();
    return count;
}

std::vector<std::uint16_t> Schedule::stages_of_rank(int rank) const {
    std::vector<std::uint16_t> found;
    for (std::size_t s = 0; s < rank_of_stage.size(); ++s) {
        if (rank >= rank_of_stage[s] && rank < rank_of_stage[s] + replicas_of_stage[s]) {
            found.push_back(static_cast<std::uint16_t>(s));
        }
    }
    return found;
}

std::uint16_t Schedule::duration_class(const DurationKey& key) {
    return find_or_add(duration_classes, 0, key);
}

std::uint16_t Schedule::size_class(const DurationKey& key) {
    if (size_classes.empty()) size_classes.emplace_back();
    return find_or_add(size_classes, 1, key);
}

}  // namespace tw
