// An AblationReport as text, as a page of the documentation and as a JSON document.
#pragma once

#include <string>

#include "base/json.hpp"
#include "base/text_table.hpp"
#include "sim/validate/ablate.hpp"

namespace tw {

// One line an ablation and source whose mean absolute error or bias it moves by at least `least` (a fraction:
// 0.02 is two points).
TextTable ablation_table(const AblationReport& report, double least = 0.02);

// docs/results/ablation.md: every ablation against every source, times and memory apart.
std::string ablation_page(const AblationReport& report);

// {"base": [{file, time_mape, time_bias, memory_mape, memory_bias}], "ablations": [{name, neutral, kind,
// refused, sources: [{file, changed, ...}]}]}: errors are fractions, null where nothing was compared.
Json ablation_to_json(const AblationReport& report);

}  // namespace tw
