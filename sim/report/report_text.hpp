// SimulationReport for the terminal: headline, where the time goes, memory of every stage with its addends,
// communication, critical path, warnings.
#pragma once

#include <string>

#include "sim/report/report.hpp"

namespace tw {

struct ReportTextOptions {
    int width = 100;
    bool colour = false;
    bool unicode = true;
    bool timeline = false;        // where the report has a trace
    int critical_path_lines = 8;  // the first so many; the rest is counted
};

std::string report_text(const SimulationReport& report, const ReportTextOptions& options = {});

// "12.34", "0.0123" dollars: cents, or as many digits as show something.
std::string price_text(double usd);

// The parts, for commands that show one of them.
std::string report_headline(const SimulationReport& report, const ReportTextOptions& options);
std::string time_breakdown_text(const SimulationReport& report, const ReportTextOptions& options);
std::string memory_text(const SimulationReport& report, const ReportTextOptions& options);
std::string communication_text(const SimulationReport& report, const ReportTextOptions& options);

}  // namespace tw
