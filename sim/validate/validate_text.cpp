#include "sim/validate/validate_text.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "plan/frameworks/framework.hpp"

namespace tw {
namespace {

std::string percent(double fraction) {
    return fmt::format("{:.1f}", 100 * fraction);
}

std::string signed_percent(double fraction) {
    return fmt::format("{:+.1f}", 100 * fraction);
}

std::string seconds(double s) {
    return s > 0 ? fmt::format("{:.4g}", s) : "-";
}

std::string gigabytes(double bytes) {
    return bytes > 0 ? fmt::format("{:.2f}", bytes / 1e9) : "-";
}

std::string ratio(double predicted, double measured) {
    return predicted > 0 && measured > 0 ? signed_percent(predicted / measured - 1) : "-";
}

}  // namespace

TextTable validation_table(const ValidationReport& report) {
    TextTable table({"Source", "Rows", "Compared", "MAPE %", "Blind %", "Median %", "p90 %", "Bias %", "tau",
                     "In 80 %", "Blind", "Memory %", "Bias %", "OOM tp/fp/fn"});
    for (const SourceScore& s : report.sources) {
        const bool time = s.time_blind.compared > 0;
        const bool memory = s.memory.compared > 0;
        const Confusion& c = s.out_of_memory;
        const bool oom = c.true_positive + c.false_positive + c.false_negative > 0;
        table.add_row(
            {s.file, std::to_string(s.rows), std::to_string(s.compared), time ? percent(s.time.mape) : "-",
             time ? percent(s.time_blind.mape) : "-", time ? percent(s.time.median_ape) : "-",
             time ? percent(s.time.p90_ape) : "-", time ? signed_percent(s.time.bias) : "-",
             s.kendall_tau ? fmt::format("{:.2f}", *s.kendall_tau) : "-", time ? percent(s.coverage) : "-",
             time ? percent(s.coverage_blind) : "-", memory ? percent(s.memory.mape) : "-",
             memory ? signed_percent(s.memory.bias) : "-",
             oom ? fmt::format("{}/{}/{}", c.true_positive, c.false_positive, c.false_negative) : "-"});
    }
    for (std::size_t column = 1; column < 14; ++column)
        table.align(column, Align::Right);
    return table;
}

TextTable worst_rows(const ValidationReport& report, std::size_t limit) {
    std::vector<const ValidationRow*> rows;
    for (const ValidationRow& row : report.rows) {
        if (row.compared) rows.push_back(&row);
    }
    const auto badness = [](const ValidationRow& r) {
        return r.has_time() ? std::abs(std::log(r.calibrated_step_time_s / r.truth.step_time_s)) : 0.0;
    };
    if (limit > 0) {
        std::stable_sort(rows.begin(), rows.end(),
                         [&](const auto* a, const auto* b) { return badness(*a) > badness(*b); });
        rows.resize(std::min(limit, rows.size()));
    }
    TextTable table({"Source", "Row", "Model", "Plan", "Framework", "Measured s", "Predicted s", "Error %",
                     "Calibrated %", "Sigma %", "Measured GB", "Predicted GB", "Memory %"});
    for (const ValidationRow* r : rows) {
        const double time = r->has_time() ? r->truth.step_time_s : 0;
        const double memory = r->has_memory() ? r->truth.memory_bytes : 0;
        table.add_row({r->truth.file, r->truth.id, r->truth.model.name, r->plan, r->framework, seconds(time),
                       seconds(r->blind.step_time_s), ratio(r->blind.step_time_s, time),
                       ratio(r->calibrated_step_time_s, time),
                       r->blind.step_time_s > 0 ? percent(r->blind.sigma_s / r->blind.step_time_s) : "-",
                       gigabytes(memory), gigabytes(r->blind.memory_bytes),
                       ratio(r->blind.memory_bytes, memory)});
    }
    return table;
}

namespace {

// Counted a source, with the first row's id.
class Counts {
  public:
    void add(const TruthRow& row, const std::string& what) {
        auto& [count, example] = counts_[{row.file, what}];
        if (count++ == 0) example = row.id;
    }

    [[nodiscard]] TextTable table(std::string_view what) const {
        TextTable table({"Source", "Rows", std::string(what), "First"});
        for (const auto& [key, value] : counts_)
            table.add_row({key.first, std::to_string(value.first), key.second, value.second});
        return table;
    }

  private:
    std::map<std::pair<std::string, std::string>, std::pair<int, std::string>> counts_;
};

}  // namespace

TextTable reasons_table(const ValidationReport& report) {
    Counts counts;
    for (const ValidationRow& row : report.rows) {
        if (!row.compared) counts.add(row.truth, row.reason);
    }
    return counts.table("Not compared because");
}

TextTable assumptions_table(const ValidationReport& report) {
    Counts counts;
    for (const ValidationRow& row : report.rows) {
        for (const std::string& words : row.assumed)
            counts.add(row.truth, words);
    }
    return counts.table("Taken for granted");
}

std::string accuracy_page(const ValidationReport& report) {
    std::string page =
        "# Accuracy: predicted against measured\n\n"
        "Written by `trainwright validate --page`; not edited by hand. Every published row that states "
        "layers, hidden size,\n"
        "parallel degrees, microbatch and global batch is predicted with the shipped hardware profiles; what "
        "a row does not\n"
        "say is the default of its framework's version ([plan/frameworks](../../plan/frameworks)), one for "
        "all rows. No\n"
        "parameter was fitted to a training run, but for the host's time per dispatched operation in the "
        "calibrated column\n"
        "(below). Errors are predicted / measured - 1.\n\n"
        "MAPE: mean absolute error of step time, calibrated; Blind: the same without calibration, over all "
        "compared rows;\n"
        "tau: Kendall's rank correlation within sweeps of at least four rows that differ in one field; In 80 "
        "%: share of\n"
        "calibrated predictions whose stated 80 % interval holds the measurement, and of the blind ones "
        "beside it; Memory: mean absolute error of the figure that the row gives "
        "(allocated,\n"
        "reserved, or the whole device's); OOM: out of memory predicted rightly, wrongly, and missed.\n\n";
    page += validation_table(report).render(TableFormat::Markdown);
    if (!report.calibrations.empty()) {
        page +=
            "\n## Calibrated host time\n\nTimes the profile's host seconds per dispatched operation; fitted "
            "on the rows "
            "named, which the calibrated score leaves out.\n\n";
        TextTable table({"Source", "Framework", "GPU", "Factor", "Rows", "Fitted on"});
        for (const Calibration& c : report.calibrations) {
            std::string rows;
            for (const std::string& id : c.rows)
                rows += (rows.empty() ? "" : ", ") + id;
            table.add_row({c.file, c.framework, c.gpu, fmt::format("{:.2f}", c.dispatch_factor),
                           std::to_string(c.rows.size()), rows});
        }
        page += table.render(TableFormat::Markdown);
    }
    page += "\n## Not compared\n\n" + reasons_table(report).render(TableFormat::Markdown);
    if (const TextTable words = assumptions_table(report); words.rows() > 0)
        page += "\n## Taken for granted\n\n" + words.render(TableFormat::Markdown);
    page += "\n## Frameworks' defaults\n\n";
    TextTable facts({"Framework", "What", "Value", "Source"});
    for (const FrameworkDefaults* d : frameworks()) {
        for (const FrameworkFact& f : d->facts)
            facts.add_row({d->name, f.what, f.value, f.source});
    }
    return page + facts.render(TableFormat::Markdown);
}

}  // namespace tw
