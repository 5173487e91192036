#include "planner/explain/hardware_changes.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "models/hardware/scale_profile.hpp"

namespace tw {
namespace {

// The curves of a profile follow its device's figures.
template <class ChangeDevice>
Environment with_devices(const Environment& environment, ChangeDevice change) {
    Environment changed = environment;
    for (std::size_t g = 0; g < changed.cluster.groups.size(); ++g) {
        Device& device = changed.cluster.groups[g].device;
        const Device before = device;
        change(device);
        changed.profiles[g] = scale_profile(environment.profiles[g], before, device, true);
    }
    return changed;
}

Environment faster_products(const Environment& environment, double factor) {
    return with_devices(environment, [&](Device& device) {
        for (FlopRate* peak : {&device.peak_fp32, &device.peak_tf32, &device.peak_fp16, &device.peak_bf16,
                               &device.peak_fp8, &device.peak_nvfp4})
            peak->value *= factor;
    });
}

Environment faster_memory(const Environment& environment, double factor) {
    return with_devices(environment, [&](Device& device) { device.memory_bandwidth.value *= factor; });
}

Environment larger_memory(const Environment& environment, double factor) {
    return with_devices(environment, [&](Device& device) {
        device.memory.value = static_cast<std::int64_t>(static_cast<double>(device.memory.value) * factor);
    });
}

Environment faster_links(const Environment& environment, double factor) {
    Environment changed = environment;
    for (NodeGroup& group : changed.cluster.groups)
        group.type.link_bandwidth.value *= factor;
    for (HardwareProfile& profile : changed.profiles)
        scale_collectives(profile, factor);
    return changed;
}

Environment faster_network(const Environment& environment, double factor) {
    Environment changed = environment;
    for (NodeGroup& group : changed.cluster.groups)
        group.type.nic_bandwidth.value *= factor;
    return changed;
}

Environment faster_host(const Environment& environment, double factor) {
    Environment changed = environment;
    changed.dispatch_s /= factor;
    return changed;
}

}  // namespace

std::vector<HardwareChange> hardware_changes(const Environment& environment, double factor) {
    const auto& groups = environment.cluster.groups;
    const bool links =
        std::any_of(groups.begin(), groups.end(), [](const NodeGroup& g) { return g.type.devices > 1; });
    std::vector<HardwareChange> changes;
    const auto add = [&](const char* what, Environment changed) {
        changes.push_back({fmt::format(fmt::runtime(what), format_exact(factor)),
                           std::make_shared<const Environment>(std::move(changed))});
    };
    add("matrix products {}x as fast", faster_products(environment, factor));
    add("device memory {}x as fast", faster_memory(environment, factor));
    add("device memory {}x as large", larger_memory(environment, factor));
    if (links) add("links inside a node {}x as fast", faster_links(environment, factor));
    if (environment.cluster.nodes() > 1) add("network {}x as fast", faster_network(environment, factor));
    if (environment.dispatch_s > 0) add("dispatch by the host {}x as fast", faster_host(environment, factor));
    return changes;
}

Result<std::vector<JudgedHardware>> judge_hardware(const Environment& environment, const ParallelPlan& plan,
                                                   double factor) {
    std::vector<JudgedHardware> judged;
    for (const HardwareChange& change : hardware_changes(environment, factor)) {
        const Result<Evaluation> evaluation = Simulator(change.environment).evaluate(plan);
        if (!evaluation) return evaluation.errors();
        judged.push_back({change.what, *evaluation});
    }
    std::stable_sort(judged.begin(), judged.end(), [](const JudgedHardware& a, const JudgedHardware& b) {
        return a.evaluation.step_time < b.evaluation.step_time;
    });
    return judged;
}

}  // namespace tw
