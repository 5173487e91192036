#include "plan/gradient_sync/method_helpers.hpp"

namespace tw::sync_detail {

void add(SyncCost& cost, const SyncRequest& request, SyncCollective collective) {
    if (request.replicas < 2) return;
    cost.wire_bytes +=
        collective.times * rank_wire_bytes(collective.kind, collective.bytes, request.replicas);
    cost.collectives.push_back(collective);
}

Error rule(std::string_view key, std::string message, std::string hint) {
    return {ErrorCode::Usage, std::move(message), std::string(key), std::move(hint)};
}

double gradient_bytes(const SyncRequest& request) {
    return request.parameters * bytes_per_element(request.gradient);
}
double parameter_bytes(const SyncRequest& request) {
    return request.parameters * bytes_per_element(request.parameter);
}

}  // namespace tw::sync_detail
