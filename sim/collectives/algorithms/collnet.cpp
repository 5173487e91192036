// CollNet (direct): reduce-scatter inside the node, one in-network reduction of the node's sum (SHARP),
// all-gather inside the node. The network carries S once per direction (Graham et al. 2016; NVIDIA/nccl
// src/graph/tuning.cc).
#include <algorithm>

#include "sim/collectives/algorithm.hpp"

namespace tw {

namespace {

bool applies(const GroupPlacement& at, const Fabric& fabric) {
    return fabric.collnet && at.nodes > 1;
}

CollectiveTraffic traffic(CollectiveKind kind, double bytes, const GroupPlacement& at) {
    const double l = at.per_node;
    const double rounds = kind == CollectiveKind::AllReduce ? 2 : 1;
    CollectiveTraffic t;
    t.link_bytes = rounds * (l - 1) / l * bytes;
    t.node_bytes = bytes;
    t.rank_bytes = t.link_bytes + bytes / l;
    t.intra_steps = rounds * std::min(1.0, l - 1);
    t.inter_steps = 1;
    t.fixed_seconds = rounds * (l - 1) * 0.4e-6;  // tuning.cc: 0.4 us for each peer of the node
    return t;
}

}  // namespace

extern const CollectiveAlgorithm kCollNet;
const CollectiveAlgorithm kCollNet = {
    .name = "collnet",
    .title = "CollNet (in-network reduction)",
    .latency_term = "all-reduce 2(a + (l-1) 0.4 us) + A",
    .bandwidth_term = "all-reduce max(2(l-1)/l S b, S B); all-gather, reduce-scatter max((l-1)/l S b, S B)",
    .source = "Graham et al. 2016 (SHARP); NVIDIA/nccl src/graph/tuning.cc",
    .nccl = NcclAlgorithm::CollNet,
    .kinds = KindSet(CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::ReduceScatter),
    .nccl_kinds =
        KindSet(CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::ReduceScatter),
    .applies = applies,
    .traffic = traffic,
};

}  // namespace tw
