// What a task on a timeline is: the kinds of work of our own traces, and those that only foreign traces have.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "plan/trace/event_text.hpp"

namespace tw {

// The first kWorkKinds values are those of Work.
enum class TaskKind : std::uint8_t {
    Forward,
    Backward,
    BackwardWeight,
    ForwardBackward,
    Optimizer,
    Memory,
    PipelineTransfer,
    DataParallel,
    TensorParallel,
    ExpertParallel,
    Offload,
    Host,
    Kernel,         // device work whose part in training the trace does not tell
    Communication,  // of a group that the trace does not tell
    CpuOp,          // host operators and runtime calls
    Annotation,     // spans that someone named
};
inline constexpr int kTaskKinds = 16;

constexpr TaskKind kind_of(Work work) {
    return static_cast<TaskKind>(work);
}
constexpr bool is_communication(TaskKind kind) {
    return (kind >= TaskKind::PipelineTransfer && kind <= TaskKind::Offload) ||
           kind == TaskKind::Communication;
}
// Keeps a device's arithmetic units busy.
constexpr bool is_device_work(TaskKind kind) {
    return kind <= TaskKind::Memory || kind == TaskKind::Kernel;
}

std::string_view title(TaskKind kind);  // "backward, weights", "kernel"
// The kind named by a title, a short name of Work ("pp", "dp") or the beginning of a title; false: none.
bool find_kind(std::string_view name, TaskKind& kind);

// From a foreign event: PyTorch's categories ("kernel", "gpu_memcpy", "cpu_op", "cuda_runtime", ...), NCCL's
// kernel names ("ncclDevKernel_AllReduce_..."), else by our own short names ("forward", "pp"). NCCL's kernel
// SendRecv is Communication: it serves all-to-alls and gathers as well as pipelines.
TaskKind foreign_kind(std::string_view category, std::string_view name);

// Of a collective's or an operation's name: does it send to, or receive from, one rank ("send",
// "c10d::recv_", "nccl:send 0->1")?
bool is_send_or_receive(std::string_view operation);

// Microbatch and stage in a name like "F mb3 s1"; each -1 where the name says none.
struct NamedPlace {
    std::int32_t microbatch = -1;
    std::int32_t stage = -1;
};
NamedPlace place_in_name(std::string_view name);

}  // namespace tw
