#include "cli/profile_diff.hpp"

#include <cmath>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "models/hardware/profile_document.hpp"
#include "profiler/fit/profile_difference.hpp"

namespace tw::cli {
namespace {

using Verdict = PartDifference::Verdict;

std::string moved(double ratio) {
    return ratio > 0 ? fmt::format("{:+.1f} %", 100 * (ratio - 1)) : "-";
}

const std::vector<std::string> kHead = {"Part",        "",       "Points",   "Samples",
                                        "Their noise", "Curves", "Farthest", "Why"};

std::vector<std::string> cells(const PartDifference& p) {
    return {p.part,
            p.variant,
            p.shared > 0 ? std::to_string(p.shared) : "-",
            moved(p.measured),
            p.shared > 0 ? fmt::format("{:.1f} %", 100 * p.noise) : "-",
            moved(p.predicted),
            moved(p.farthest),
            explain(p)};
}

struct Totals {
    std::size_t points = 0, within = 0;
};

Totals totals(const ProfileDifference& difference) {
    Totals t;
    for (const PartDifference& p : difference.parts) {
        t.points += p.predicted_at;
        t.within += p.within;
    }
    return t;
}

std::vector<std::string> summary(const ProfileDifference& d, double tolerance) {
    const Totals t = totals(d);
    const std::string share = format_percent(tolerance, 0);
    std::vector<std::string> lines = {
        fmt::format("{} of {} entries agree within {}", d.agreeing(), d.parts.size(), share)};
    if (t.points > 0)
        lines.push_back(
            fmt::format("{} of {} predictions at measured points do ({})", t.within, t.points,
                        format_percent(static_cast<double>(t.within) / static_cast<double>(t.points))));
    return lines;
}

TextTable difference_table(const ProfileDifference& difference) {
    TextTable table(kHead);
    for (const std::size_t column : {2U, 3U, 4U, 5U, 6U})
        table.align(column, Align::Right);
    for (std::size_t i = 0; i < difference.parts.size(); ++i) {
        const PartDifference& p = difference.parts[i];
        std::vector<TableCell> row;
        for (std::string& cell : cells(p))
            row.emplace_back(std::move(cell),
                             p.verdict == Verdict::Agrees ? TextStyle::Plain : TextStyle::Yellow);
        if (i > 0 && difference.parts[i - 1].part == p.part) row.front().text.clear();
        table.add_row(std::move(row));
    }
    return table;
}

std::string page(const ProfileDifference& d, const ProfileDocument& first, double tolerance) {
    std::string text = "# Two profiles of one machine\n\n";
    if (first.environment)
        text += fmt::format("{}, {} cores; {}.\n\n", first.environment->processor, first.environment->cores,
                            first.environment->system);
    text +=
        "Samples: medians of points that both measured, the second over the first. Curves: what the fits "
        "predict at all measured points, the median ratio and the farthest. Written by `trainwright profile "
        "show FIRST SECOND -o PAGE`.\n\n";
    for (const ProfileDifference::Line& line : d.environment)
        text += fmt::format("- {}: {} / {}\n", line.what, line.first, line.second);
    for (const std::string& line : summary(d, tolerance))
        text += "- " + line + "\n";
    return text + "\n" + difference_table(d).render(TableFormat::Markdown);
}

std::string_view name_of(Verdict verdict) {
    switch (verdict) {
        case Verdict::Agrees:
            return "agrees";
        case Verdict::Machine:
            return "machine";
        case Verdict::Noise:
            return "noise";
        case Verdict::Fit:
            return "fit";
        case Verdict::OnlyFirst:
            return "only-first";
        case Verdict::OnlySecond:
            return "only-second";
    }
    return "";
}

Json to_json(const ProfileDifference& d, double tolerance) {
    Json json = document("profile-difference");
    json["tolerance"] = tolerance;
    json["agree"] = d.agree();
    json["environment"] = Json::array();
    for (const ProfileDifference::Line& line : d.environment)
        json["environment"].push_back({{"what", line.what}, {"first", line.first}, {"second", line.second}});
    const auto ratio = [](double value) { return value > 0 ? Json(value) : Json(nullptr); };
    json["parts"] = Json::array();
    for (const PartDifference& p : d.parts)
        json["parts"].push_back({{"part", p.part},
                                 {"variant", p.variant},
                                 {"shared_points", p.shared},
                                 {"measured_ratio", ratio(p.measured)},
                                 {"noise", p.noise},
                                 {"predicted_points", p.predicted_at},
                                 {"predicted_within", p.within},
                                 {"predicted_ratio", ratio(p.predicted)},
                                 {"farthest_ratio", ratio(p.farthest)},
                                 {"farthest_at", p.farthest_at},
                                 {"verdict", name_of(p.verdict)},
                                 {"why", explain(p)}});
    return json;
}

}  // namespace

void define_profile_diff_flags(Command& command, ProfileDiffFlags& flags) {
    command.number("--tolerance", flags.tolerance, 0, 1000, "SHARE",
                   "show two: what an entry may differ by; 0.05 where not given");
}

int run_profile_diff(const std::vector<std::string>& files, const ProfileDiffFlags& flags,
                     const std::string& output, Console& console) {
    auto first = load_profile_document(files[0]);
    auto second = load_profile_document(files[1]);
    Errors errors;
    for (const auto* one : {&first, &second}) {
        if (!*one) errors.insert(errors.end(), one->errors().begin(), one->errors().end());
    }
    if (!errors.empty()) return console.fail(errors);
    const ProfileDifference difference = profile_difference(*first, *second, flags.tolerance);
    if (!output.empty()) {
        const Status written = console.write(output, page(difference, *first, flags.tolerance));
        if (!written) return console.fail(written.errors());
    }
    if (console.json) {
        console.out_json(to_json(difference, flags.tolerance));
    } else if (output != "-") {
        for (const ProfileDifference::Line& line : difference.environment)
            console.out(fmt::format("{}: {} / {}\n", line.what, line.first, line.second));
        if (!difference.environment.empty()) console.out("\n");
        console.out_table(difference_table(difference));
        console.out("\n");
        for (const PartDifference& p : difference.parts) {
            if (p.verdict != Verdict::Agrees && !p.farthest_at.empty())
                console.out(fmt::format("{} {}: farthest at {}\n", p.part, p.variant, p.farthest_at));
        }
        for (const std::string& line : summary(difference, flags.tolerance))
            console.out(line + "\n");
    }
    return difference.agree() ? 0 : exit_code(ErrorCode::Tolerance);
}

}  // namespace tw::cli
