// Pairwise all-to-all: each rank sends S/n to every other. NCCL issues all of them as one group of sends and
// receives (nccl-tests src/alltoall.cu); MPI walks through n-1 exchanges (Thakur et al. 2005, section 4.3).
#include "sim/collectives/algorithm.hpp"

namespace tw {

namespace {

bool applies(const GroupPlacement&, const Fabric&) {
    return true;
}

CollectiveTraffic traffic(CollectiveKind, double bytes, const GroupPlacement& at) {
    const double n = at.size;
    const double l = at.per_node;
    CollectiveTraffic t;
    t.rank_bytes = (n - 1) / n * bytes;
    t.link_bytes = (l - 1) / n * bytes;
    t.node_bytes = l * (n - l) / n * bytes;
    t.intra_steps = l - 1;
    t.inter_steps = n - l;
    return t;
}

}  // namespace

extern const CollectiveAlgorithm kPairwise;
const CollectiveAlgorithm kPairwise = {
    .name = "pairwise",
    .title = "Pairwise exchange",
    .latency_term = "(l-1)a + (n-l)A; NCCL's group overlaps them",
    .bandwidth_term = "max((l-1)/n S b, l(n-l)/n S B)",
    .source = "Thakur et al. 2005, section 4.3; NVIDIA/nccl-tests src/alltoall.cu",
    .nccl = NcclAlgorithm::P2p,
    .kinds = KindSet(CollectiveKind::AllToAll),
    .nccl_kinds = KindSet(CollectiveKind::AllToAll),
    .portable = true,
    .applies = applies,
    .traffic = traffic,
};

}  // namespace tw
