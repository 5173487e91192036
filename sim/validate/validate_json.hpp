// {"schema": "trainwright/validation", "version": 1, "sources": [...], "rows": [...], "calibrations": [...]}:
// errors are fractions, times seconds, memory bytes; null where a figure does not exist.
#pragma once

#include "base/json.hpp"
#include "sim/validate/validate.hpp"

namespace tw {

Json validation_to_json(const ValidationReport& report);

}  // namespace tw
