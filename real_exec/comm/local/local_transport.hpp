// Ranks that are threads of one process: the transport of tests, and of runs that need no processes. A
// collective is done by the member that arrives last, over the others' memory; sums are in rank order.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "real_exec/comm/communicator.hpp"

namespace tw {

// One transport for each of `ranks` threads, joined to each other. Requests that wait longer than
// `deadline_s` end in an error that names who is missing.
std::vector<std::unique_ptr<Transport>> local_transports(int ranks, double deadline_s = 60);

// Runs body(transport) on `ranks` threads and returns when all have ended.
void run_local_ranks(int ranks, const std::function<void(Transport&)>& body, double deadline_s = 60);

}  // namespace tw
