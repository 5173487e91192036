// What the numbers of an nccl-tests log say about themselves: the operation, the number of ranks, and whether
// sizes, times, bandwidths and footer agree.
#pragma once

#include <set>
#include <string>

#include "models/formats/nccl_tests.hpp"

namespace tw {

// Fills operations and ranks; warns where numbers, device list and words contradict each other. `words`:
// operations named in the log's comments, as "allreduce".
void derive_operation(NcclTestsLog& log, const std::set<std::string>& words);

// Warns where algbw is not size / time, where busbw / algbw differs between rows, where the footer's average
// is not that of the rows, and where results were wrong.
void check_numbers(NcclTestsLog& log);

}  // namespace tw
