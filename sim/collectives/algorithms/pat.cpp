// PAT, parallel aggregated trees: Bruck's all-gather in reverse order so that buffers stay bounded; log2(n)
// steps at the ring's volume (Bruck et al. 1997; NCCL 2.23 release notes). NCCL allows it for one rank on
// each node.
#include "sim/collectives/algorithm.hpp"

namespace tw {

namespace {

bool applies(const GroupPlacement& at, const Fabric&) {
    return at.per_node == 1;
}

CollectiveTraffic traffic(CollectiveKind, double bytes, const GroupPlacement& at) {
    const double n = at.size;
    CollectiveTraffic t;
    t.rank_bytes = (n - 1) / n * bytes;
    t.node_bytes = t.rank_bytes;
    t.inter_steps = ceil_log2(at.size);
    return t;
}

}  // namespace

extern const CollectiveAlgorithm kPat;
const CollectiveAlgorithm kPat = {
    .name = "pat",
    .title = "Parallel aggregated trees",
    .latency_term = "log2(n) A",
    .bandwidth_term = "(n-1)/n S B",
    .source = "Bruck et al. 1997; NVIDIA NCCL 2.23 release notes; NVIDIA/nccl src/graph/tuning.cc",
    .nccl = NcclAlgorithm::Pat,
    .kinds = KindSet(CollectiveKind::AllGather, CollectiveKind::ReduceScatter),
    .nccl_kinds = KindSet(CollectiveKind::AllGather, CollectiveKind::ReduceScatter),
    .portable = true,
    .applies = applies,
    .traffic = traffic,
};

}  // namespace tw
