// Point to point: one message between two ranks (Hockney 1994).
#include "sim/collectives/algorithm.hpp"

namespace tw {

namespace {

bool applies(const GroupPlacement&, const Fabric&) {
    return true;
}

CollectiveTraffic traffic(CollectiveKind, double bytes, const GroupPlacement& at) {
    CollectiveTraffic t;
    t.rank_bytes = bytes;
    t.link_bytes = at.nodes == 1 ? bytes : 0;
    t.node_bytes = at.nodes > 1 ? bytes : 0;
    t.intra_steps = at.nodes == 1 ? 1 : 0;
    t.inter_steps = at.nodes > 1 ? 1 : 0;
    return t;
}

}  // namespace

extern const CollectiveAlgorithm kPointToPoint;
const CollectiveAlgorithm kPointToPoint = {
    .name = "point-to-point",
    .title = "Point to point",
    .latency_term = "a or A",
    .bandwidth_term = "S b or S B",
    .source = "Hockney 1994",
    .nccl = NcclAlgorithm::P2p,
    .kinds = KindSet(CollectiveKind::SendRecv),
    .nccl_kinds = KindSet(CollectiveKind::SendRecv),
    .portable = true,
    .applies = applies,
    .traffic = traffic,
};

}  // namespace tw
