// Environment: a model on a cluster with the profiles of its devices. Everything a simulation needs beside
// the plan; immutable and shared by all threads of a search.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "models/graph/layer_graph.hpp"
#include "models/hardware/cluster.hpp"
#include "models/hardware/profile.hpp"
#include "models/hardware/rank_order.hpp"
#include "plan/parallel_plan.hpp"

namespace tw {

// Host seconds of one dispatch inside an eager layer; 0 where the profile does not know.
double dispatch_seconds(const HardwareProfile& profile);

// What of a plan an executor cannot run, in words; empty: it runs. The simulator knows no executor: who has
// one says so.
using ExecutorVerdict = std::function<std::vector<std::string>(const LayerGraph&, const ParallelPlan&)>;

struct Environment {
    LayerGraph graph;
    Cluster cluster;
    std::vector<HardwareProfile> profiles;  // one for each of the cluster's groups
    double memory_headroom = 0;             // share of every device's memory that plans leave free, 0..1
    ExecutorVerdict executor;               // empty: there is none
    AxisSet free_axes = {};                 // what-if: communication along these axes takes no time
    // Host seconds of one dispatch (sim/cost/host_dispatch.hpp); 0: unknown, host ignored.
    double dispatch_s = 0;

    [[nodiscard]] const HardwareProfile& profile(int group) const {
        return profiles[static_cast<std::size_t>(group)];
    }
    [[nodiscard]] const NodeGroup& node_group(int group) const {
        return cluster.groups[static_cast<std::size_t>(group)];
    }
    // Bytes that a plan may use of a device of this group.
    [[nodiscard]] double usable_memory(const Device& device) const {
        return static_cast<double>(device.memory.value) * (1.0 - memory_headroom);
    }
    // Of the cluster's largest.
    [[nodiscard]] double usable_memory() const;
    // Dense peak of all devices together at a precision.
    [[nodiscard]] FlopRate peak(Precision precision) const;
};

// Loads the cluster's profile, or each device's own, or a measured sibling's scaled by datasheet. Fails where
// there is none.
Result<std::shared_ptr<const Environment>> make_environment(LayerGraph graph, Cluster cluster,
                                                            double memory_headroom = 0,
                                                            ExecutorVerdict executor = {});

}  // namespace tw
