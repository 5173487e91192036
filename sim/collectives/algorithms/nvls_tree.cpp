// NVLink SHARP inside nodes, double binary tree between them (NCCL 2.18): the port carries what nvls.cpp
// says, the network what tree.cpp says.
#include "sim/collectives/algorithm.hpp"

namespace tw {

namespace {

bool applies(const GroupPlacement& at, const Fabric& fabric) {
    return fabric.nvls && at.per_node > 2 && at.nodes > 1;
}

CollectiveTraffic traffic(CollectiveKind, double bytes, const GroupPlacement& at) {
    const double l = at.per_node;
    CollectiveTraffic t;
    t.node_bytes = (at.nodes == 2 ? 1 : 2) * bytes;
    t.link_bytes = (1 + 1 / l) * bytes;
    t.rank_bytes = t.link_bytes + 2.0 * (at.nodes - 1) / at.size * bytes;
    t.intra_steps = 1;
    t.inter_steps = 2.0 * ceil_log2(at.nodes);
    return t;
}

}  // namespace

extern const CollectiveAlgorithm kNvlsTree;
const CollectiveAlgorithm kNvlsTree = {
    .name = "nvls-tree",
    .title = "NVLink SHARP with trees between nodes",
    .latency_term = "a + 2 log2(N) A",
    .bandwidth_term = "max((1+1/l)S b, 2S B), S B on two nodes",
    .source = "NVIDIA NCCL 2.18 release notes; NVIDIA/nccl src/graph/tuning.cc",
    .nccl = NcclAlgorithm::NvlsTree,
    .kinds = KindSet(CollectiveKind::AllReduce),
    .nccl_kinds = KindSet(CollectiveKind::AllReduce),
    .applies = applies,
    .traffic = traffic,
};

}  // namespace tw
