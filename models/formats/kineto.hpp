// What a PyTorch profiler's trace (Kineto) says of one rank: which device, which kernels and copies took how
// long, which collectives among whom. Read in one pass of trace_events.hpp; what is kept is the different
// kernels, the collectives, and 16 bytes of every kernel (for the busy time).
//
// Device work has the category kernel, gpu_memcpy or gpu_memset (any case). Collectives are kernels whose
// name begins with "nccl" (RCCL keeps the names) and say "Collective name", "In msg nelems", "Out msg
// nelems", "dtype", "Group size", "Process Group Name" among their args since PyTorch 2.2; before, the
// record_param_comms op of the same "External id" does, or nobody. A kernel's duration holds its waiting for
// the other ranks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "models/formats/finding.hpp"
#include "models/formats/trace_events.hpp"
#include "models/graph/op.hpp"

namespace tw {

struct KinetoDevice {
    std::string name;  // "NVIDIA H100 80GB HBM3"
    std::int64_t memory_bytes = 0;
    int multiprocessors = 0;
};

struct KinetoKernel {
    std::string name;
    std::int64_t count = 0;
    double total_s = 0, shortest_s = 0, longest_s = 0;
};

// One operation at one shape: what its kernels took together (kineto_operations.hpp).
struct KinetoOperation {
    std::string name;                             // "aten::addmm"
    std::vector<std::vector<std::int64_t>> dims;  // of each input; empty: no tensor
    std::vector<std::vector<std::int64_t>> strides;
    std::vector<std::string> types;   // "c10::BFloat16", "Scalar"
    std::vector<std::string> values;  // of inputs that are no tensors: "True", "0.5"; "" for tensors
    std::string kernel;               // the longest of its kernels
    std::int64_t count = 0;
    double total_s = 0, median_s = 0;
};

struct KinetoCopy {
    std::string name;  // "Memcpy HtoD (Pinned -> Device)"
    std::int64_t count = 0, bytes = 0;
    double total_s = 0;
    double best_rate = 0;  // bytes/s of the fastest copy of 1 MiB or more; 0: none
};

struct KinetoCollective {
    std::optional<CollectiveKind> kind;  // nothing: a kernel of NCCL's that serves several
    int group_size = 0;                  // 0: unknown
    std::int64_t bytes = 0;              // as nccl-tests' size column (CollectiveOp::bytes); 0: unknown
    std::string group;                   // process group's name; "" unknown
    std::int64_t start_ns = 0;           // as the trace's ts; baseTimeNanoseconds added
    double duration_s = 0;
};

struct KinetoGroup {
    std::string name;
    std::vector<int> ranks;
};

struct KinetoTrace {
    int rank = -1, world_size = 0;  // -1, 0: the trace does not say
    std::string backend;            // "nccl"
    std::vector<KinetoDevice> devices;
    std::vector<KinetoGroup> groups;  // process groups whose ranks distributedInfo lists
    std::int64_t events = 0, bytes = 0;
    std::int64_t host_ops = 0, device_events = 0, launches = 0;
    double span_s = 0;                           // from the first timed event to the end of the last
    double busy_s = 0;                           // of the device: at least one kernel or copy runs
    std::vector<double> steps_s;                 // of the ProfilerStep annotations, in order
    std::vector<KinetoKernel> kernels;           // most time first
    std::vector<KinetoOperation> operations;     // whose shapes are recorded, most time first
    std::int64_t operations_without_shapes = 0;  // products, attention and norms that say none
    std::vector<KinetoCopy> copies;              // most bytes first
    std::vector<KinetoCollective> collectives;   // by start
    std::vector<Finding> findings;

    [[nodiscard]] double median_step_s() const;  // 0 without steps
};

// Errors: those of read_trace_events.
Result<KinetoTrace> read_kineto(const std::filesystem::path& path, const TraceReadOptions& options = {});
Result<KinetoTrace> read_kineto_text(std::string_view text, std::string_view name);

}  // namespace tw
