// The plans that one would try by hand: tensor parallelism within a node, pipelines across nodes, replicas
// for the rest (Narayanan et al. 2021, section 3, takeaways 1 and 2), the smallest microbatches, 1F1B and the
// most stages a rank, a sharded optimizer; of models with experts every expert parallel degree, also under
// DualPipeV, which hides their exchange. A search that knows what these reach leaves most others out at their
// bounds.
#pragma once

#include <functional>
#include <vector>

#include "planner/space.hpp"
#include "planner/workers.hpp"
#include "sim/simulator.hpp"

namespace tw {

// Of those in the space, some that fit; fewer, or none, where `stop` says so before the end.
std::vector<RankedPlan> first_plans(const Simulator& simulator, const SearchSpace& space, Workers& workers,
                                    const std::function<bool()>& stop);

}  // namespace tw
