#include "sim/memory/device_overhead.hpp"

#include <algorithm>

#include "plan/frameworks/framework.hpp"

namespace tw {
namespace {

constexpr double kMiB = 1048576;
// One H200, PyTorch 2.11, CUDA 13.0 (0.55 GB at start, 0.89 GB in training; measured 2026-11-29).
constexpr double kContextBytes = 0.89e9;
// Before CUDA 11.7 a context loads every kernel of every library: what nvidia-smi shows after
// torch.ones(1).cuda() (bigscience experiments/tr3m-1B3.md, calibration: V100; train/tr11-176B-ml/
// chronicles-prequel.md: A100).
constexpr double kContextVolta = 1113 * kMiB;
constexpr double kContextAmpere = 1573 * kMiB;
// Buffers of one communicator after its first all-reduce, A100 with NVLink: of two devices, and of more
// (NVIDIA/nccl issue 964). They grow no further beyond two nodes (issue 864).
constexpr double kCommunicatorOfTwo = 544 * kMiB;
constexpr double kCommunicator = 688 * kMiB;

double context(const ParallelPlan& plan, const Device& device) {
    if (framework_defaults(plan.framework).lazy_kernels) return kContextBytes;
    if (device.architecture == "volta") return kContextVolta;
    return device.architecture == "ampere" ? kContextAmpere : kContextBytes;
}

double communicator(int size) {
    if (size < 2) return 0;
    return size == 2 ? kCommunicatorOfTwo : kCommunicator;
}

// Ours (real_exec/runtime/groups.cpp): every group that the plan uses is a communicator of its own, whatever
// its size; a pipeline's neighbours have one for each direction beside the group's.
double executor_communicators(const ParallelPlan& plan) {
    const DeviceMesh& m = plan.mesh;
    double bytes = communicator(m.devices()) + communicator(m.tp) + communicator(m.cp) + communicator(m.ep) +
                   communicator(m.pp) + 2 * (m.pp > 2 ? 2 : m.pp - 1) * kCommunicatorOfTwo;
    // Replicas and the parts that a shard cuts them into; once more for traffic layer by layer.
    const auto replicas = [&](int size) {
        const int part = plan.zero_shard > 0 ? std::min(plan.zero_shard, size) : size;
        const double cut = part < size ? communicator(part) + communicator(size / part) : 0;
        return (plan.zero_stage > 1 ? 2 : 1) * (communicator(size) + cut);
    };
    bytes += replicas(m.dp * m.cp);
    return m.ep > 1 ? bytes + replicas(m.expert_dp()) : bytes;
}

}  // namespace

double device_overhead(const ParallelPlan& plan, const Device& device) {
    const DeviceMesh& m = plan.mesh;
    const int world = m.devices();
    if (plan.framework == "trainwright") return context(plan, device) + executor_communicators(plan);
    // The default group of all devices is used at least by barriers; others are communicators of their own
    // where they differ from it.
    double bytes = context(plan, device) + communicator(world);
    for (const int size : {m.tp, m.cp, m.dp * m.cp, m.ep, m.etp}) {
        if (size < world) bytes += communicator(size);
    }
    // Replicas of experts: a group of its own, whatever its size (Megatron-LM core/parallel_state.py,
    // _EXPERT_DATA_PARALLEL_GROUP; layers that are not split among ep reduce with the dense ones:
    // transformer/moe/experts.py, allreduce = not expert_parallel).
    if (m.ep > 1) bytes += communicator(m.expert_dp());
    // A pipeline's neighbours.
    if (m.pp > 1) bytes += (m.pp > 2 ? 2 : 1) * kCommunicatorOfTwo;
    return bytes;
}

}  // namespace tw
