// How many messages leave a rank where a token goes to each node once (NodeSpread), for the copies that it
// would send to its experts one by one.
#pragma once

#include "models/graph/op.hpp"

namespace tw {

// Nodes that a token goes to over its copies, in (0, 1]; experts are spread evenly over `nodes` nodes. Of the
// nodes that hold the chosen groups, `reach`, copies chosen at random meet reach (1 - (1 - 1/reach)^copies);
// the sender's own node is among them as often as among the copies' nodes. DeepSeek-V3, 8 experts in 4 of 8
// groups of a node each: 3.6 / 8.
double share_between_nodes(const NodeSpread& spread, int nodes);

}  // namespace tw
