// Initial values of parameters: element i of the whole tensor from (seed, name, i), whatever the layout.
#pragma once

#include <cstdint>
#include <vector>

#include "real_exec/layers/stage_module.hpp"

namespace tw {

// Elements [first, first + count) of a parameter's shard, drawn by this many threads: the same ones.
std::vector<float> initial_values(const Parameter& p, std::uint64_t seed, std::int64_t first,
                                  std::int64_t count, int threads = 1);

}  // namespace tw
