// Ring: reduce-scatter then all-gather along a ring that enters and leaves each node once. Bandwidth-optimal:
// a rank sends 2(n-1)/n S for an all-reduce (Patarasuk and Yuan 2009; Thakur, Rabenseifner and Gropp 2005,
// section 4.5). Broadcast and reduce are a pipelined chain.
#include "sim/collectives/algorithm.hpp"

namespace tw {

namespace {

bool applies(const GroupPlacement&, const Fabric&) {
    return true;
}

CollectiveTraffic traffic(CollectiveKind kind, double bytes, const GroupPlacement& at) {
    const double n = at.size;
    const double rounds = kind == CollectiveKind::AllReduce ? 2 : 1;
    const bool chain = kind == CollectiveKind::Broadcast || kind == CollectiveKind::Reduce;
    const double moved = chain ? bytes : rounds * (n - 1) / n * bytes;
    CollectiveTraffic t;
    t.rank_bytes = chain ? (n - 1) / n * bytes : moved;
    t.link_bytes = at.per_node > 1 ? moved : 0;
    t.node_bytes = at.nodes > 1 ? moved : 0;
    t.inter_steps = rounds * (at.nodes - 1);
    t.intra_steps = rounds * (n - 1) - t.inter_steps;
    return t;
}

}  // namespace

extern const CollectiveAlgorithm kRing;
const CollectiveAlgorithm kRing = {
    .name = "ring",
    .title = "Ring",
    .latency_term = "all-reduce 2((n-N)a + (N-1)A), the others half of it",
    .bandwidth_term =
        "all-reduce 2(n-1)/n S max(b, B); all-gather, reduce-scatter (n-1)/n S; broadcast, reduce S",
    .source = "Patarasuk and Yuan 2009; Thakur et al. 2005, section 4; NVIDIA/nccl src/graph/tuning.cc",
    .nccl = NcclAlgorithm::Ring,
    .kinds = KindSet(CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::ReduceScatter,
                     CollectiveKind::Broadcast, CollectiveKind::Reduce),
    .nccl_kinds = KindSet(CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::ReduceScatter,
                          CollectiveKind::Broadcast, CollectiveKind::Reduce),
    .portable = true,
    .applies = applies,
    .traffic = traffic,
};

}  // namespace tw
