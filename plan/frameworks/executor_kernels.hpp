// The executor's own kernels that move memory, as the cost model names them: which class each one is timed
// as, and how often it reads or writes an element. The simulator makes operations of them
// (executor_work.hpp), the profiler times them under the same names: one table, so that both count the same
// bytes.
//
// Passes are counted in real_exec/layers and real_exec/backend: what a call is given to read and to write.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "models/graph/op.hpp"

namespace tw {

enum class ExecutorKernel : std::uint8_t {
    NormForward,
    NormBackward,       // with the residual's gradient added, gain and bias summed
    ActivationForward,  // of one tensor
    ActivationBackward,
    GatedForward,  // width: of the result
    GatedBackward,
    ResidualAdd,  // the branch, dropped out where the plan says so, plus the residual
    DropoutCopy,  // the same without a residual
    Rope,
    EmbeddingForward,
    EmbeddingBackward,
    PositionForward,
    PositionBackward,
    ColumnSum,  // a bias's gradient
    RowMax,     // of logits
    SoftmaxSums,
    LossBackward,
    OptimizerUpdate,  // width: parameters
    SquareSum,
    Fill,
    Add,
    Copy,
};

struct ExecutorKernelInfo {
    ExecutorKernel kernel;
    std::string_view name;  // of the profile's samples: "norm", "norm_backward"
    MemoryOpKind kind;      // the profile's class
    bool backward;
    double passes;  // over rows x width elements
};

std::span<const ExecutorKernelInfo> executor_kernels();
const ExecutorKernelInfo& info_of(ExecutorKernel kernel);
const ExecutorKernelInfo* find_executor_kernel(std::string_view name);  // null: none of that name

// What the attention kernel packs operands into while it runs on one thread
// (real_exec/backend/cpu/kernels/attention.cpp), with the padding of vectors of 16 floats.
double attention_scratch_bytes(std::int64_t seq_len, std::int64_t head_dim, bool backward);

// Its operation over rows x width elements of `element_bytes` each.
MemoryOp executor_op(ExecutorKernel kernel, double rows, double width, double element_bytes);

}  // namespace tw
