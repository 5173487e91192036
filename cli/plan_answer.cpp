#include "cli/plan_answer.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "plan/stage_partition.hpp"
#include "sim/report/fullest_rank.hpp"
#include "sim/report/report_json.hpp"
#include "sim/report/report_text.hpp"
#include "sim/scenario/scenario.hpp"

namespace tw::cli {
namespace {

// Summaries; plans of equal summary are told apart by their stages.
std::vector<std::string> plan_names(const std::vector<FoundPlan>& found) {
    std::vector<std::string> names;
    for (const FoundPlan& one : found) {
        const std::string name = summary(one.report.plan);
        const auto same = std::count_if(found.begin(), found.end(), [&](const FoundPlan& other) {
            return summary(other.report.plan) == name;
        });
        names.push_back(same > 1 ? name + ", layers " + partition_text(one.report.plan) : name);
    }
    return names;
}

// Largest share of a device's memory that a stage takes, in whole percent, where plans leave `headroom` of
// it.
double fullest_percent(const SimulationReport& report, double headroom) {
    const StageMemory* memory = fullest_rank(report);
    if (memory == nullptr || memory->capacity_bytes <= 0) return 0;
    return std::floor(100 * memory->device_bytes / memory->capacity_bytes * (1 - headroom));
}

std::string memory_cell(const SimulationReport& report, double headroom) {
    const StageMemory* memory = fullest_rank(report);
    if (memory == nullptr) return "-";
    return fmt::format("{} ({:.0f} %)", format_bytes(memory->device_bytes),
                       fullest_percent(report, headroom));
}

// Passes of the plans that are run again with contention, all of them together: a tenth of a second.
constexpr double kContendedPasses = 50'000;
// Differences that are shown.
constexpr double kNotableContention = 0.01;

double passes(const ParallelPlan& plan) {
    return static_cast<double>(plan.microbatches) * plan.stage_count();
}

bool any_contended(const std::vector<FoundPlan>& found) {
    return std::any_of(found.begin(), found.end(), [](const FoundPlan& one) {
        return one.contended_step_s &&
               std::abs(*one.contended_step_s / one.report.step_time_s - 1) > kNotableContention;
    });
}

}  // namespace

Result<std::vector<FoundPlan>> simulate_found(const Simulator& simulator, const PlanAnswer& answer) {
    std::vector<FoundPlan> found;
    double run = 0;
    for (const RankedPlan& ranked : answer.plans) {
        auto report = simulator.simulate(ranked.plan);
        if (!report) return report.errors();
        found.push_back({std::move(*report), ranked.tied, ranked.alike, std::nullopt});
        run += passes(ranked.plan);
        if (run > kContendedPasses) continue;
        const auto contended = simulate_scenario(simulator, ranked.plan, {});
        if (contended) found.back().contended_step_s = contended->clean_step_s;
    }
    return found;
}

Json search_to_json(const SearchStatistics& search) {
    Json pruned = Json::object();
    for (const auto& [rule, count] : search.pruned)
        pruned[rule] = count;
    return Json{{"configurations", search.configurations},
                {"uniform_partitions_only", search.uniform_only},
                {"pruned", std::move(pruned)},
                {"simulated", search.simulated},
                {"too_long", search.too_long},
                {"proven_optimal", search.proven_optimal},
                {"interrupted", search.interrupted},
                {"wall_s", search.wall_s}};
}

Json found_to_json(const FoundPlan& found) {
    Json json = report_to_json(found.report);
    json["tied"] = found.tied;
    json["contended_step_s"] = found.contended_step_s ? Json(*found.contended_step_s) : Json(nullptr);
    json["near_identical"] = Json::array();
    for (const RankedPlan& one : found.alike) {
        json["near_identical"].push_back(Json{{"label", summary(one.plan)},
                                              {"layers", partition_text(one.plan)},
                                              {"step_time_s", to_seconds(one.evaluation.step_time).value},
                                              {"peak_device_bytes", one.evaluation.peak_device_bytes}});
    }
    return json;
}

void print_found(const std::vector<FoundPlan>& found, double headroom, bool prices, Console& console) {
    const bool mixed = std::any_of(found.begin(), found.end(), [](const FoundPlan& one) {
        return one.report.plan.semantics != Semantics::Synchronous;
    });
    const bool contended = any_contended(found);
    std::vector<std::string> headers{"", "Plan", "Step", "", "Rate", "MFU", "Bubble", "Memory"};
    if (contended) headers.insert(headers.begin() + 4, "Sharing links");
    if (prices) headers.emplace_back("Price");
    if (mixed) headers.emplace_back("Semantics");
    TextTable table(headers);
    const std::vector<std::string> names = plan_names(found);
    for (std::size_t i = 0; i < found.size(); ++i) {
        const SimulationReport& report = found[i].report;
        const std::string place = i > 0 && found[i].tied ? "=" : std::to_string(i + 1);
        const bool synchronous = report.plan.semantics == Semantics::Synchronous;
        std::vector<TableCell> row{place,
                                   TableCell(names[i], i == 0 ? TextStyle::Bold : TextStyle::Plain),
                                   format_duration(report.step_time_s),
                                   "± " + format_duration(report.step_time_sigma_s, 2),
                                   format_rate(report.tokens_per_s, report.rate_unit),
                                   format_percent(report.mfu),
                                   format_percent(report.bubble_fraction),
                                   memory_cell(report, headroom)};
        if (contended) {
            row.insert(row.begin() + 4, found[i].contended_step_s
                                            ? TableCell(format_duration(*found[i].contended_step_s))
                                            : TableCell("-"));
        }
        if (prices) row.emplace_back("$" + price_text(report.usd_per_step));
        if (mixed) {
            row.emplace_back(std::string(to_string(report.plan.semantics)),
                             synchronous ? TextStyle::Dim : TextStyle::Yellow);
        }
        table.add_row(std::move(row));
    }
    table.align(0, Align::Right);
    table.align(1, Align::Left);
    table.align(3, Align::Left);
    console.out_table(table);
}

std::string alike_sentence(const std::vector<FoundPlan>& found) {
    std::vector<std::string> rows;
    for (std::size_t i = 0; i < found.size(); ++i) {
        const std::size_t count = found[i].alike.size();
        if (count > 0)
            rows.push_back(
                fmt::format("{} beside row {}", format_count(static_cast<std::int64_t>(count)), i + 1));
    }
    if (rows.empty()) return {};
    return fmt::format("Near-identical plans that were simulated too: {} (--every ranks them).",
                       fmt::join(rows, ", "));
}

std::string tight_memory_sentence(const SimulationReport& report) {
    constexpr double kTight = 95;  // memory predictions err by some percent: docs/results/accuracy.md
    const double percent = fullest_percent(report, 0);
    if (percent < kTight) return {};
    return fmt::format(
        "The best plan fills {:.0f} % of the device's memory, less than the usual error of a prediction from "
        "the "
        "brim: --headroom 5 leaves 5 % free.",
        percent);
}

}  // namespace tw::cli
