// Best-first branch and bound over the search space (Land and Doig 1960): nodes in order of their lower
// bound; a mesh opens into chunkings, a chunking into leaves, leaves are simulated in rounds of fixed size,
// so that neither the answer nor the counts depend on the number of threads. Ends when no open node can
// improve on the plans asked for.
#pragma once

#include "planner/request.hpp"
#include "planner/space.hpp"

namespace tw {

PlanAnswer best_first_search(const Simulator& simulator, const SearchSpace& space,
                             const PlanRequest& request);

}  // namespace tw
