// Sizes of memory blocks that a run held, against the tensors of its plan: a block that fits no tensor as the
// plan splits it, but one that some axis did not split, names that axis (verl-project/verl#7476: context
// parallelism that changed nothing).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "models/graph/layer_graph.hpp"

namespace tw {

struct MeasuredBlock {
    double bytes = 0;
    std::int64_t count = 1;
};

// One block a line: "335544320", or "340 MiB x 138"; "#" begins a comment. Equal sizes are one block. Errors:
// Unreadable, each with its line.
Result<std::vector<MeasuredBlock>> parse_blocks(std::string_view text, std::string_view name);

struct BlockMatch {
    MeasuredBlock block;
    std::string layer, tensor;  // "block.0-63", "block.input"; empty: no tensor has that size
    double planned_bytes = 0;   // of that tensor as the plan splits it
    // "tp", "sp", "cp", "ep", "etp": the axis without which the tensor has the block's size; empty: the block
    // is as planned.
    std::string unsplit;
    [[nodiscard]] bool known() const { return !tensor.empty(); }
};

// Largest blocks first, as they are given otherwise. A block is as planned within 2 % (allocators round up),
// else it is a tensor that one axis did not split, the nearest within 10 %; else as planned within these.
// `own_executor` as in layer_sheets.
std::vector<BlockMatch> match_blocks(const LayerGraph& graph, const WorkShape& shape,
                                     std::vector<MeasuredBlock> blocks, bool own_executor = false);

}  // namespace tw
