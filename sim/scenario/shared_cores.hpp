// More ranks than cores: a node's cores are a link that every computing rank loads, shared evenly by those
// that compute at once (the system's scheduler; ranks that wait yield). Max-min fair rates, by the event
// engine.
#pragma once

#include "sim/simulator.hpp"

namespace tw {

// Seconds of a steady step of a plan whose ranks run on `cores` processors of one node. Equal to simulate()'s
// where there are as many cores as ranks. With more ranks, collectives and messages wait until the system has
// run whoever they wait for (sim/cost/crowd_wait.hpp).
Result<double> shared_core_step(const Simulator& simulator, const ParallelPlan& plan, int cores);

}  // namespace tw
