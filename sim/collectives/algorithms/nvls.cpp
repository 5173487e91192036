// NVLink SHARP: the switch adds and multicasts. Each device owns S/l: it reads it reduced from the switch,
// for which every device sends its S/l, and writes the result once, which the switch copies to all. A
// device's port thus carries S + S/l per direction for an all-reduce (NCCL 2.17's release notes state the
// scheme; the term reproduces the measured bus bandwidth of 4 to 8 H200: 363, 414, 436, 460, 473 GB/s,
// stas00/ml-engineering network/README.md, to 2 % with one rate). Between nodes it needs in-network
// reduction.
#include "sim/collectives/algorithm.hpp"

namespace tw {

namespace {

bool applies(const GroupPlacement& at, const Fabric& fabric) {
    return fabric.nvls && at.per_node > 2 && (at.nodes == 1 || fabric.collnet);
}

CollectiveTraffic traffic(CollectiveKind kind, double bytes, const GroupPlacement& at) {
    const double l = at.per_node;
    CollectiveTraffic t;
    switch (kind) {
        case CollectiveKind::AllReduce:
            t.rank_bytes = (1 + 1 / l) * bytes;
            t.node_bytes = at.nodes > 1 ? bytes : 0;
            break;
        case CollectiveKind::AllGather:
            t.rank_bytes = bytes / at.size;
            break;
        default:
            t.rank_bytes = bytes;
            break;
    }
    t.link_bytes = kind == CollectiveKind::AllReduce ? t.rank_bytes : bytes;
    if (kind != CollectiveKind::AllReduce && at.nodes > 1) t.node_bytes = bytes;
    t.intra_steps = 1;
    t.inter_steps = at.nodes > 1 ? 1 : 0;
    return t;
}

}  // namespace

extern const CollectiveAlgorithm kNvls;
const CollectiveAlgorithm kNvls = {
    .name = "nvls",
    .title = "NVLink SHARP",
    .latency_term = "a + A",
    .bandwidth_term = "all-reduce (1+1/l)S b; all-gather, reduce-scatter S b",
    .source =
        "NVIDIA NCCL 2.17 release notes; stas00/ml-engineering network/README.md (H200, 4 to 8 devices)",
    .nccl = NcclAlgorithm::Nvls,
    .kinds = KindSet(CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::ReduceScatter),
    .nccl_kinds =
        KindSet(CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::ReduceScatter),
    .applies = applies,
    .traffic = traffic,
};

}  // namespace tw
