#include "sim/validate/ablate_text.hpp"

#include <cmath>

#include <fmt/format.h>

namespace tw {
namespace {

std::string percent(const ErrorScore& score) {
    return score.compared > 0 ? fmt::format("{:.1f}", 100 * score.mape) : "-";
}

// Points of the mean absolute error that are gained (+) or lost by the switch.
std::string points(const ErrorScore& now, const ErrorScore& base) {
    if (base.compared == 0) return "-";
    return fmt::format("{:+.1f}", 100 * (now.mape - base.mape));
}

double shift(const ErrorScore& now, const ErrorScore& base) {
    return base.compared > 0 ? std::max(std::abs(now.mape - base.mape), std::abs(now.bias - base.bias)) : 0;
}

bool moves(const AblationResult& result) {
    for (const AblatedSource& source : result.sources) {
        if (source.changed > 0) return true;
    }
    return false;
}

std::string wide_table(const AblationReport& report, bool framework, bool memory) {
    const auto of = [&](const AblatedSource& s) -> const ErrorScore& { return memory ? s.memory : s.time; };
    std::vector<std::string> headers = {framework ? "Choice" : "Mechanism", "In its place"};
    std::vector<std::size_t> shown;
    for (std::size_t i = 0; i < report.base.size(); ++i) {
        if (of(report.base[i]).compared == 0) continue;
        shown.push_back(i);
        headers.push_back(report.base[i].file);
    }
    TextTable table(headers);
    for (std::size_t column = 2; column < headers.size(); ++column)
        table.align(column, Align::Right);
    std::vector<TableCell> base = {"as it is", ""};
    for (const std::size_t i : shown)
        base.emplace_back(percent(of(report.base[i])));
    table.add_row(base);
    for (const AblationResult& result : report.results) {
        if (result.framework != framework || !moves(result)) continue;
        std::vector<TableCell> cells = {result.name, result.neutral};
        bool any = false;
        for (const std::size_t i : shown) {
            const ErrorScore& now = of(result.sources[i]);
            const bool same = shift(now, of(report.base[i])) < 5e-4;
            any = any || !same;
            cells.emplace_back(same ? std::string("·") : percent(now));
        }
        if (any) table.add_row(cells);
    }
    return table.render(TableFormat::Markdown);
}

}  // namespace

TextTable ablation_table(const AblationReport& report, double least) {
    TextTable table({"Switched off", "Source", "Rows", "MAPE %", "Change", "Bias %", "Memory %", "Change"});
    for (std::size_t column = 2; column < 8; ++column)
        table.align(column, Align::Right);
    for (const AblationResult& result : report.results) {
        bool first = true;
        for (std::size_t i = 0; i < result.sources.size(); ++i) {
            const AblatedSource& now = result.sources[i];
            const AblatedSource& base = report.base[i];
            if (now.changed == 0) continue;
            if (std::max(shift(now.time, base.time), shift(now.memory, base.memory)) < least) continue;
            const bool time = base.time.compared > 0;
            table.add_row({first ? std::string(result.name) : "", now.file, std::to_string(now.changed),
                           percent(now.time), points(now.time, base.time),
                           time ? fmt::format("{:+.1f}", 100 * now.time.bias) : "-", percent(now.memory),
                           points(now.memory, base.memory)});
            first = false;
        }
    }
    return table;
}

std::string ablation_page(const AblationReport& report) {
    std::string page =
        "# Ablation: what each choice and each mechanism is worth\n\n"
        "Written by `trainwright validate --ablate --page`; not edited by hand. Each line switches one thing "
        "off and predicts\n"
        "every compared row again, blind; the figures are mean absolute errors in per cent, `·` where "
        "nothing moved by a\n"
        "twentieth of a point. A lower figure than the first line's does not mean that the thing is wrong: "
        "where a source is\n"
        "predicted too fast, anything that adds time helps, and the other way round. Where a plan is not "
        "legal any more the\n"
        "prediction stays as it was.\n\n"
        "## Choices of the frameworks' table: step time\n\n"
        "Every entry at its neutral value, in all frameworks at once. What a row states itself stays.\n\n";
    page += wide_table(report, true, false);
    page += "\n## Choices of the frameworks' table: memory\n\n" + wide_table(report, true, true);
    page += "\n## Mechanisms of the cost model: step time\n\n" + wide_table(report, false, false);
    std::string still;
    for (const AblationResult& result : report.results) {
        if (!moves(result)) still += fmt::format("{}{}", still.empty() ? "" : ", ", result.name);
    }
    if (!still.empty()) page += "\nNo row depends on: " + still + ".\n";
    return page;
}

Json ablation_to_json(const AblationReport& report) {
    const auto figure = [](const ErrorScore& s, double value) {
        return s.compared > 0 ? Json(value) : Json(nullptr);
    };
    const auto source = [&](const AblatedSource& s) {
        return Json{{"file", s.file},
                    {"changed", s.changed},
                    {"time_mape", figure(s.time, s.time.mape)},
                    {"time_bias", figure(s.time, s.time.bias)},
                    {"memory_mape", figure(s.memory, s.memory.mape)},
                    {"memory_bias", figure(s.memory, s.memory.bias)}};
    };
    const auto sources = [&](const std::vector<AblatedSource>& all) {
        Json list = Json::array();
        for (const AblatedSource& s : all)
            list.push_back(source(s));
        return list;
    };
    Json json = {{"base", sources(report.base)}, {"ablations", Json::array()}};
    for (const AblationResult& result : report.results) {
        json["ablations"].push_back({{"name", result.name},
                                     {"neutral", result.neutral},
                                     {"kind", result.framework ? "choice" : "mechanism"},
                                     {"refused", result.refused},
                                     {"sources", sources(result.sources)}});
    }
    return json;
}

}  // namespace tw
