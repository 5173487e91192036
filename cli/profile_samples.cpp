#include "cli/profile_samples.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "models/hardware/sample_statistics.hpp"
#include "profiler/fit/fit_measured.hpp"
#include "profiler/fit/statistics.hpp"

namespace tw::cli {
namespace {

std::string shape_text(const SampleSeries& s) {
    std::string text;
    for (const auto& [name, value] : s.shape)
        text += fmt::format("{}{}={:g}", text.empty() ? "" : " ", name, value);
    return text;
}

// Three deviations of a fit whose errors are normal, at least this share.
constexpr double kLeastOutlier = 0.15;

}  // namespace

std::vector<SampleSummary> summarise_samples(const ProfileDocument& document) {
    std::map<std::pair<std::string, std::string>, std::vector<const SampleSeries*>> groups;
    std::vector<std::pair<std::string, std::string>> order;
    for (const SampleSeries& s : document.samples) {
        // Names of models and numbers of operations are no kinds of their own.
        const bool named = s.benchmark == "host" || s.benchmark == "training_step";
        const std::pair<std::string, std::string> key{s.benchmark, named ? std::string() : s.variant};
        if (groups.count(key) == 0) order.push_back(key);
        groups[key].push_back(&s);
    }
    std::vector<SampleSummary> rows;
    for (const auto& key : order) {
        SampleSummary row;
        row.benchmark = key.first;
        row.variant = key.second;
        std::vector<double> spreads, residuals;
        std::vector<std::pair<const SampleSeries*, double>> errors;
        for (const SampleSeries* s : groups[key]) {
            ++row.points;
            if (s->values.size() >= 4) spreads.push_back(relative_spread(s->values));
            const double predicted = predicted_seconds(document.profile, *s), measured = median_of(s->values);
            if (predicted <= 0 || measured <= 0) continue;
            const double error = std::log(measured / predicted);
            residuals.push_back(std::abs(error));
            errors.emplace_back(s, error);
        }
        row.spread = median_of(spreads);
        row.predicted = residuals.size();
        row.residual = median_of(residuals);
        row.residual_p90 = quantile(residuals, 0.9);
        const double limit = std::max(kLeastOutlier, 3 * row.residual * 1.4826);
        for (const auto& [s, error] : errors) {
            if (std::abs(error) > limit)
                row.outliers.push_back(
                    fmt::format("{}: {:+.0f} %", shape_text(*s), 100 * (std::exp(error) - 1)));
        }
        rows.push_back(std::move(row));
    }
    return rows;
}

void show_measured(const ProfileDocument& document, Console& console) {
    if (!document.environment) return;
    const MeasuredEnvironment& e = *document.environment;
    console.heading(fmt::format("{} on {}", document.profile.name, e.host));
    console.out(fmt::format("{}, {} cores, {}\n{}; {} rank{} of {} thread{}; {}\n", e.processor, e.cores,
                            e.system, e.backend, e.ranks, e.ranks == 1 ? "" : "s", e.threads,
                            e.threads == 1 ? "" : "s", e.date));
    console.out(fmt::format("{}{}; {}; the harness itself takes {:.2f} % of the shortest samples\n\n",
                            format_duration(e.seconds), e.complete ? "" : ", interrupted", e.noise_verdict,
                            100 * e.harness_overhead));
    TextTable table({"Benchmark", "", "Points", "Spread %", "Fit's error % median / p90", "Outliers"});
    for (const std::size_t column : {2U, 3U, 4U, 5U})
        table.align(column, Align::Right);
    const std::vector<SampleSummary> rows = summarise_samples(document);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const SampleSummary& r = rows[i];
        const bool same = i > 0 && rows[i - 1].benchmark == r.benchmark;
        table.add_row(
            {same ? std::string() : r.benchmark, r.variant, std::to_string(r.points),
             r.spread > 0 ? fmt::format("{:.1f}", 100 * r.spread) : "-",
             r.predicted > 0 ? fmt::format("{:.1f} / {:.1f}", 100 * r.residual, 100 * r.residual_p90) : "-",
             r.predicted > 0 ? std::to_string(r.outliers.size()) : "-"});
    }
    console.out_table(table);
    for (const SampleSummary& r : rows) {
        for (std::size_t i = 0; i < r.outliers.size() && i < 3; ++i)
            console.out(
                fmt::format("{}{} {} {}\n", i == 0 ? "\n" : "", r.benchmark, r.variant, r.outliers[i]));
    }
    if (!e.missing.empty()) {
        console.out("\nNot measured\n");
        for (const std::string& one : e.missing)
            console.out("  " + one + "\n");
    }
}

Json samples_json(const ProfileDocument& document) {
    Json json = Json::array();
    for (const SampleSummary& r : summarise_samples(document))
        json.push_back({{"benchmark", r.benchmark},
                        {"variant", r.variant},
                        {"points", r.points},
                        {"spread", r.spread},
                        {"predicted_points", r.predicted},
                        {"residual_median", r.residual},
                        {"residual_p90", r.residual_p90},
                        {"outliers", r.outliers}});
    return json;
}

}  // namespace tw::cli
