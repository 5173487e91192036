// LayerSheet: the work of one kind of layer as one rank runs it, summed for people: FLOPs and bytes of its
// passes, what it sends, its parameters and its activations. The operations themselves are LayerWork's.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "models/graph/layer_graph.hpp"
#include "plan/parallel_plan.hpp"

namespace tw {

// Of one microbatch on one rank.
struct PassSheet {
    // Multiply-adds count two: matrix products, attention cores (op_flops: a causal one counts half) and
    // convolutions.
    double product_flops = 0;
    double other_flops = 0;  // of the kernels that memory bounds
    double bytes = 0;        // read and written in device memory, by all kernels
    // Sizes of collectives by axis as nccl-tests prints them (CollectiveOp::bytes); index: Axis.
    std::array<double, 7> collective_bytes{};

    [[nodiscard]] double all_collective_bytes() const;
    PassSheet& operator+=(const PassSheet& other);
};

struct LayerSheet {
    std::vector<int> layers;  // of the graph, ascending; all of one class
    LayerRole role = LayerRole::Block;
    std::string name;  // "embedding", "block.0-79", "block.1, ... block.59" where others lie between

    std::int64_t parameters = 0, active_parameters = 0;  // of one whole layer
    FlopCount model_flops;  // forward, one microbatch of all ranks together (LayerModel::model_flops)
    LayerWork work;         // one rank's, `by_op` filled in
    PassSheet forward, input_gradient, weight_gradient;

    [[nodiscard]] int count() const { return static_cast<int>(layers.size()); }
};

// One sheet a layer class, by first appearance. `own_executor`: the layers as trainwright's executor runs
// them on processors (plan/frameworks/executor_work.hpp).
std::vector<LayerSheet> layer_sheets(const LayerGraph& graph, const WorkShape& shape, bool own_executor);

// How a number on the sheets is computed, and who says so.
struct WorkFormula {
    std::string_view what, formula, source;
};
// Those that apply to these sheets.
std::vector<WorkFormula> work_formulas(const LayerGraph& graph, const WorkShape& shape);

}  // namespace tw
