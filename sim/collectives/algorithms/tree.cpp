// Double binary tree: two trees carry half of the data each, every rank an inner node of at most one
// (Sanders, Speck and Traeff 2009). NCCL's trees span nodes and run as a chain inside each node (NCCL 2.4).
//
// Per direction and for an all-reduce, a device in the middle of a chain takes in S going up and S coming
// down. Between nodes an inner node of one tree is a leaf of the other: two halves up, one half down and one
// half down make 2 S; with two nodes each is the root of one tree and moves S only, which is why two nodes
// exceed the network's bus bandwidth. Broadcast and reduce use one direction.
#include "sim/collectives/algorithm.hpp"

namespace tw {

namespace {

bool applies(const GroupPlacement&, const Fabric&) {
    return true;
}

CollectiveTraffic traffic(CollectiveKind kind, double bytes, const GroupPlacement& at) {
    const double n = at.size;
    const double ways = kind == CollectiveKind::AllReduce ? 2 : 1;
    CollectiveTraffic t;
    t.rank_bytes = ways * (n - 1) / n * bytes;
    t.link_bytes = at.per_node <= 1 ? 0 : (at.per_node == 2 ? 1 : ways) * bytes;
    t.node_bytes = at.nodes <= 1 ? 0 : (at.nodes == 2 ? 1 : ways) * bytes;
    t.intra_steps = ways * (at.per_node - 1);
    t.inter_steps = ways * ceil_log2(at.nodes);
    return t;
}

}  // namespace

extern const CollectiveAlgorithm kTree;
const CollectiveAlgorithm kTree = {
    .name = "tree",
    .title = "Double binary tree",
    .latency_term = "all-reduce 2((l-1)a + log2(N) A), broadcast and reduce half of it",
    .bandwidth_term = "all-reduce max(2S b, 2S B), S B on two nodes; broadcast, reduce S max(b, B)",
    .source = "Sanders, Speck and Traeff 2009; NVIDIA/nccl src/graph/tuning.cc, src/graph/trees.cc",
    .nccl = NcclAlgorithm::Tree,
    .kinds = KindSet(CollectiveKind::AllReduce, CollectiveKind::Broadcast, CollectiveKind::Reduce),
    .nccl_kinds = KindSet(CollectiveKind::AllReduce),
    .portable = true,
    .applies = applies,
    .traffic = traffic,
};

}  // namespace tw
