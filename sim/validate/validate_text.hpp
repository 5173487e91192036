// A ValidationReport as text, as a JSON document, as a picture and as the documentation's page.
#pragma once

#include <string>

#include "base/text_table.hpp"
#include "sim/validate/validate.hpp"

namespace tw {

// One row a source; errors in per cent.
TextTable validation_table(const ValidationReport& report);
// Rows with their predictions, worst time first; `limit` 0: all.
TextTable worst_rows(const ValidationReport& report, std::size_t limit);
// Reasons why rows were not compared, with their counts.
TextTable reasons_table(const ValidationReport& report);
// Words of compared rows that nobody knows (a precision, a framework), with what was taken in their place.
TextTable assumptions_table(const ValidationReport& report);

// docs/results/accuracy.md, without a date: the same rows and the same code give the same page.
std::string accuracy_page(const ValidationReport& report);

// Predicted against measured, logarithmic axes: step time on the left, memory on the right, a colour and a
// shape a source.
std::string scatter_svg(const ValidationReport& report);

}  // namespace tw
