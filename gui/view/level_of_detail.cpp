#include "gui/view/level_of_detail.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace tw {
namespace {

constexpr std::size_t kKinds = kTaskKinds;

std::size_t index_of(TaskKind kind) {
    return static_cast<std::size_t>(kind);
}

}  // namespace

LevelOfDetail::LevelOfDetail(std::span<const SimTime> start, std::span<const SimTime> finish,
                             std::span<const TaskKind> kind) {
    TW_CHECK(start.size() == finish.size() && start.size() == kind.size());
    const std::size_t blocks = (start.size() + kBlock - 1) / kBlock;
    total_.resize((blocks + 1) * kKinds);
    count_.resize((blocks + 1) * kKinds);
    longest_.resize(blocks * kKinds);
    block_start_.resize(blocks);
    for (std::size_t b = 0; b < blocks; ++b) {
        std::array<SimTime, kKinds> total{};
        std::array<std::uint32_t, kKinds> count{};
        std::array<SimTime, kKinds> longest{};
        std::array<std::uint8_t, kKinds> longest_at{};
        const std::size_t first = b * kBlock;
        const std::size_t last = std::min(first + kBlock, start.size());
        for (std::size_t i = first; i < last; ++i) {
            const std::size_t k = index_of(kind[i]);
            const SimTime duration = finish[i] - start[i];
            total[k] += duration;
            ++count[k];
            if (duration >= longest[k]) {
                longest[k] = duration;
                longest_at[k] = static_cast<std::uint8_t>(i - first);
            }
        }
        block_start_[b] = start[first];
        for (std::size_t k = 0; k < kKinds; ++k) {
            total_[(b + 1) * kKinds + k] = total_[b * kKinds + k] + total[k];
            count_[(b + 1) * kKinds + k] = count_[b * kKinds + k] + count[k];
            longest_[b * kKinds + k] = longest_at[k];
        }
    }
}

void LevelOfDetail::add(std::span<const SimTime> start, std::span<const SimTime> finish,
                        std::span<const TaskKind> kind, std::size_t first, std::size_t last,
                        KindSums& sums) const {
    const auto scan = [&](std::size_t from, std::size_t to) {
        for (std::size_t i = from; i < to; ++i) {
            KindSum& sum = sums[index_of(kind[i])];
            const SimTime duration = finish[i] - start[i];
            sum.total += duration;
            ++sum.count;
            sum.longest = std::max(sum.longest, duration);
        }
    };
    const std::size_t first_block = (first + kBlock - 1) / kBlock;
    const std::size_t last_block = last / kBlock;
    if (first_block >= last_block) return scan(first, last);
    scan(first, first_block * kBlock);
    for (std::size_t k = 0; k < kKinds; ++k) {
        const auto count = static_cast<std::int64_t>(count_[last_block * kKinds + k]) -
                           static_cast<std::int64_t>(count_[first_block * kKinds + k]);
        if (count == 0) continue;
        sums[k].total += total_[last_block * kKinds + k] - total_[first_block * kKinds + k];
        sums[k].count += count;
        for (std::size_t b = first_block; b < last_block; ++b) {
            if (count_[(b + 1) * kKinds + k] == count_[b * kKinds + k]) continue;
            const std::size_t at = b * kBlock + longest_[b * kKinds + k];
            sums[k].longest = std::max(sums[k].longest, finish[at] - start[at]);
        }
    }
    scan(last_block * kBlock, last);
}

TaskKind LevelOfDetail::dominant(std::span<const SimTime> start, std::span<const SimTime> finish,
                                 std::span<const TaskKind> kind, std::size_t first, std::size_t last) const {
    // Many lanes hold one kind alone.
    std::size_t same = first + 1;
    const std::size_t looked_at = std::min(last, first + 4 * kBlock);
    while (same < looked_at && kind[same] == kind[first])
        ++same;
    if (same == last) return kind[first];
    std::array<SimTime, kKinds> total{};
    if (last - first > 4 * kBlock) {
        const std::size_t first_block = (first + kBlock - 1) / kBlock;
        const std::size_t last_block = last / kBlock;
        for (std::size_t k = 0; k < kKinds; ++k)
            total[k] = total_[last_block * kKinds + k] - total_[first_block * kKinds + k];
        return static_cast<TaskKind>(std::max_element(total.begin(), total.end()) - total.begin());
    }
    // Totals only grow: the largest is known at the end without looking at all kinds. Never zero, so that
    // instants count too.
    std::size_t best = index_of(kind[first]);
    for (std::size_t i = first; i < last; ++i) {
        const std::size_t k = index_of(kind[i]);
        total[k] += finish[i] - start[i] + 1;
        if (total[k] > total[best] || (total[k] == total[best] && k < best)) best = k;
    }
    return static_cast<TaskKind>(best);
}

std::size_t LevelOfDetail::first_starting_at(std::span<const SimTime> start, std::size_t first,
                                             std::size_t last, SimTime time) const {
    if (first >= last || start[first] >= time) return first;
    // Near ones first: a column of a dense lane holds few tasks.
    std::size_t step = 1;
    while (first + step < last && step <= kBlock && start[first + step] < time)
        step *= 2;
    if (step > kBlock) {
        // The last block whose first task starts before; block starts outside this lane are not looked at.
        const std::size_t low = first / kBlock + 1;
        const std::size_t high = std::max(low, (last - 1) / kBlock + 1);
        const auto begin = block_start_.begin();
        const auto at = std::partition_point(begin + static_cast<std::ptrdiff_t>(low),
                                             begin + static_cast<std::ptrdiff_t>(high),
                                             [&](SimTime t) { return t < time; });
        const auto block = static_cast<std::size_t>(at - begin);
        first = std::max(first, (block - 1) * kBlock);
        last = std::min(last, block * kBlock);
    } else {
        first += step / 2;
        last = std::min(last, first + step / 2 + 1);
    }
    const auto from = start.begin() + static_cast<std::ptrdiff_t>(first);
    const auto to = start.begin() + static_cast<std::ptrdiff_t>(last);
    return static_cast<std::size_t>(std::partition_point(from, to, [&](SimTime t) { return t < time; }) -
                                    start.begin());
}

std::size_t LevelOfDetail::bytes() const {
    return total_.capacity() * sizeof(SimTime) + count_.capacity() * sizeof(std::uint32_t) +
           longest_.capacity() + block_start_.capacity() * sizeof(SimTime);
}

}  // namespace tw
