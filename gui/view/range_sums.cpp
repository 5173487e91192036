#include "gui/view/range_sums.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/si_format.hpp"

namespace tw {

RangeSums sum_range(const TraceModel& model, const RangeSelection& range) {
    KindSums sums{};
    const auto start = model.starts();
    const auto finish = model.ends();
    const auto kind = model.kinds();
    std::size_t lanes = 0;
    for (const std::uint32_t l : range.lanes) {
        if (l >= model.lanes().size()) continue;
        ++lanes;
        const Lane& lane = model.lanes()[l];
        std::size_t first = model.first_ending_after(lane, range.begin);
        std::size_t last = model.detail().first_starting_at(start, first, lane.end, range.end);
        if (first >= last) continue;
        // The first and the last may reach beyond the range.
        const auto add_clipped = [&](std::size_t task) {
            KindSum& sum = sums[static_cast<std::size_t>(kind[task])];
            const SimTime inside = std::min(finish[task], range.end) - std::max(start[task], range.begin);
            sum.total += inside;
            ++sum.count;
            sum.longest = std::max(sum.longest, inside);
        };
        add_clipped(first++);
        if (first < last) add_clipped(--last);
        if (first < last) model.detail().add(start, finish, kind, first, last, sums);
    }
    RangeSums out;
    out.span = range.end - range.begin;
    out.lanes = lanes;
    const double whole = static_cast<double>(out.span) * static_cast<double>(lanes);
    const auto fill = [&](RangeRow& row) {
        row.share = whole > 0 ? static_cast<double>(row.total) / whole : 0;
        row.mean_s = row.count > 0 ? to_seconds(row.total).value / static_cast<double>(row.count) : 0;
    };
    for (std::size_t k = 0; k < sums.size(); ++k) {
        if (sums[k].count == 0) continue;
        RangeRow row{static_cast<TaskKind>(k), sums[k].total, 0, sums[k].count, 0, sums[k].longest};
        fill(row);
        out.all.total += row.total;
        out.all.count += row.count;
        out.all.longest = std::max(out.all.longest, row.longest);
        out.rows.push_back(row);
    }
    fill(out.all);
    std::stable_sort(out.rows.begin(), out.rows.end(),
                     [](const RangeRow& a, const RangeRow& b) { return a.total > b.total; });
    out.idle = out.span * static_cast<SimTime>(lanes) - out.all.total;
    return out;
}

TextTable range_table(const RangeSums& sums) {
    TextTable table({"kind", "sum", "share", "count", "mean", "max"});
    const auto add = [&](std::string_view name, const RangeRow& row) {
        table.add_row({name, format_sim_time(row.total), format_percent(row.share), format_count(row.count),
                       format_duration(row.mean_s), format_sim_time(row.longest)});
    };
    for (const RangeRow& row : sums.rows)
        add(title(row.kind), row);
    table.add_separator();
    add("all", sums.all);
    const double whole = static_cast<double>(sums.span) * static_cast<double>(sums.lanes);
    table.add_row({"idle", format_sim_time(sums.idle),
                   format_percent(whole > 0 ? static_cast<double>(sums.idle) / whole : 0), "", "", ""});
    return table;
}

std::string range_tsv(const RangeSums& sums) {
    TextTable table({"kind", "sum_s", "share", "count", "mean_s", "max_s"});
    const auto add = [&](std::string_view name, const RangeRow& row) {
        table.add_row({name, format_exact(to_seconds(row.total).value), format_exact(row.share),
                       fmt::format("{}", row.count), format_exact(row.mean_s),
                       format_exact(to_seconds(row.longest).value)});
    };
    for (const RangeRow& row : sums.rows)
        add(title(row.kind), row);
    add("all", sums.all);
    return table.render(TableFormat::Tsv);
}

}  // namespace tw
