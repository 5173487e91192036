// Naive all-reduce: every rank sends to the root, which adds and sends the sum to each in turn. What a
// parameter server on one rank costs; the root's port is the bottleneck (Thakur et al. 2005, section 4.5
// starts from it; Li et al. 2014).
#include "sim/collectives/algorithm.hpp"

namespace tw {

namespace {

bool applies(const GroupPlacement&, const Fabric&) {
    return true;
}

CollectiveTraffic traffic(CollectiveKind kind, double bytes, const GroupPlacement& at) {
    const double n = at.size;
    const double l = at.per_node;
    const double ways = kind == CollectiveKind::AllReduce ? 2 : 1;  // in, then out: one after the other
    CollectiveTraffic t;
    t.rank_bytes = ways * (n - 1) / n * bytes;
    t.link_bytes = ways * (l - 1) * bytes;
    t.node_bytes = ways * (n - l) * bytes;
    t.intra_steps = ways * (l - 1);
    t.inter_steps = ways * (n - l);
    t.staged = true;
    return t;
}

}  // namespace

extern const CollectiveAlgorithm kReduceBroadcast;
const CollectiveAlgorithm kReduceBroadcast = {
    .name = "reduce-broadcast",
    .title = "Naive reduce and broadcast through one root",
    .latency_term = "all-reduce 2((l-1)a + (n-l)A), broadcast and reduce half of it",
    .bandwidth_term = "all-reduce 2(l-1)S b + 2(n-l)S B, broadcast and reduce half of it",
    .source = "Thakur et al. 2005, section 4; Li et al. 2014 (parameter server)",
    .kinds = KindSet(CollectiveKind::AllReduce, CollectiveKind::Broadcast, CollectiveKind::Reduce),
    .portable = true,
    .applies = applies,
    .traffic = traffic,
};

}  // namespace tw
