// The cases of the parity table: a pairwise covering array (Cohen et al. 1997, AETG) over layout, schedule,
// ZeRO, recomputation, sequence parallelism, tying and model. Every pair of values that any legal plan has
// together is in at least one case.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/real_exec/runtime/train_harness.hpp"

namespace tw::parity {

struct Case {
    testing::RunSetup setup;
    std::string layout;  // "pp2 dp2 ep2"
};

// The same model and batch in one process.
testing::RunSetup alone(const testing::RunSetup& setup);
std::string_view model_of(const Case& one);
std::string zero_of(const Case& one);  // "3", or "3 over 2" ranks of the replicas (HSDP)
std::string describe(const Case& one);

struct Cover {
    std::vector<Case> cases;  // the first ones cover most
    std::size_t legal = 0;    // plans among all combinations
    std::size_t pairs = 0;    // of values that legal plans have together: all covered
};
// Deterministic. `extra` cases beyond the cover, drawn from the legal ones.
Cover covering_cases(std::size_t at_least);

}  // namespace tw::parity
