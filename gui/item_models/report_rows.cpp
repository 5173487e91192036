#include "gui/item_models/report_rows.hpp"

#include <cmath>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "gui/worker/tasks.hpp"
#include "plan/trace/compare.hpp"
#include "planner/explain/breakdown.hpp"
#include "sim/report/report.hpp"

namespace tw::gui {
namespace {

QString text(const std::string& value) {
    return QString::fromStdString(value);
}
QString text(std::string_view value) {
    return QString::fromUtf8(value.data(), static_cast<qsizetype>(value.size()));
}

struct Figure {
    const char* title;
    double (*value)(const SimulationReport&);
    std::string (*show)(double);
    bool less_is_better;
    bool points;  // the difference in percentage points
};

std::string duration(double v) {
    return format_duration(v);
}
std::string bytes(double v) {
    return format_bytes(v);
}
std::string share(double v) {
    return format_percent(v);
}
std::string rate(double v) {
    return format_short_count(v) + "/s";
}
std::string money(double v) {
    return v > 0 ? "$" + format_short_count(v) : "-";
}

const Figure kFigures[] = {
    {"step time", [](const SimulationReport& r) { return r.step_time_s; }, duration, true, false},
    {"± one sigma", [](const SimulationReport& r) { return r.step_time_sigma_s; }, duration, true, false},
    {"rate", [](const SimulationReport& r) { return r.tokens_per_s; }, rate, false, false},
    {"MFU", [](const SimulationReport& r) { return r.mfu; }, share, false, true},
    {"bubble", [](const SimulationReport& r) { return r.bubble_fraction; }, share, true, true},
    {"exposed communication", [](const SimulationReport& r) { return exposed_seconds(r); }, duration, true,
     false},
    {"memory of a device", [](const SimulationReport& r) { return r.peak_device_bytes; }, bytes, true, false},
    {"allocated", [](const SimulationReport& r) { return r.peak_allocated_bytes; }, bytes, true, false},
    {"money a step", [](const SimulationReport& r) { return r.usd_per_step; }, money, true, false},
};

// "+2.1 %"; what rounds to nothing has no sign.
std::string signed_text(double value, const char* unit) {
    if (std::abs(value) < 0.05) return fmt::format("0.0 {}", unit);
    return fmt::format("{:+.1f} {}", value, unit);
}

Tone tone_of(double difference, bool less_is_better) {
    if (std::abs(difference) < 5e-4) return Tone::Faint;
    return (difference < 0) == less_is_better ? Tone::Good : Tone::Bad;
}

}  // namespace

Cell duration_cell(double seconds) {
    return {text(format_duration(seconds)), seconds};
}

Cell change_cell(double relative, bool less_is_better) {
    return {text(signed_text(100 * relative, "%")), relative, tone_of(relative, less_is_better)};
}

std::vector<TableColumn> figure_columns(const QString& before, const QString& after) {
    return {{"Figure"}, {before, {}, {}, true}, {after, {}, {}, true}, {"Δ", "Difference", {}, true}};
}

TableRows figure_rows(const SimulationReport* before, const SimulationReport* after) {
    TableRows rows;
    for (const Figure& figure : kFigures) {
        std::vector<Cell> row;
        row.reserve(4);
        row.push_back({figure.title});
        const double a = before != nullptr ? figure.value(*before) : std::nan("");
        const double b = after != nullptr ? figure.value(*after) : std::nan("");
        row.push_back({std::isnan(a) ? QString() : text(figure.show(a)), a});
        row.push_back({std::isnan(b) ? QString() : text(figure.show(b)), b});
        if (std::isnan(a) || std::isnan(b) || a == 0) {
            row.push_back({QString(), std::nan("")});
        } else if (figure.points) {
            row.push_back(
                {text(signed_text(100 * (b - a), "pt")), b - a, tone_of(b - a, figure.less_is_better)});
        } else {
            row.push_back(change_cell(b / a - 1, figure.less_is_better));
        }
        rows.push_back(std::move(row));
    }
    if (before == nullptr || after == nullptr) return rows;
    if (!before->fits || !after->fits)
        rows.push_back({{"fits"},
                        {before->fits ? "yes" : "no", {}, before->fits ? Tone::Plain : Tone::Bad},
                        {after->fits ? "yes" : "no", {}, after->fits ? Tone::Plain : Tone::Bad},
                        {""}});
    return rows;
}

std::vector<TableColumn> breakdown_columns(bool two) {
    std::vector<TableColumn> columns = {
        {"Part"}, {"Time", "Mean over ranks, a step", "s", true}, {"Share", "Of the step", "1", true}};
    if (two) {
        columns.push_back({"Other", "Of the other plan", "s", true});
        columns.push_back({"Difference", {}, "s", true});
    }
    return columns;
}

TableRows breakdown_rows(const SimulationReport& report, const SimulationReport* other) {
    TableRows rows;
    const std::vector<TimePart> parts = time_parts(report);
    const std::vector<TimePart> others = other != nullptr ? time_parts(*other) : std::vector<TimePart>{};
    double total = 0;
    for (const TimePart& part : parts)
        total += part.seconds;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const double b = other != nullptr ? others[i].seconds : 0;
        if (parts[i].seconds <= 0 && b <= 0) continue;
        const double of_step = total > 0 ? parts[i].seconds / total : 0;
        std::vector<Cell> row;
        row.reserve(5);
        row.push_back({text(parts[i].name)});
        row.push_back(duration_cell(parts[i].seconds));
        row.push_back({text(format_percent(of_step)), of_step});
        if (other != nullptr) {
            row.push_back(duration_cell(b));
            const double d = b - parts[i].seconds;
            row.push_back({(d >= 0 ? "+" : "-") + text(format_duration(std::abs(d))), d,
                           tone_of(total > 0 ? d / total : 0, true)});
        }
        rows.push_back(std::move(row));
    }
    return rows;
}

QString change_text(const Alternative& alternative) {
    return text(alternative.what).replace("->", "→");
}

std::vector<TableColumn> alternative_columns(bool neighbours) {
    std::vector<TableColumn> columns = {
        {"Change"}, {"Δ", "Of the step time", "1", true}, {"Step", {}, "s", true}};
    if (!neighbours) return columns;
    columns.push_back({"Memory", {}, "B", true});
    columns.push_back({"Mostly", "The part of the step that the change makes longer or shorter"});
    return columns;
}

TableRows alternative_rows(const std::vector<Alternative>& alternatives, bool neighbours) {
    TableRows rows;
    for (const Alternative& a : alternatives) {
        const QString verdict = !a.fits ? QString("does not fit") : a.tied ? QString("tied") : QString();
        const QString mostly = text(a.mostly);
        const QString last = verdict.isEmpty()  ? mostly
                             : mostly.isEmpty() ? verdict
                                                : verdict + ", " + mostly;
        Cell change = change_cell(a.change);
        if (a.tied) change.tone = Tone::Faint;
        std::vector<Cell> row;
        row.reserve(5);
        row.push_back({change_text(a), {}, Tone::Plain, change_text(a)});
        row.push_back(std::move(change));
        row.push_back(duration_cell(a.step_s));
        if (neighbours) {
            row.push_back(
                {text(format_bytes(a.memory_bytes)), a.memory_bytes, a.fits ? Tone::Plain : Tone::Bad});
            row.push_back({last, {}, a.fits ? Tone::Faint : Tone::Bad, last});
        }
        rows.push_back(std::move(row));
    }
    return rows;
}

std::vector<TableColumn> comparison_columns(const QString& first, const QString& second, bool against_first) {
    const QString &of = against_first ? second : first, &to = against_first ? first : second;
    return {{"Instruction"},         {"Stage", {}, {}, true},
            {"Count", {}, {}, true}, {first, {}, "s", true},
            {second, {}, "s", true}, {"Δ", QObject::tr("(%1 - %2) / %2").arg(of, to), "1", true}};
}

TableRows comparison_rows(const TraceComparison& comparison, bool against_first) {
    TableRows rows;
    for (const ErrorRow& row : comparison.rows) {
        const double error = !against_first        ? row.relative_error()
                             : row.predicted_s > 0 ? row.measured_s / row.predicted_s - 1
                                                   : 0;
        const bool large = std::abs(error) > 0.10;
        rows.push_back(
            {{text(to_string(row.opcode))},
             {QString::number(row.stage), static_cast<double>(row.stage)},
             {QString::number(row.count), static_cast<double>(row.count)},
             duration_cell(row.predicted_s),
             {text(format_duration(row.measured_s)), row.measured_s, Tone::Plain,
              row.measured_sigma_s > 0 ? "± " + text(format_duration(row.measured_sigma_s)) : QString()},
             {text(signed_text(100 * error, "%")), error, large ? Tone::Warning : Tone::Plain}});
    }
    return rows;
}

}  // namespace tw::gui
