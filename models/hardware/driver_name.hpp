// Which of our devices a driver, a log or a trace speaks of: "NVIDIA H100 80GB HBM3", "A100-SXM4-40GB",
// "Tesla T4".
#pragma once

#include <optional>
#include <string_view>

#include "models/hardware/cluster.hpp"

namespace tw {

// Nothing where none of the shipped devices has that name. `memory_bytes`, where known, decides between
// devices of one name and different memory.
std::optional<Device> device_of_driver_name(std::string_view name, std::int64_t memory_bytes = 0);

}  // namespace tw
