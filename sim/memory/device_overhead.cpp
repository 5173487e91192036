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

class Communicators {
  public:
    explicit Communicators(DeviceOverhead& overhead) : overhead_(overhead) {}
    void add(int size, int times = 1) {
        if (size < 2) return;
        overhead_.communicators += times * (size == 2 ? kCommunicatorOfTwo : kCommunicator);
        overhead_.count += times;
    }

  private:
    DeviceOverhead& overhead_;
};

// Ours (real_exec/runtime/groups.cpp): every group that the plan uses is a communicator of its own, whatever
// its size; a pipeline's neighbours have one for each direction and the whole of it none; nor have replicas
// that keep shards in parts of them.
void add_of_executor(const ParallelPlan& plan, bool tied_ends, Communicators& all) {
    const DeviceMesh& m = plan.mesh;
    for (const int size : {m.devices(), m.tp, m.cp, m.ep})
        all.add(size);
    all.add(2, 2 * std::min(m.pp - 1, 2));
    // The ends of a longer pipeline have one neighbour where ranks between have two.
    if (tied_ends && m.pp == 2) all.add(2);
    // Replicas or the parts that a shard cuts them into; once more for traffic layer by layer.
    const int times = plan.zero_stage > 1 ? 2 : 1;
    const auto replicas = [&](int size) {
        const bool cut = plan.zero_stage > 0 && plan.zero_shard > 0 && plan.zero_shard < size;
        if (!cut) {
            all.add(size, times);
            return;
        }
        all.add(plan.zero_shard, times);
        all.add(size / plan.zero_shard, times);
    };
    replicas(m.dp * m.cp);
    if (m.ep > 1) replicas(m.expert_dp());
}

void add_of_frameworks(const ParallelPlan& plan, Communicators& all) {
    const DeviceMesh& m = plan.mesh;
    const int world = m.devices();
    // The default group of all devices is used at least by barriers; others are communicators of their own
    // where they differ from it.
    all.add(world);
    for (const int size : {m.tp, m.cp, m.dp * m.cp, m.ep, m.etp}) {
        if (size < world) all.add(size);
    }
    // Replicas of experts: a group of its own, whatever its size (Megatron-LM core/parallel_state.py,
    // _EXPERT_DATA_PARALLEL_GROUP; layers that are not split among ep reduce with the dense ones:
    // transformer/moe/experts.py, allreduce = not expert_parallel).
    if (m.ep > 1) all.add(m.expert_dp());
    all.add(2, std::min(m.pp - 1, 2));  // a pipeline's neighbours
}

}  // namespace

DeviceOverhead device_overhead_parts(const ParallelPlan& plan, const Device& device, bool tied_ends) {
    DeviceOverhead overhead;
    overhead.context = context(plan, device);
    Communicators all(overhead);
    framework_defaults(plan.framework).own_executor ? add_of_executor(plan, tied_ends, all)
                                                    : add_of_frameworks(plan, all);
    return overhead;
}

double device_overhead(const ParallelPlan& plan, const Device& device, bool tied_ends) {
    const DeviceOverhead overhead = device_overhead_parts(plan, device, tied_ends);
    return overhead.context + overhead.communicators;
}

}  // namespace tw
