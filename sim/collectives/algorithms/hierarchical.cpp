// Hierarchical (two-level): inside each node, then between nodes with every device on its own rail, then
// inside again. The stages follow each other (Cho et al. 2019, BlueConnect; Jia et al. 2018, section 3.2).
#include "sim/collectives/algorithm.hpp"

namespace tw {

namespace {

bool applies(const GroupPlacement& at, const Fabric&) {
    return at.nodes > 1 && at.per_node > 1 && at.nodes * at.per_node == at.size;
}

CollectiveTraffic traffic(CollectiveKind kind, double bytes, const GroupPlacement& at) {
    const double l = at.per_node;
    const double nodes = at.nodes;
    CollectiveTraffic t;
    t.staged = true;
    switch (kind) {
        case CollectiveKind::AllToAll:  // by destination device inside the node, then l messages of S l/n
                                        // between nodes
            t.link_bytes = (l - 1) / l * bytes;
            t.node_bytes = l * (nodes - 1) / nodes * bytes;
            t.rank_bytes = t.link_bytes + t.node_bytes / l;
            t.intra_steps = l - 1;
            t.inter_steps = nodes - 1;
            return t;
        case CollectiveKind::Broadcast:
        case CollectiveKind::Reduce:
            t.link_bytes = bytes;
            t.node_bytes = bytes;
            t.rank_bytes = (at.size - 1.0) / at.size * bytes;
            t.intra_steps = l - 1;
            t.inter_steps = nodes - 1;
            return t;
        default:
            break;
    }
    const double rounds = kind == CollectiveKind::AllReduce ? 2 : 1;
    t.link_bytes = rounds * (l - 1) / l * bytes;
    t.node_bytes = rounds * (nodes - 1) / nodes * bytes;
    t.rank_bytes = t.link_bytes + t.node_bytes / l;
    t.intra_steps = rounds * (l - 1);
    t.inter_steps = rounds * (nodes - 1);
    return t;
}

}  // namespace

extern const CollectiveAlgorithm kHierarchical;
const CollectiveAlgorithm kHierarchical = {
    .name = "hierarchical",
    .title = "Hierarchical, two levels",
    .latency_term = "all-reduce 2((l-1)a + (N-1)A), the others half of it",
    .bandwidth_term =
        "all-reduce 2(l-1)/l S b + 2(N-1)/N S B; all-gather, reduce-scatter half; all-to-all "
        "(l-1)/l S b + l(N-1)/N S B",
    .source = "Cho et al. 2019 (BlueConnect); Jia et al. 2018, section 3.2",
    .kinds = KindSet(CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::ReduceScatter,
                     CollectiveKind::AllToAll, CollectiveKind::Broadcast, CollectiveKind::Reduce),
    .portable = true,
    .applies = applies,
    .traffic = traffic,
};

}  // namespace tw
