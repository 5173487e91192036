#include "real_exec/checkpoint/tensor_region.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace tw {
namespace {

// Elements before and after the axis, multiplied.
struct Strides {
    std::int64_t outer = 1, inner = 1;
};

Strides strides_of(const TensorRegion& region) {
    Strides strides;
    for (int axis = 0; axis < region.full_shape.rank; ++axis) {
        if (axis < region.axis) strides.outer *= region.full_shape[axis];
        if (axis > region.axis) strides.inner *= region.full_shape[axis];
    }
    return strides;
}

// A tensor without dimensions is one block of one element.
std::int64_t axis_length(const TensorRegion& region) {
    return region.full_shape.rank == 0 ? 1 : region.full_shape[region.axis];
}

// A shard's elements in its own order: outer index, then block; a piece is what lies together in the tensor.
class Pieces {
  public:
    explicit Pieces(const TensorRegion& region)
        : axis_(axis_length(region)),
          parts_(region.parts),
          offset_(region.offset),
          inner_(strides_of(region).inner),
          piece_(region.extent * inner_) {}

    // Where element `local` of the shard lies in the tensor.
    [[nodiscard]] std::int64_t place(std::int64_t local) const {
        const std::int64_t piece = local / piece_, outer = piece / parts_, part = piece % parts_;
        return (outer * axis_ + part * (axis_ / parts_) + offset_) * inner_ + local % piece_;
    }
    [[nodiscard]] std::int64_t end_of_piece(std::int64_t local) const {
        return (local / piece_ + 1) * piece_;
    }

  private:
    std::int64_t axis_, parts_, offset_, inner_, piece_;
};

}  // namespace

std::int64_t TensorRegion::shard_elements() const {
    const Strides strides = strides_of(*this);
    return strides.outer * parts * extent * strides.inner;
}

std::int64_t TensorRegion::elements() const {
    return count >= 0 ? count : shard_elements() - first;
}

Shape TensorRegion::stored_shape() const {
    Shape shape = full_shape;
    if (padded_from >= 0 && shape.rank > 0) shape.dims[0] = std::min(shape.dims[0], padded_from);
    return shape;
}

TensorRegion whole_region(const Shape& shape) {
    TensorRegion region;
    region.full_shape = shape;
    region.extent = axis_length(region);
    return region;
}

TensorRegion region_of(const Parameter& parameter, std::int64_t first, std::int64_t count) {
    TensorRegion region;
    region.full_shape = parameter.full_shape;
    region.axis = parameter.shard_axis;
    region.parts = parameter.parts;
    region.offset = parameter.offset;
    region.extent = parameter.extent;
    region.first = first;
    region.count = count;
    region.padded_from = parameter.padded_from;
    return region;
}

std::vector<ElementRun> runs_of(const TensorRegion& region) {
    const Pieces pieces(region);
    const std::int64_t begin = region.first, end = begin + stored_elements(region);
    std::vector<ElementRun> runs;
    for (std::int64_t from = begin; from < end;) {
        const std::int64_t at = pieces.place(from);
        const std::int64_t length = std::min(pieces.end_of_piece(from), end) - from;
        if (!runs.empty() && runs.back().at + runs.back().length == at) {
            runs.back().length += length;
        } else {
            runs.push_back({at, from - begin, length});
        }
        from += length;
    }
    return runs;
}

std::int64_t stored_elements(const TensorRegion& region) {
    const std::int64_t stored = region.stored_shape().elements();
    const Pieces pieces(region);
    // Places ascend with the element: padding is what lies behind the last that is stored.
    std::int64_t low = region.first, high = region.first + region.elements();
    while (low < high) {
        const std::int64_t middle = low + (high - low) / 2;
        if (pieces.place(middle) < stored) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low - region.first;
}

Status check_region(const TensorRegion& region, std::string_view name) {
    const auto wrong = [&](std::string message) {
        return Error{ErrorCode::Failure, std::move(message), std::string(name), ""};
    };
    constexpr std::int64_t kMost = std::int64_t{1} << 48;
    std::int64_t elements = 1;
    for (int axis = 0; axis < region.full_shape.rank; ++axis) {
        const std::int64_t size = region.full_shape[axis];
        if (size < 0 || (size > 0 && elements > kMost / size))
            return wrong(fmt::format("dimension {} is {}, which is no size of a tensor", axis, size));
        elements *= size;
    }
    if (region.axis < 0 || region.axis >= std::max(1, region.full_shape.rank))
        return wrong(fmt::format("cut along axis {} of {}", region.axis, region.full_shape.rank));
    const std::int64_t axis = axis_length(region);
    if (region.parts < 1 || axis % region.parts != 0)
        return wrong(fmt::format("{} equal blocks of an axis of {}", region.parts, axis));
    if (region.offset < 0 || region.extent < 0 || region.offset > axis / region.parts ||
        region.extent > axis / region.parts - region.offset)
        return wrong(
            fmt::format("range {} + {} of a block of {}", region.offset, region.extent, axis / region.parts));
    const std::int64_t shard = region.shard_elements();
    if (region.first < 0 || region.first > shard || region.count < -1 || region.count > shard - region.first)
        return wrong(fmt::format("elements {} + {} of a shard of {}", region.first, region.count, shard));
    return ok();
}

std::vector<SharedRun> shared_runs(const std::vector<ElementRun>& from, const std::vector<ElementRun>& to) {
    std::vector<SharedRun> shared;
    std::size_t f = 0, t = 0;
    while (f < from.size() && t < to.size()) {
        const std::int64_t begin = std::max(from[f].at, to[t].at);
        const std::int64_t f_end = from[f].at + from[f].length, t_end = to[t].at + to[t].length;
        const std::int64_t end = std::min(f_end, t_end);
        if (begin < end) {
            shared.push_back(
                {from[f].local + (begin - from[f].at), to[t].local + (begin - to[t].at), end - begin});
        }
        if (f_end <= t_end) ++f;
        if (t_end <= f_end) ++t;
    }
    return shared;
}

}  // namespace tw
