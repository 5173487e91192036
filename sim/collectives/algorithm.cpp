#include "sim/collectives/algorithm.hpp"

#include <bit>

namespace tw {

double bus_factor(CollectiveKind kind, int ranks) {
    const double n = ranks > 1 ? ranks : 2;
    switch (kind) {
        case CollectiveKind::AllReduce:
            return 2 * (n - 1) / n;
        case CollectiveKind::AllGather:
        case CollectiveKind::ReduceScatter:
        case CollectiveKind::AllToAll:
            return (n - 1) / n;
        case CollectiveKind::Broadcast:
        case CollectiveKind::Reduce:
        case CollectiveKind::SendRecv:
            return 1;
    }
    return 1;
}

int ceil_log2(int n) {
    return n <= 1 ? 0 : std::bit_width(static_cast<unsigned>(n - 1));
}

}  // namespace tw
