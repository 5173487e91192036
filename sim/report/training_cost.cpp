#include "sim/report/training_cost.hpp"

#include <cmath>

#include <fmt/format.h>

#include "base/si_format.hpp"

namespace tw {

Result<TrainingCost> training_cost(const SimulationReport& report, const TrainingRun& run) {
    Errors errors;
    const auto positive = [&](double value, std::string_view name) {
        if (std::isfinite(value) && value > 0) return;
        errors.push_back(
            {ErrorCode::Usage, fmt::format("{} is not positive: {}", name, value), std::string(name), {}});
    };
    positive(run.tokens, "tokens");
    positive(run.devices, "devices");
    positive(run.goodput, "goodput");
    positive(report.step_time_s, "step_time_s");
    positive(report.tokens_per_s, "tokens_per_s");
    if (run.goodput > 1) {
        errors.push_back({ErrorCode::Usage,
                          fmt::format("goodput is a share of wall time: {} > 1", run.goodput), "goodput",
                          "give 0.9 for 90 %"});
    }
    if (!errors.empty()) return errors;
    TrainingCost cost;
    cost.steps = std::ceil(run.tokens / (report.tokens_per_s * report.step_time_s) * (1 - 1e-12));
    cost.seconds = cost.steps * report.step_time_s / run.goodput;
    cost.seconds_sigma = cost.steps * report.step_time_sigma_s / run.goodput;
    cost.device_hours = cost.seconds / 3600 * run.devices;
    cost.energy_kwh = cost.steps * report.energy_j / 3.6e6 / run.goodput;
    cost.usd = cost.steps * report.usd_per_step / run.goodput;
    return cost;
}

Json training_cost_to_json(const TrainingCost& cost) {
    const auto known = [](double value) { return value > 0 ? Json(value) : Json(nullptr); };
    return Json{{"steps", cost.steps},
                {"wall_s", cost.seconds},
                {"wall_sigma_s", cost.seconds_sigma},
                {"days", cost.seconds / 86400},
                {"device_hours", cost.device_hours},
                {"energy_j", known(cost.energy_kwh * 3.6e6)},
                {"usd", known(cost.usd)}};
}

std::string training_cost_text(const TrainingRun& run, const TrainingCost& cost) {
    std::string text = fmt::format("{} tokens: {} steps, {}", format_short_count(run.tokens),
                                   format_short_count(cost.steps), format_duration(cost.seconds));
    if (cost.seconds_sigma > 0) text += fmt::format(" ± {}", format_duration(cost.seconds_sigma, 2));
    text += fmt::format(", {} device hours", format_short_count(cost.device_hours));
    if (cost.energy_kwh > 0) text += fmt::format(", {}", format_rate(cost.energy_kwh * 1e3, "Wh"));
    if (cost.usd > 0) text += fmt::format(", ${}", format_short_count(cost.usd));
    return text;
}

}  // namespace tw
