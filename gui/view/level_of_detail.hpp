// Level of detail: what a stretch of tasks amounts to without reading every one of them. Tasks lie in blocks
// of 64; each block stores, for every kind, the sums and counts of all blocks before it and its own longest
// task. Any stretch of a lane then costs two partial blocks and a subtraction, whatever its length: a pyramid
// whose levels are all there at once. 3.4 bytes a task.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/sim_time.hpp"
#include "gui/view/task_kind.hpp"

namespace tw {

struct KindSum {
    SimTime total = 0;
    std::int64_t count = 0;
    SimTime longest = 0;
};
using KindSums = std::array<KindSum, kTaskKinds>;

class LevelOfDetail {
  public:
    static constexpr std::size_t kBlock = 64;

    LevelOfDetail() = default;
    // Arrays of one length that outlive every call below with the same arrays.
    LevelOfDetail(std::span<const SimTime> start, std::span<const SimTime> finish,
                  std::span<const TaskKind> kind);

    // Adds what the tasks [first, last) are; exact.
    void add(std::span<const SimTime> start, std::span<const SimTime> finish, std::span<const TaskKind> kind,
             std::size_t first, std::size_t last, KindSums& sums) const;
    // The kind that fills most of [first, last), first < last; over more than 4 blocks that of the whole
    // blocks within. Equal shares: the first kind.
    [[nodiscard]] TaskKind dominant(std::span<const SimTime> start, std::span<const SimTime> finish,
                                    std::span<const TaskKind> kind, std::size_t first,
                                    std::size_t last) const;
    // First of the tasks [first, last) of one lane that starts at or after `time`.
    [[nodiscard]] std::size_t first_starting_at(std::span<const SimTime> start, std::size_t first,
                                                std::size_t last, SimTime time) const;

    [[nodiscard]] std::size_t bytes() const;

  private:
    // [block * kTaskKinds + kind]: of all tasks before the block.
    std::vector<SimTime> total_;
    std::vector<std::uint32_t> count_;
    std::vector<std::uint8_t> longest_;  // offset in the block of the longest of a kind
    std::vector<SimTime> block_start_;   // start of the block's first task
};

}  // namespace tw
