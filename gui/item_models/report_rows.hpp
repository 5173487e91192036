// Rows of tables made of reports: figures of two plans, where the time goes, alternatives, trace comparisons.
#pragma once

#include <vector>

#include "gui/item_models/value_table.hpp"

namespace tw {
struct SimulationReport;
struct TraceComparison;
}  // namespace tw

namespace tw::gui {

struct Alternative;

using TableRows = std::vector<std::vector<Cell>>;

// Columns: figure, before, after, difference. Either report may be null.
std::vector<TableColumn> figure_columns(const QString& before, const QString& after);
TableRows figure_rows(const SimulationReport* before, const SimulationReport* after);

// Columns: part, seconds, share of the step; with a second report also its seconds and the difference.
std::vector<TableColumn> breakdown_columns(bool two);
TableRows breakdown_rows(const SimulationReport& report, const SimulationReport* other = nullptr);

// Of an alternative: "schedule 1f1b → zb-h1", with an arrow that no line ends within.
QString change_text(const Alternative& alternative);
// Columns: change, difference, step; of neighbours also memory, verdict and reason.
std::vector<TableColumn> alternative_columns(bool neighbours);
TableRows alternative_rows(const std::vector<Alternative>& alternatives, bool neighbours);

// Columns: opcode, stage, count, A, B, difference.
// Δ is the first's against the second's (a prediction against what was measured), or the other way round.
std::vector<TableColumn> comparison_columns(const QString& first, const QString& second, bool against_first);
TableRows comparison_rows(const TraceComparison& comparison, bool against_first);

Cell duration_cell(double seconds);
Cell change_cell(double relative, bool less_is_better = true);  // "+3.2 %", green where better

}  // namespace tw::gui
