// Replicas that do not wait for each other: asynchronous parameter servers.
#pragma once

#include <vector>

namespace tw {

// How long a step of all replicas takes, step by step, in seconds. own[r][k]: the k-th step of a replica that
// works by itself, of which there are alike[r]; all have as many steps.
//
// Without a bound (below 0) nobody waits: n replicas make n steps while each makes as many as it can, so the
// step is the harmonic mean of their own (the mean rate). A bound of s clocks lets nobody lead by more than s
// (stale synchronous parallel, Ho et al. 2013, section 2): they are taken to meet after every s + 1 steps,
// which is as fast as the bound allows where the same replica stays the slowest, and slower where they take
// turns. No step is shorter than `least_s`, what the servers need for all of them.
std::vector<double> asynchronous_steps(const std::vector<std::vector<double>>& own,
                                       const std::vector<int>& alike, int bound, double least_s);

}  // namespace tw
