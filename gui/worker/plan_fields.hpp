// The fields of a plan as an editor shows them: text, legal values, what a change does to the others. Fields
// that follow from others (dp, microbatches, stages) are shown and never typed.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gui/worker/study.hpp"

namespace tw::gui {

struct PlanField {
    const char* key;    // "tp": as in --fix where it is one of its keys
    const char* title;  // "Tensor parallel"
    const char* help;
    bool derived = false;
    bool free = false;  // any positive integer; else one of candidates()
};

struct FieldValue {
    std::string text;
    std::string refusal;  // why it is not legal with the other fields as they are; "": it is
};

std::span<const PlanField> plan_fields();
const PlanField* find_field(std::string_view key);  // null: none

std::string field_text(const ParallelPlan& plan, std::string_view key);
// The plan with one field set and what follows from it: dp from the devices, microbatches from the batch,
// stages split evenly anew where their number changes. Errors: the text is no such value, or it cannot be
// settled; legality is check_plan's.
Result<ParallelPlan> with_field(const Study& study, const ParallelPlan& plan, std::string_view key,
                                std::string_view text);
// All values worth offering, the plan's own among them, each judged by check_plan.
std::vector<FieldValue> field_values(const Study& study, const ParallelPlan& plan, std::string_view key);

// Values of a key of --fix for a model on a cluster, whatever the other keys: "tp" -> 1, 2, 4, 8.
std::vector<std::string> constraint_values(const Study& study, std::int64_t global_batch,
                                           std::string_view key);
std::span<const char* const> constraint_keys();  // dp, tp, sp, ...

// Fields in which two plans differ: (title, first, second).
struct FieldDifference {
    std::string title, first, second;
};
std::vector<FieldDifference> field_differences(const ParallelPlan& a, const ParallelPlan& b);

}  // namespace tw::gui
