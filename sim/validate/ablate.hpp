// What each choice and each mechanism of the model is worth: every one is switched off alone, and the rows
// that were compared are predicted again, blind.
//
// Choices: each entry of the frameworks' table (plan/frameworks) set to its neutral value, in all frameworks
// at once; what a row states itself stays. Mechanisms: a part of the cost model replaced by nothing or by the
// plain thing that it refines.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/validate/validate.hpp"

namespace tw {

struct AblatedSource {
    std::string file;
    int changed = 0;  // rows whose time or memory moved by more than a thousandth
    ErrorScore time;  // blind
    ErrorScore memory;
};

struct AblationResult {
    std::string_view name;               // "dropout", "tensor-parallel communication"
    std::string_view neutral;            // what stands in its place: "off", "free"
    bool framework = false;              // an entry of the frameworks' table; else a mechanism
    std::vector<AblatedSource> sources;  // those of the report that were compared, in its order
    int refused =
        0;  // rows that cannot be predicted so (a plan that is not legal any more), left as they were
};

struct AblationReport {
    std::vector<AblatedSource> base;  // `changed` is 0
    std::vector<AblationResult> results;
};

// `report` as validate() returned it. Deterministic; about as many predictions as rows times mechanisms.
AblationReport ablate(const ValidationReport& report);

}  // namespace tw
