#include "plan/frameworks/executor_kernels.hpp"

#include <array>

namespace tw {
namespace {

using K = ExecutorKernel;
using M = MemoryOpKind;

// Classes: those of the other frameworks where there is one alike. A plain activation is timed apart from a
// gated one (BiasAct and Activation), a sum over columns as Other, what works on gradients alone as
// GradAccumulate.
constexpr std::array kKernels = {
    ExecutorKernelInfo{K::NormForward, "norm", M::Norm, false, 2},
    ExecutorKernelInfo{K::NormBackward, "norm_backward", M::Norm, true, 4},
    ExecutorKernelInfo{K::ActivationForward, "activation", M::BiasAct, false, 2},
    ExecutorKernelInfo{K::ActivationBackward, "activation_backward", M::BiasAct, true, 3},
    ExecutorKernelInfo{K::GatedForward, "gated", M::Activation, false, 3},
    ExecutorKernelInfo{K::GatedBackward, "gated_backward", M::Activation, true, 5},
    ExecutorKernelInfo{K::ResidualAdd, "residual_add", M::BiasDropoutAdd, false, 3},
    ExecutorKernelInfo{K::DropoutCopy, "dropout_copy", M::Dropout, false, 2},
    ExecutorKernelInfo{K::Rope, "rope", M::Rope, false, 2},
    ExecutorKernelInfo{K::EmbeddingForward, "embedding", M::Embedding, false, 2},
    ExecutorKernelInfo{K::EmbeddingBackward, "embedding_backward", M::Embedding, true, 3},
    ExecutorKernelInfo{K::PositionForward, "position", M::Add, false, 3},
    ExecutorKernelInfo{K::PositionBackward, "position_backward", M::Add, true, 3},
    ExecutorKernelInfo{K::ColumnSum, "column_sum", M::Other, true, 1},
    ExecutorKernelInfo{K::RowMax, "row_max", M::Softmax, false, 1},
    ExecutorKernelInfo{K::SoftmaxSums, "softmax_sums", M::CrossEntropy, false, 1},
    ExecutorKernelInfo{K::LossBackward, "loss_backward", M::CrossEntropy, true, 2},
    ExecutorKernelInfo{K::OptimizerUpdate, "optimizer", M::Optimizer, false, 7},
    ExecutorKernelInfo{K::SquareSum, "square_sum", M::GradAccumulate, false, 1},
    ExecutorKernelInfo{K::Fill, "fill", M::Other, false, 1},
    ExecutorKernelInfo{K::Add, "add", M::GradAccumulate, true, 3},
    ExecutorKernelInfo{K::Copy, "copy", M::Copy, false, 2},
};

}  // namespace

std::span<const ExecutorKernelInfo> executor_kernels() {
    return kKernels;
}

const ExecutorKernelInfo& info_of(ExecutorKernel kernel) {
    return kKernels[static_cast<std::size_t>(kernel)];
}

const ExecutorKernelInfo* find_executor_kernel(std::string_view name) {
    for (const ExecutorKernelInfo& info : kKernels) {
        if (info.name == name) return &info;
    }
    return nullptr;
}

MemoryOp executor_op(ExecutorKernel kernel, double rows, double width, double element_bytes) {
    const ExecutorKernelInfo& info = info_of(kernel);
    MemoryOp op;
    op.kind = info.kind;
    op.backward = info.backward;
    op.bytes = info.passes * rows * width * element_bytes;
    return op;
}

double attention_scratch_bytes(std::int64_t seq_len, std::int64_t head_dim, bool backward) {
    constexpr std::int64_t kVector = 16, kPanel = 64, kBlock = 36;
    const auto padded = [](std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; };
    const std::int64_t columns = padded(seq_len, kPanel), width = padded(head_dim, kVector);
    // Keys and values as rows, keys as panels too; blocks of queries, of their results and of scores. The
    // backward has the gradients of all of them.
    const std::int64_t floats = 2 * seq_len * width + columns * head_dim + kBlock * (2 * width + columns);
    return 4.0 * static_cast<double>(backward ? 2 * floats : floats);
}

}  // namespace tw
