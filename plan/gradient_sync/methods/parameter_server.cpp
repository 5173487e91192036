// Parameter servers (Li et al. 2014; Dean et al. 2012): each worker pushes its gradients and pulls
// parameters, S evenly divided among the servers; one server's port carries n S / servers each way.
// Synchronous servers wait for all workers; asynchronous ones apply each push at once, with staleness.hpp's
// distribution, bounded where a bound is given (Ho et al. 2013). One file for both: they send the same bytes.
#include <algorithm>
#include <limits>

#include "plan/gradient_sync/method_helpers.hpp"
#include "plan/gradient_sync/staleness.hpp"

namespace tw {

namespace {

Errors check_servers(const SyncOptions& options) {
    Errors errors;
    if (options.servers < 1)
        errors.push_back(
            sync_detail::rule("servers", "there are " + std::to_string(options.servers) + " servers", "1"));
    return errors;
}

SyncCost push_and_pull(const SyncRequest& request, const SyncOptions& options) {
    SyncCost cost;
    const double gradients = sync_detail::gradient_bytes(request);
    const double parameters = sync_detail::parameter_bytes(request);
    sync_detail::add(cost, request, {CollectiveKind::SendRecv, gradients, 1, SyncMoment::AfterBackward});
    if (request.replicas < 2) return cost;
    cost.collectives.push_back(
        {CollectiveKind::SendRecv, parameters, 1, SyncMoment::AfterOptimizer});  // sent by a server
    cost.server_bytes = request.replicas * std::max(gradients, parameters) / options.servers;
    return cost;
}

class ParameterServerSync final : public GradientSync {
  public:
    [[nodiscard]] SyncInfo info() const override {
        return {"ps-sync", "Parameter server, synchronous", "Li et al. 2014; Chen et al. 2016"};
    }
    [[nodiscard]] Errors check(const SyncRequest&, const SyncOptions& options) const override {
        return check_servers(options);
    }
    [[nodiscard]] SyncCost cost(const SyncRequest& request, const SyncOptions& options) const override {
        return push_and_pull(request, options);
    }
};

class ParameterServerAsync final : public GradientSync {
  public:
    [[nodiscard]] SyncInfo info() const override {
        return {"ps-async", "Parameter server, asynchronous",
                "Dean et al. 2012; Ho et al. 2013; Mitliagkas et al. 2016", Semantics::Asynchronous, false};
    }
    [[nodiscard]] Errors check(const SyncRequest&, const SyncOptions& options) const override {
        Errors errors = check_servers(options);
        if (options.staleness < -1)
            errors.push_back(sync_detail::rule(
                "staleness", "a staleness bound of " + std::to_string(options.staleness) + " clocks",
                "0, or -1 for none"));
        return errors;
    }
    [[nodiscard]] SyncCost cost(const SyncRequest& request, const SyncOptions& options) const override {
        SyncCost cost = push_and_pull(request, options);
        if (request.replicas < 2) return cost;
        cost.max_staleness = options.staleness < 0
                                 ? std::numeric_limits<double>::infinity()
                                 : parameter_server_staleness(request.replicas, options.staleness).max();
        return cost;
    }
};

}  // namespace

const GradientSync& parameter_server_sync();
const GradientSync& parameter_server_async();
const GradientSync& parameter_server_sync() {
    static const ParameterServerSync method;
    return method;
}
const GradientSync& parameter_server_async() {
    static const ParameterServerAsync method;
    return method;
}

}  // namespace tw
