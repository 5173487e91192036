// TensorRegion: which elements of a whole tensor a rank holds. A tensor-parallel shard is a range of one axis
// in each of some equal blocks; ZeRO then takes a flat range of the shard's elements. Whatever the layout, a
// region is a list of runs: stretches of consecutive elements of the whole tensor, in row-major order, both
// in the tensor and in the rank's memory ascending. Checkpoints and weight files are read and written by
// runs, so that the layout that wrote them does not matter.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "real_exec/backend/tensor.hpp"
#include "real_exec/layers/stage_module.hpp"

namespace tw {

struct TensorRegion {
    Shape full_shape;  // of the whole tensor, padding rows included
    int axis = 0;
    int parts = 1;                        // equal blocks of the axis, each cut alike
    std::int64_t offset = 0, extent = 0;  // within one block
    // A flat range of the shard's elements; count -1: from `first` to the shard's end.
    std::int64_t first = 0, count = -1;
    // Rows of axis 0 at or beyond this index are padding: never stored, read as zeros; -1: none.
    std::int64_t padded_from = -1;

    [[nodiscard]] std::int64_t shard_elements() const;  // before the flat range
    [[nodiscard]] std::int64_t elements() const;        // that the rank's memory holds, padding included
    // Shape of the stored tensor: without padding rows.
    [[nodiscard]] Shape stored_shape() const;
};

// The whole tensor.
TensorRegion whole_region(const Shape& shape);
// What a parameter's shard is, or elements [first, first + count) of it.
TensorRegion region_of(const Parameter& parameter, std::int64_t first = 0, std::int64_t count = -1);

// Consecutive elements: [at, at + length) of the stored tensor are [local, local + length) of the region.
struct ElementRun {
    std::int64_t at = 0, local = 0, length = 0;
    friend bool operator==(const ElementRun&, const ElementRun&) = default;
};

// Ascending, adjacent runs merged, padding left out. The region is legal (check_region).
std::vector<ElementRun> runs_of(const TensorRegion& region);
// Elements of the runs, without making them: there may be as many runs as elements.
std::int64_t stored_elements(const TensorRegion& region);

// Names what is wrong with a region: an axis beyond the rank, blocks that do not divide it, a range outside.
Status check_region(const TensorRegion& region, std::string_view name);

// What two regions of the same stored tensor share, in elements local to each.
struct SharedRun {
    std::int64_t from = 0, to = 0, length = 0;
};
std::vector<SharedRun> shared_runs(const std::vector<ElementRun>& from, const std::vector<ElementRun>& to);

}  // namespace tw
