#include "sim/memory/device_overhead.hpp"

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

}  // namespace

DeviceOverhead device_overhead_parts(const ParallelPlan& plan, const Device& device) {
    const DeviceMesh& m = plan.mesh;
    const int world = m.devices();
    DeviceOverhead overhead;
    const auto add = [&](int size) {
        overhead.communicators += communicator(size);
        overhead.count += size > 1 ? 1 : 0;
    };
    // The default group of all devices is used at least by barriers; others are communicators of their own
    // where they differ from it.
    overhead.context = context(plan, device);
    add(world);
    for (const int size : {m.tp, m.cp, m.dp * m.cp, m.ep, m.etp}) {
        if (size < world) add(size);
    }
    // Replicas of experts: a group of its own, whatever its size (Megatron-LM core/parallel_state.py,
    // _EXPERT_DATA_PARALLEL_GROUP; layers that are not split among ep reduce with the dense ones:
    // transformer/moe/experts.py, allreduce = not expert_parallel).
    if (m.ep > 1) add(m.expert_dp());
    // A pipeline's neighbours.
    for (int neighbour = 0; neighbour < (m.pp > 2 ? 2 : m.pp - 1); ++neighbour)
        add(2);
    return overhead;
}

double device_overhead(const ParallelPlan& plan, const Device& device) {
    const DeviceOverhead overhead = device_overhead_parts(plan, device);
    return overhead.context + overhead.communicators;
}

}  // namespace tw
