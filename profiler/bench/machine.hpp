// What the machine says about itself, and the node that its measurements describe.
#pragma once

#include <optional>
#include <vector>

#include "models/hardware/profile_document.hpp"

namespace tw {

// Host, system, processor, cores, compiler; from the system's own files.
MeasuredEnvironment describe_machine();

// One node of as many devices as it has cores, a core each, with the memory, rates and links that were
// measured; a NIC where ranks of two hosts exchanged messages. Nothing where neither a product nor a copy was
// measured.
std::optional<Cluster> measured_cluster(const HardwareProfile& profile,
                                        const std::vector<SampleSeries>& samples,
                                        const MeasuredEnvironment& environment);

}  // namespace tw
