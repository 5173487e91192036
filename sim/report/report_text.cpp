#include "sim/report/report_text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "base/text_table.hpp"
#include "plan/trace/ascii_timeline.hpp"
#include "sim/report/fullest_rank.hpp"

namespace tw {
namespace {

// Half-width of the central 80 % of a normal distribution, in standard deviations.
constexpr double kEightyPercent = 1.2816;

std::string heading(std::string_view text, const ReportTextOptions& options) {
    return "\n" + styled(text, TextStyle::Bold, options.colour) + "\n";
}

std::string_view boundary_text(StepBoundary boundary) {
    switch (boundary) {
        case StepBoundary::Barrier:
            return "from barrier to barrier";
        case StepBoundary::RankLocal:
            return "each rank's own period";
        case StepBoundary::None:
            return "the steady period, never flushed";
    }
    return {};
}

struct Share {
    std::string_view name;
    double TimeBreakdown::*seconds;
    std::string_view full, ascii;  // bar glyphs
    TextStyle style;
};

constexpr std::array kShares = {
    Share{"forward", &TimeBreakdown::forward, "█", "#", TextStyle::Cyan},
    Share{"backward", &TimeBreakdown::backward, "█", "#", TextStyle::Green},
    Share{"recompute", &TimeBreakdown::recompute, "▓", "%", TextStyle::Yellow},
    Share{"optimizer", &TimeBreakdown::optimizer, "▓", "%", TextStyle::Blue},
    Share{"exposed tensor parallel", &TimeBreakdown::exposed_tp, "▒", "~", TextStyle::Magenta},
    Share{"exposed data parallel", &TimeBreakdown::exposed_dp, "▒", "~", TextStyle::Magenta},
    Share{"exposed pipeline", &TimeBreakdown::exposed_pp, "▒", "~", TextStyle::Magenta},
    Share{"exposed context parallel", &TimeBreakdown::exposed_cp, "▒", "~", TextStyle::Magenta},
    Share{"exposed expert parallel", &TimeBreakdown::exposed_ep, "▒", "~", TextStyle::Magenta},
    Share{"offloading activations", &TimeBreakdown::exposed_offload, "▒", "~", TextStyle::Magenta},
    Share{"slowed by collectives", &TimeBreakdown::slowed, "▒", "~", TextStyle::Magenta},
    Share{"copying weights", &TimeBreakdown::stash, "▓", "%", TextStyle::Blue},
    Share{"waiting for the host", &TimeBreakdown::host, "░", ".", TextStyle::Red},
    Share{"waiting for other ranks", &TimeBreakdown::bubble, "░", ".", TextStyle::Red},
};

// Mean over the ranks.
double mean_share(const SimulationReport& report, double TimeBreakdown::*seconds) {
    double sum = 0;
    for (const RankReport& rank : report.ranks)
        sum += rank.breakdown.*seconds;
    return report.ranks.empty() ? 0 : sum / static_cast<double>(report.ranks.size());
}

// "0", "1-14": the rank numbers of consecutive equal rows.
std::string range_text(int first, int last) {
    return first == last ? std::to_string(first) : fmt::format("{}-{}", first, last);
}

// What a report's memory is tabled in: a small model's parts would all be 0.00 GiB.
struct MemoryUnit {
    const char* name;
    double bytes;
    [[nodiscard]] std::string show(double amount) const { return fmt::format("{:.2f}", amount / bytes); }
};
MemoryUnit memory_unit(const SimulationReport& report) {
    double most = 0;
    for (const StageMemory& memory : report.memory)
        most = std::max(most, memory.peak_allocated_bytes);
    return most < 0x1p30 ? MemoryUnit{"MiB", 0x1p20} : MemoryUnit{"GiB", 0x1p30};
}

std::vector<std::string> addend_names(const SimulationReport& report) {
    std::vector<std::string> names;
    for (const StageMemory& memory : report.memory) {
        for (const MemoryAddend& addend : memory.addends) {
            if (std::find(names.begin(), names.end(), addend.name) == names.end())
                names.push_back(addend.name);
        }
    }
    return names;
}

// The cells of one rank's row, its rank number left out.
std::vector<TableCell> memory_cells(const StageMemory& memory, const std::vector<std::string>& names,
                                    const MemoryUnit& unit) {
    std::vector<TableCell> cells;
    for (const std::string& name : names) {
        double bytes = 0;
        bool any = false;
        for (const MemoryAddend& addend : memory.addends) {
            if (addend.name == name) bytes += addend.bytes, any = true;
        }
        cells.emplace_back(any ? unit.show(bytes) : "-");
    }
    cells.emplace_back(unit.show(memory.peak_allocated_bytes));
    cells.emplace_back(unit.show(memory.peak_reserved_bytes));
    cells.emplace_back(unit.show(memory.device_bytes), memory.fits() ? TextStyle::Green : TextStyle::Red);
    cells.emplace_back(memory.capacity_bytes > 0 ? unit.show(memory.capacity_bytes) : "-");
    return cells;
}

// One row a rank; one column a rank where that would be wider than the terminal and this is not.
std::string memory_table(const std::vector<std::string>& columns, const std::vector<std::string>& labels,
                         const std::vector<std::vector<TableCell>>& rows, const ReportTextOptions& options) {
    std::vector<std::string> headers = {"rank"};
    headers.insert(headers.end(), columns.begin(), columns.end());
    TextTable by_rank(std::move(headers));
    for (std::size_t r = 0; r < rows.size(); ++r) {
        std::vector<TableCell> cells = rows[r];
        cells.insert(cells.begin(), labels[r]);
        by_rank.add_row(std::move(cells));
    }
    headers = {"rank"};
    headers.insert(headers.end(), labels.begin(), labels.end());
    TextTable by_part(std::move(headers));
    for (std::size_t c = 0; c < columns.size(); ++c) {
        std::vector<TableCell> cells = {columns[c]};
        for (const auto& row : rows)
            cells.push_back(row[c]);
        by_part.add_row(std::move(cells));
    }
    const auto width = [](const std::string& text) {  // of the rule below the headers, the widest line
        const std::size_t first = text.find('\n') + 1;
        return display_width(std::string_view(text).substr(first, text.find('\n', first) - first));
    };
    std::string wide = by_rank.render(TableFormat::Terminal, options.colour, 2);
    std::string tall = by_part.render(TableFormat::Terminal, options.colour, 2);
    const auto room = static_cast<std::size_t>(std::max(1, options.width));
    return width(wide) > room && width(tall) < width(wide) ? tall : wide;
}

// A row of an addend; a formula that is wider than `room` goes on below itself.
void add_addend(TextTable& table, const std::string& name, double bytes, std::string_view formula,
                std::size_t room) {
    std::string first = name, size = format_bytes(bytes);
    while (true) {
        std::size_t end = formula.size();
        if (display_width(formula) > room) {
            end = formula.rfind(' ', room);
            if (end == std::string_view::npos || end == 0) end = formula.size();
        }
        table.add_row(
            {std::exchange(first, ""), std::exchange(size, ""), std::string(formula.substr(0, end))});
        if (end >= formula.size()) return;
        formula.remove_prefix(end + 1);
    }
}

bool equal_text(const std::vector<TableCell>& a, const std::vector<TableCell>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const TableCell& x, const TableCell& y) { return x.text == y.text; });
}

std::string ranks_text(const SimulationReport& report, const ReportTextOptions& options) {
    if (report.ranks.empty()) return {};
    TextTable table({"rank", "busy", "idle", "bubble", "in flight", "weight versions"});
    const auto cells = [](const RankReport& rank) {
        return std::vector<TableCell>{
            format_duration(rank.busy_s), format_duration(rank.idle_s), format_percent(rank.bubble_fraction),
            std::to_string(rank.peak_in_flight), std::to_string(rank.weight_versions)};
    };
    for (std::size_t k = 0; k < report.ranks.size();) {
        std::vector<TableCell> row = cells(report.ranks[k]);
        std::size_t last = k;
        while (last + 1 < report.ranks.size() && equal_text(cells(report.ranks[last + 1]), row))
            ++last;
        row.insert(row.begin(), range_text(report.ranks[k].rank, report.ranks[last].rank));
        table.add_row(std::move(row));
        k = last + 1;
    }
    return heading("Ranks", options) + table.render(TableFormat::Terminal, options.colour, 2);
}

std::string path_text(const SimulationReport& report, const ReportTextOptions& options) {
    if (report.critical_path.empty()) return {};
    std::string out = heading("Critical path", options);
    const auto shown = std::min(report.critical_path.size(),
                                static_cast<std::size_t>(std::max(0, options.critical_path_lines)));
    for (std::size_t k = 0; k < shown; ++k)
        out += fmt::format("  {}\n", report.critical_path[k]);
    if (shown < report.critical_path.size())
        out += fmt::format("  and {} more\n", report.critical_path.size() - shown);
    return out;
}

std::string warnings_text(const SimulationReport& report, const ReportTextOptions& options) {
    if (report.warnings.empty()) return {};
    std::string out = heading("Warnings", options);
    for (const std::string& warning : report.warnings) {
        out += fmt::format("  {}\n", styled(warning, TextStyle::Yellow, options.colour));
    }
    return out;
}

}  // namespace

std::string price_text(double usd) {
    if (usd >= 1) return fmt::format("{:.2f}", usd);
    return usd >= 1e-3 ? fmt::format("{:.4f}", usd) : fmt::format("{:.3g}", usd);
}

std::string report_headline(const SimulationReport& report, const ReportTextOptions& options) {
    std::string out = styled(summary(report.plan), TextStyle::Bold, options.colour) + "\n\n";
    const auto line = [&](std::string_view name, const std::string& text) {
        out += fmt::format("{} {}\n", styled(pad_right(name, 13), TextStyle::Dim, options.colour), text);
    };
    std::string time = styled(format_duration(report.step_time_s), TextStyle::Bold, options.colour);
    if (report.step_time_sigma_s > 0) {
        const double factor = std::exp(kEightyPercent * report.step_time_sigma_s / report.step_time_s);
        time += fmt::format(" (80 %: {} to {})", format_duration(report.step_time_s / factor),
                            format_duration(report.step_time_s * factor));
    }
    line("step time", fmt::format("{}, {}", time, boundary_text(report.boundary)));
    line("one step", fmt::format("{} alone", format_duration(report.makespan_s)));
    std::string throughput = format_rate(report.tokens_per_s, report.rate_unit);
    if (report.tokens_per_s != report.samples_per_s)
        throughput += ", " + format_rate(report.samples_per_s, "samples/s");
    line("throughput", throughput);
    std::string flops = fmt::format("MFU {}, HFU {}", format_percent(report.mfu), format_percent(report.hfu));
    if (!report.flop_convention.empty()) flops += fmt::format(" ({})", report.flop_convention);
    line("utilisation", flops);
    line("bubble", fmt::format("{} of the devices' time idle between instructions",
                               format_percent(report.bubble_fraction)));
    std::string memory = "none";
    if (const StageMemory* fullest = fullest_rank(report)) {
        memory = fmt::format("{} allocated, {} reserved, {} on the device",
                             format_bytes(report.peak_allocated_bytes),
                             format_bytes(report.peak_reserved_bytes), format_bytes(fullest->device_bytes));
        if (fullest->capacity_bytes > 0)
            memory += fmt::format(" of {}", format_bytes(fullest->capacity_bytes));
        if (fullest->peak_reserved_bytes > fullest->device_bytes) memory += ", cached blocks given back";
    }
    memory += ": " + (report.fits ? styled("fits", TextStyle::Green, options.colour)
                                  : styled("does not fit", TextStyle::Red, options.colour));
    line("peak memory", memory);
    if (report.energy_j > 0) line("energy", fmt::format("{} a step", format_rate(report.energy_j, "J")));
    if (report.usd_per_step > 0) line("price", fmt::format("${} a step", price_text(report.usd_per_step)));
    if (report.not_executable.empty()) {
        line("executable", "yes");
    } else {
        for (std::size_t k = 0; k < report.not_executable.size(); ++k) {
            line(k == 0 ? "executable" : "",
                 fmt::format("{}{}", k == 0 ? "no: " : "    ", report.not_executable[k]));
        }
    }
    return out;
}

std::string time_breakdown_text(const SimulationReport& report, const ReportTextOptions& options) {
    const double total = report.step_time_s;
    if (total <= 0 || report.ranks.empty()) return {};
    std::string out = heading("Where the time goes (mean of the ranks)", options);
    const double columns = std::clamp(options.width - 52, 10, 60);
    for (const Share& share : kShares) {
        const double seconds = mean_share(report, share.seconds);
        if (seconds <= 0) continue;
        // At least one glyph: what takes time does not vanish.
        const auto length = std::max(1L, std::lround(seconds / total * columns));
        std::string bar;
        for (long k = 0; k < length; ++k)
            bar += options.unicode ? share.full : share.ascii;
        out += fmt::format(
            "  {} {} {}  {}\n", pad_right(share.name, 25), pad_left(format_duration(seconds), 9),
            pad_left(format_percent(seconds / total), 7), styled(bar, share.style, options.colour));
    }
    return out;
}

std::string memory_text(const SimulationReport& report, const ReportTextOptions& options) {
    if (report.memory.empty()) return {};
    const std::vector<std::string> names = addend_names(report);
    std::vector<std::string> columns = names;
    columns.insert(columns.end(), {"allocated", "reserved", "device", "capacity"});
    std::vector<std::string> labels;  // consecutive equal ranks are one
    std::vector<std::vector<TableCell>> rows;
    const StageMemory* const fullest = fullest_rank(report);
    const MemoryUnit unit = memory_unit(report);
    for (std::size_t k = 0; k < report.memory.size();) {
        rows.push_back(memory_cells(report.memory[k], names, unit));
        std::size_t last = k;
        while (last + 1 < report.memory.size() &&
               equal_text(memory_cells(report.memory[last + 1], names, unit), rows.back())) {
            ++last;
        }
        labels.push_back(range_text(report.memory[k].rank, report.memory[last].rank));
        k = last + 1;
    }
    std::string out = heading(fmt::format("Memory at each rank's peak ({})", unit.name), options);
    out += memory_table(columns, labels, rows, options);
    std::string at = fullest->peak_instant.empty() ? "" : fmt::format(", at {}", fullest->peak_instant);
    out += heading(fmt::format("The peak of rank {}{}", fullest->rank, at), options);
    TextTable addends({"part", "bytes", "formula"});
    constexpr int kBeside = 32;  // names and bytes
    const auto room = static_cast<std::size_t>(std::max(40, options.width - kBeside));
    const auto add = [&](const std::string& name, double bytes, std::string_view formula) {
        add_addend(addends, name, bytes, formula, room);
    };
    for (const MemoryAddend& addend : fullest->addends)
        add(addend.name, addend.bytes, addend.formula);
    if (!fullest->beside.empty()) {
        add("allocated", fullest->peak_allocated_bytes, "all of the above");
        for (const MemoryAddend& addend : fullest->beside)
            add(addend.name, addend.bytes, addend.formula);
        add("on the device", fullest->device_bytes, "allocated and what is beside it");
    }
    addends.align(2, Align::Left);
    out += addends.render(TableFormat::Terminal, options.colour, 2);
    if (fullest->initialisation_peak_bytes > 0) {
        out +=
            fmt::format("  before the first step {}: the model states; building the model is not modelled\n",
                        format_bytes(fullest->initialisation_peak_bytes));
    }
    if (report.padded_vocabulary > report.vocabulary) {
        out += fmt::format("  vocabulary {} padded to {} ({} dummy rows), {} a rank\n",
                           format_count(report.vocabulary), format_count(report.padded_vocabulary),
                           format_count(report.padded_vocabulary - report.vocabulary),
                           format_count(report.padded_vocabulary / report.plan.mesh.tp));
    }
    return out;
}

std::string communication_text(const SimulationReport& report, const ReportTextOptions& options) {
    if (report.communication.empty()) return {};
    TextTable table({"kind", "time a step", "exposed", "hidden", "bytes sent", "algorithm"});
    for (const CommunicationReport& c : report.communication) {
        const double hidden = c.total_s > 0 ? (c.total_s - c.exposed_s) / c.total_s : 0;
        table.add_row({c.kind, format_duration(c.total_s), format_duration(c.exposed_s),
                       format_percent(hidden), format_bytes(c.bytes, ByteUnit::Decimal), c.algorithm});
    }
    table.align(5, Align::Left);
    return heading("Communication (of each kind, the rank that has most)", options) +
           table.render(TableFormat::Terminal, options.colour, 2);
}

std::string report_text(const SimulationReport& report, const ReportTextOptions& options) {
    std::string out = report_headline(report, options);
    out += time_breakdown_text(report, options);
    out += ranks_text(report, options);
    out += memory_text(report, options);
    out += communication_text(report, options);
    if (!report.gradient_sync.method.empty())
        out += heading("Gradient synchronisation", options) +
               gradient_sync_lines(report.gradient_sync, report.step_time_s);
    out += path_text(report, options);
    if (options.timeline && !report.trace.ranks.empty()) {
        AsciiTimelineOptions timeline;
        timeline.width = options.width;
        timeline.colour = options.colour;
        timeline.unicode = options.unicode;
        out += heading("Timeline", options) + ascii_timeline(report.trace, timeline);
    }
    return out + warnings_text(report, options);
}

}  // namespace tw
