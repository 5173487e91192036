#include "sim/environment.hpp"

#include <algorithm>

#include "models/hardware/scale_profile.hpp"

namespace tw {

double dispatch_seconds(const HardwareProfile& profile) {
    // A profile of a tight loop alone, measured by its own machine, stands in.
    const double loop = host_dispatch_seconds(profile, "eager").value_or(0.0);
    return host_dispatch_seconds(profile, "layer").value_or(loop);
}

FlopRate Environment::peak(Precision precision) const {
    double total = 0;
    for (const NodeGroup& g : cluster.groups)
        total += g.device.peak(precision).value * g.type.devices * g.nodes;
    return FlopRate(total);
}

double Environment::usable_memory() const {
    double most = 0;
    for (const NodeGroup& group : cluster.groups)
        most = std::max(most, usable_memory(group.device));
    return most;
}

Result<std::shared_ptr<const Environment>> make_environment(LayerGraph graph, Cluster cluster,
                                                            double memory_headroom,
                                                            ExecutorVerdict executor) {
    auto environment = std::make_shared<Environment>();
    environment->memory_headroom = memory_headroom;
    environment->executor = std::move(executor);
    Errors errors;
    for (const NodeGroup& group : cluster.groups) {
        auto profile = cluster.profile.empty() ? profile_for(group.device) : load_profile(cluster.profile);
        if (!profile) {
            errors.insert(errors.end(), profile.errors().begin(), profile.errors().end());
            continue;
        }
        if (cluster.profile.empty()) fit_collectives_to(group.type, group.device, *profile);
        // A processor's own dispatches are part of its operations (sim/cost/one_thread.hpp).
        if (group.device.architecture != "cpu")
            environment->dispatch_s = std::max(environment->dispatch_s, dispatch_seconds(*profile));
        environment->profiles.push_back(std::move(*profile));
    }
    if (!errors.empty()) return errors;
    environment->graph = std::move(graph);
    environment->cluster = std::move(cluster);
    return std::shared_ptr<const Environment>(std::move(environment));
}

}  // namespace tw
