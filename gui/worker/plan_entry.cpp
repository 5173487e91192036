#include "gui/worker/plan_entry.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <map>

#include "base/check.hpp"
#include "base/si_format.hpp"
#include "gui/worker/plan_fields.hpp"

namespace tw::gui {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

double known(double value) {
    return value > 0 ? value : kUnknown;
}

std::string duration(double value) {
    return format_duration(value);
}
std::string bytes(double value) {
    return format_bytes(value);
}
std::string share(double value) {
    return format_percent(value);
}
std::string rate(double value) {
    return format_short_count(value) + "/s";
}
std::string count(double value) {
    return format_count(static_cast<std::int64_t>(value));
}
std::string money(double value) {
    return "$" + format_short_count(value);
}

}  // namespace

double exposed_seconds(const SimulationReport& report) {
    double sum = 0;
    for (const RankReport& rank : report.ranks) {
        const TimeBreakdown& b = rank.breakdown;
        sum += b.exposed_tp + b.exposed_dp + b.exposed_pp + b.exposed_cp + b.exposed_ep + b.exposed_offload;
    }
    return report.ranks.empty() ? 0 : sum / static_cast<double>(report.ranks.size());
}

const std::vector<Measure>& measures() {
    static const std::vector<Measure> all = {
        {"step_time_s", "Step", "s", "Steady time of a step.",
         [](const PlanEntry& e) { return known(e.step_s()); }, duration},
        {"step_time_sigma_s", "±", "s", "One standard deviation of the predicted step time.",
         [](const PlanEntry& e) { return known(e.evaluation.sigma_s); }, duration},
        {"tokens_per_s", "Rate", "/s", "Tokens (images where the model counts images) a second, all devices.",
         [](const PlanEntry& e) { return e.report ? e.report->tokens_per_s : kUnknown; }, rate, false},
        {"mfu", "MFU", "%", "Model FLOPs over the peak of all devices, by Megatron's convention.",
         [](const PlanEntry& e) { return e.report ? e.report->mfu : kUnknown; }, share, false},
        {"peak_device_bytes", "Memory", "B", "Largest use of a GPU's memory, as nvidia-smi shows.",
         [](const PlanEntry& e) { return known(e.evaluation.peak_device_bytes); }, bytes},
        {"bubble_fraction", "Bubble", "%",
         "Idle share of the step over all ranks, whatever they wait for: each other, exposed transfers, the "
         "host.",
         [](const PlanEntry& e) { return e.report ? e.report->bubble_fraction : kUnknown; }, share},
        {"exposed_s", "Exposed", "s", "Communication that no computation hides, mean over ranks, a step.",
         [](const PlanEntry& e) { return e.report ? exposed_seconds(*e.report) : kUnknown; }, duration},
        {"usd_per_step", "Money", "USD", "Price of all devices for a step; empty where no price is known.",
         [](const PlanEntry& e) { return e.report ? known(e.report->usd_per_step) : kUnknown; }, money},
        {"near_identical", "Alike", "",
         "Plans of the same kind that tie with this one and were simulated too; plan --every ranks them.",
         [](const PlanEntry& e) { return known(e.near_identical); }, count, false},
    };
    return all;
}

const Measure& find_measure(std::string_view key) {
    for (const Measure& measure : measures())
        if (key == measure.key) return measure;
    TW_CHECK_MSG(false, std::string(key).c_str());
    return measures().front();
}

std::string plan_name(const PlanEntry& entry) {
    std::string text = summary(entry.plan);
    if (!entry.detail.empty()) text += " · " + entry.detail;
    return entry.name.empty() ? text : entry.name + ": " + text;
}

void tell_apart(std::vector<PlanEntry>& entries) {
    std::map<std::string, std::vector<PlanEntry*>> same;
    for (PlanEntry& entry : entries) {
        entry.detail.clear();
        same[summary(entry.plan)].push_back(&entry);
    }
    for (auto& [text, group] : same) {
        if (group.size() < 2) continue;
        for (const PlanField& field : plan_fields()) {
            const std::string first = field_text(group.front()->plan, field.key);
            const bool differs = std::ranges::any_of(
                group, [&](const PlanEntry* entry) { return field_text(entry->plan, field.key) != first; });
            if (!differs) continue;
            std::string title = field.title;
            title.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(title.front())));
            for (PlanEntry* entry : group)
                entry->detail +=
                    (entry->detail.empty() ? "" : ", ") + title + " " + field_text(entry->plan, field.key);
        }
    }
}

}  // namespace tw::gui
