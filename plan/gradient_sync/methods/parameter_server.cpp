// Parameter servers (Li et al. 2014; Dean et al. 2012): each of n workers pushes its gradients S and pulls
// parameters P, both evenly divided among k servers. k machines of their own: one server's port takes in
// n S / k and sends n P / k. A shard on every worker (k = 0): all but its own share goes over the wire,
// (n-1)/n of S and of P, and one port carries both, as a worker's and as a server's, in each direction.
//
// Synchronous servers wait for all workers: the pushes of all arrive together, then the pulls leave together,
// each bounded by the port (SyncCollective::server_bytes). Asynchronous ones apply each push at once, with
// staleness.hpp's distribution, bounded where a bound is given (Ho et al. 2013): a worker waits for its own
// answer alone, and pushes and pulls of different workers pass the port at the same time. What paces them is
// sim/cost/plan_cost.hpp's (PlanCost::least_period).
//
// Approximate: the update is costed once a step on each worker, which is exact for shards on the workers.
// Servers of their own apply n / k of it for each push, and what their processors take is not known. One file
// for both: they send the same bytes.
#include <algorithm>
#include <array>
#include <limits>

#include "plan/gradient_sync/method_helpers.hpp"
#include "plan/gradient_sync/staleness.hpp"

namespace tw {

namespace {

Errors check_servers(const SyncOptions& options) {
    Errors errors;
    if (options.servers < 0)
        errors.push_back(sync_detail::rule("servers", std::to_string(options.servers) + " servers",
                                           "1, or 0 for a shard on every replica"));
    return errors;
}

SyncCost push_and_pull(const SyncRequest& request, const SyncOptions& options) {
    SyncCost cost;
    if (request.replicas < 2) return cost;
    const double n = request.replicas;
    const bool on_workers = options.servers == 0;
    const double sent = on_workers ? (n - 1) / n : 1;                  // of a worker's bytes
    const double at_server = on_workers ? sent : n / options.servers;  // of them, through a server's port
    const auto exchange = [&](double bytes, SyncMoment moment) {
        cost.collectives.push_back({CollectiveKind::SendRecv, sent * bytes, 1, moment, at_server * bytes});
    };
    const double gradients = sync_detail::gradient_bytes(request);
    const double parameters = sync_detail::parameter_bytes(request);
    exchange(gradients, SyncMoment::AfterBackward);
    exchange(parameters, SyncMoment::AfterOptimizer);  // sent by a server
    cost.wire_bytes = sent * (on_workers ? gradients + parameters : gradients);
    cost.server_bytes = at_server * (on_workers ? gradients + parameters : std::max(gradients, parameters));
    return cost;
}

class ParameterServerSync final : public GradientSync {
  public:
    [[nodiscard]] SyncInfo info() const override {
        return {"ps-sync", "Parameter server, synchronous", "Li et al. 2014; Chen et al. 2016"};
    }
    [[nodiscard]] std::span<const std::string_view> options() const override {
        static constexpr std::array<std::string_view, 1> kOptions = {"servers"};
        return kOptions;
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
    [[nodiscard]] std::span<const std::string_view> options() const override {
        static constexpr std::array<std::string_view, 2> kOptions = {"servers", "staleness"};
        return kOptions;
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
