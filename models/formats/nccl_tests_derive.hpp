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

// Of several operations those that `words` name, where it names one of them.
void keep_named(NcclTestsLog& log, const std::set<std::string>& words);

// nccl_tests_sanity.cpp: findings where algbw is not size / time, where busbw is not the factor times algbw,
// where the footer's average is not that of the rows, sizes do not ascend, the two halves of a row differ, a
// larger message is slower, and where results were wrong.
void check_numbers(NcclTestsLog& log);

}  // namespace tw
