// One row of the table of plans.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gui/worker/study.hpp"
#include "sim/report/report.hpp"

namespace tw::gui {

enum class PlanOrigin : unsigned char { Found, Kept, Opened, Infeasible };

struct PlanEntry {
    int id = 0;  // unique in a window
    PlanOrigin origin = PlanOrigin::Found;
    std::string name;    // of the document it was opened from; else ""
    std::string detail;  // what tells it apart from others of the same summary; see tell_apart
    StudyPtr study;
    ParallelPlan plan;
    Evaluation evaluation;                           // 0 where not evaluated
    std::shared_ptr<const SimulationReport> report;  // null until simulated in full
    bool tied = false;
    int near_identical = 0;  // plans of its kind that tie with it and were simulated too (RankedPlan::alike)
    bool front = false;      // not among the best: found as a trade-off between time and memory
    Errors errors;           // why it cannot run; empty: it can

    [[nodiscard]] bool feasible() const { return errors.empty(); }
    [[nodiscard]] double step_s() const { return to_seconds(evaluation.step_time).value; }
};

// Figures of a plan that are sorted, filtered, plotted and exported: one table for all of these. NaN where
// not known (yet). Units: seconds, bytes, shares, per second, USD.
struct Measure {
    const char* key;    // "step_time_s"
    const char* title;  // "Step"
    const char* unit;   // "s", "B", "%", "/s", "USD"; "": a count
    const char* help;
    double (*value)(const PlanEntry& entry);
    std::string (*text)(double value);
    bool less_is_better = true;
};
const std::vector<Measure>& measures();
const Measure& find_measure(std::string_view key);  // CHECKs that it exists

// "tp8 pp16 dp8 …", with its detail: "tp8 pp16 dp8 … · layers 10, 12 x 6, 10".
std::string plan_name(const PlanEntry& entry);
// Gives entries of one summary the fields in which they differ as their details.
void tell_apart(std::vector<PlanEntry>& entries);
double exposed_seconds(const SimulationReport& report);  // exposed communication, mean over ranks

}  // namespace tw::gui
