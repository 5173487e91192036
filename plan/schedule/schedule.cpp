#include "plan/schedule/schedule.hpp"

#include <algorithm>
#include <limits>

#include "base/check.hpp"

namespace tw {

std::uint16_t& DurationKeys::bucket_of(const DurationKey& key) {
    // Two odd multipliers spread the fields; the high bits, which depend on all of them, choose the bucket.
    const std::uint64_t low =
        (std::uint64_t{key.part} << 32U) | (std::uint64_t{key.stage} << 16U) | key.stage2;
    const std::uint64_t high = (std::uint64_t{key.group} << 8U) | static_cast<std::uint64_t>(key.opcode);
    const std::uint64_t hash = (low * 0x9e3779b97f4a7c15U) ^ (high * 0xc2b2ae3d27d4eb4fU);
    const std::size_t mask = buckets_.size() - 1;
    for (std::size_t i = (hash ^ (hash >> 32U)) & mask;; i = (i + 1) & mask) {
        std::uint16_t& bucket = buckets_[i];
        if (bucket == 0 || keys_[bucket - 1U] == key) return bucket;
    }
}

void DurationKeys::grow() {
    std::vector<std::uint16_t> old = std::move(buckets_);
    buckets_.assign(std::max<std::size_t>(old.size() * 4, 128), 0);
    for (const std::uint16_t entry : old) {
        if (entry != 0) bucket_of(keys_[entry - 1U]) = entry;
    }
}

std::uint16_t DurationKeys::find_or_add(const DurationKey& key) {
    if (2 * (keys_.size() + 1) > buckets_.size()) grow();
    std::uint16_t& bucket = bucket_of(key);
    if (bucket == 0) {
        TW_CHECK_MSG(keys_.size() < std::numeric_limits<std::uint16_t>::max(),
                     "too many instruction classes");
        keys_.push_back(key);
        bucket = static_cast<std::uint16_t>(keys_.size());
    }
    return static_cast<std::uint16_t>(bucket - 1U);
}

void DurationKeys::push_back(const DurationKey& key) {
    const std::size_t before = keys_.size();
    // No instruction can name an entry beyond these; check_schedule says so of a text that has more.
    if (before < std::numeric_limits<std::uint16_t>::max()) find_or_add(key);
    if (keys_.size() == before) keys_.push_back(key);
}

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

std::uint16_t Schedule::size_class(const DurationKey& key) {
    if (size_classes.empty()) size_classes.add_unused();
    return size_classes.find_or_add(key);
}

}  // namespace tw
