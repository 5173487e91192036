#include "plan/trace/ascii_timeline.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "base/text_style.hpp"
#include "plan/trace/drawing.hpp"
#include "plan/trace/time_axis.hpp"

namespace tw {
namespace {

constexpr int kIdle = -1;
constexpr int kExposed = -2;

struct Glyphs {
    std::string_view forward, backward, weight, overlap, other, exposed, idle, wall, dot;
};
constexpr Glyphs kUnicode = {"─", "═", "╌", "━", "▒", "~", "·", "│", " · "};
constexpr Glyphs kAscii = {"-", "=", "+", "#", "%", "~", ".", "|", ", "};

struct Look {
    char letter;
    int background;  // 256-colour code nearest to the SVG palette
};
Look look_of(Work work) {
    switch (work) {
        case Work::Forward:
            return {'F', 74};
        case Work::Backward:
            return {'B', 36};
        case Work::BackwardWeight:
            return {'W', 178};
        case Work::ForwardBackward:
            return {'X', 73};
        case Work::Optimizer:
            return {'O', 25};
        default:
            return {'M', 246};
    }
}

// What fills each column: an index into rank.events, kExposed or kIdle. Where an event begins and ends inside
// one column the columns around it are shared out among the kinds of work in proportion to their time: the
// longest of each would name backwards alone.
std::vector<int> column_owners(const RankTrace& rank, const TimeAxis& axis, std::size_t columns) {
    struct Column {
        std::array<double, kWorkKinds> time{}, longest{};  // shares of the column, by work
        std::array<int, kWorkKinds> event{};               // the longest of each
        double device = 0, communication = 0;
        bool crowded = false;
    };
    std::vector<Column> shown(columns);
    const double scale = static_cast<double>(columns);
    for (std::size_t e = 0; e < rank.events.size(); ++e) {
        const TraceEvent& event = rank.events[e];
        const Work work = work_of(event.instruction);
        if (event.end <= axis.begin || event.start >= axis.end || work == Work::Host) continue;
        const double from = std::max(0.0, axis.share(event.start) * scale);
        const double to = std::min(scale, axis.share(event.end) * scale);
        for (auto c = static_cast<std::size_t>(from); c < columns && static_cast<double>(c) < to; ++c) {
            Column& column = shown[c];
            const double covered =
                std::min(to, static_cast<double>(c + 1)) - std::max(from, static_cast<double>(c));
            if (is_communication(work)) {
                column.communication += covered;
                continue;
            }
            const auto kind = static_cast<std::size_t>(work);
            column.device += covered;
            column.time[kind] += covered;
            column.crowded |= from >= static_cast<double>(c) && to < static_cast<double>(c + 1);
            if (covered > column.longest[kind]) {
                column.longest[kind] = covered;
                column.event[kind] = static_cast<int>(e);
            }
        }
    }
    std::vector<int> owner(columns, kIdle);
    std::array<double, kWorkKinds> owed{};  // what a kind has had less than its time in the columns so far
    for (std::size_t c = 0; c < columns; ++c) {
        const Column& column = shown[c];
        if (column.device < 0.5 - 1e-9) {
            const bool exposed =
                column.communication > 0.5 - column.device && column.communication > column.device;
            owner[c] = exposed ? kExposed : kIdle;
            continue;
        }
        if (!column.crowded) owed = {};
        std::size_t most = 0;
        double best = -1;
        for (std::size_t kind = 0; kind < kWorkKinds; ++kind) {
            if (column.longest[kind] <= 0) continue;
            const double wanted = column.crowded ? owed[kind] + column.time[kind] : column.longest[kind];
            const bool first = wanted == best && column.event[kind] < column.event[most];
            if (wanted > best || first) most = kind, best = wanted;
        }
        for (std::size_t kind = 0; column.crowded && kind < kWorkKinds; ++kind)
            owed[kind] += column.time[kind];
        if (column.crowded) owed[most] -= column.device;
        owner[c] = column.event[most];
    }
    return owner;
}

std::string_view filler(Work work, const Glyphs& glyphs) {
    switch (work) {
        case Work::Forward:
            return glyphs.forward;
        case Work::Backward:
            return glyphs.backward;
        case Work::BackwardWeight:
            return glyphs.weight;
        case Work::ForwardBackward:
            return glyphs.overlap;
        default:
            return glyphs.other;
    }
}

std::string repeat(std::string_view text, std::size_t times) {
    std::string out;
    for (std::size_t i = 0; i < times; ++i)
        out += text;
    return out;
}

class Row {
  public:
    Row(const RankTrace& rank, const AsciiTimelineOptions& options)
        : rank_(rank),
          options_(options),
          glyphs_(options.unicode ? kUnicode : kAscii),
          stages_(stages_of(rank)) {}

    std::string draw(const TimeAxis& axis, std::size_t columns) const {
        const std::vector<int> owner = column_owners(rank_, axis, columns);
        std::string out;
        for (std::size_t c = 0; c < columns;) {
            std::size_t last = c;
            while (last < columns && owner[last] == owner[c])
                ++last;
            out += cells(owner[c], last - c);
            c = last;
        }
        return out;
    }

  private:
    std::string cells(int owner, std::size_t width) const {
        if (owner == kIdle) return styled(repeat(glyphs_.idle, width), TextStyle::Dim, options_.colour);
        if (owner == kExposed)
            return styled(repeat(glyphs_.exposed, width), TextStyle::Magenta, options_.colour);
        const Instruction& i = rank_.events[static_cast<std::size_t>(owner)].instruction;
        const Work work = work_of(i);
        const Look look = look_of(work);
        const std::string number = i.microbatch == kNoMicrobatch ? "" : std::to_string(i.microbatch);
        if (options_.colour) {
            std::string text = number.size() <= width ? number : number.substr(number.size() - width);
            text += std::string(width - text.size(), ' ');
            return fmt::format("\x1b[30;48;5;{}m{}\x1b[0m", look.background, text);
        }
        const bool later_chunk = is_compute(i.opcode) && chunk_of(stages_, i.stage) % 2 == 1;
        std::string text(1, later_chunk ? static_cast<char>(look.letter - 'A' + 'a') : look.letter);
        if (text.size() + number.size() <= width) text += number;
        return text + repeat(filler(work, glyphs_), width - text.size());
    }

    const RankTrace& rank_;
    const AsciiTimelineOptions& options_;
    const Glyphs& glyphs_;
    std::vector<std::uint16_t> stages_;
};

std::string axis_line(const TimeAxis& axis, std::size_t columns) {
    std::string line(columns + 12, ' ');
    std::size_t free_from = 0;
    for (const SimTime tick : axis.ticks) {
        const auto at = static_cast<std::size_t>(axis.share(tick) * static_cast<double>(columns));
        const std::string label = axis.label(tick);
        if (at < free_from || at + label.size() > line.size()) continue;
        line.replace(at, label.size(), label);
        free_from = at + label.size() + 2;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return fmt::format("{} {}", line, axis.unit);
}

std::string legend(const Trace& trace, const std::vector<std::size_t>& rows,
                   const AsciiTimelineOptions& options) {
    const Glyphs& glyphs = options.unicode ? kUnicode : kAscii;
    std::array<bool, kWorkKinds> present{};
    std::size_t chunks = 1;
    bool communication = false;
    for (const std::size_t r : rows) {
        for (const TraceEvent& event : trace.ranks[r].events) {
            if (event.end == event.start) continue;
            const Work work = work_of(event.instruction);
            present[static_cast<std::size_t>(work)] = true;
            communication = communication || is_communication(work);
        }
        chunks = std::max(chunks, stages_of(trace.ranks[r]).size());
    }
    std::vector<std::string> parts;
    for (std::size_t k = 0; k < kWorkKinds; ++k) {
        const auto work = static_cast<Work>(k);
        if (!present[k] || !is_device_work(work)) continue;
        const Look look = look_of(work);
        const std::string sample = options.colour ? fmt::format("\x1b[48;5;{}m  \x1b[0m", look.background)
                                                  : std::string(1, look.letter);
        parts.push_back(fmt::format("{} {}", sample, title(work)));
    }
    if (communication) parts.push_back(fmt::format("{} exposed communication", glyphs.exposed));
    parts.push_back(fmt::format("{} idle", glyphs.idle));
    if (chunks > 1 && !options.colour)
        parts.push_back(fmt::format("lower case: {} model chunk", chunks == 2 ? "second" : "odd"));
    std::string out;
    for (const std::string& part : parts)
        out += (out.empty() ? "" : "   ") + part;
    return out;
}

}  // namespace

std::string ascii_timeline(const Trace& trace, const AsciiTimelineOptions& options) {
    const Glyphs& glyphs = options.unicode ? kUnicode : kAscii;
    const std::vector<StepAnalysis> steps = analyze_steps(trace);
    const bool named = options.step >= 0 && static_cast<std::size_t>(options.step) < steps.size();
    const StepAnalysis& shown = named ? steps[static_cast<std::size_t>(options.step)] : steps.back();
    const std::vector<std::size_t> rows =
        shown_rows(trace.ranks.size(), static_cast<std::size_t>(options.max_ranks));

    std::size_t name_width = 0;
    for (const std::size_t r : rows)
        name_width = std::max(name_width, display_width(row_name(trace.ranks[r])));
    constexpr std::size_t kPercentWidth = 9;  // wall, blank, "100.0 %"
    const auto width = static_cast<std::size_t>(std::max(40, options.width));
    const std::size_t columns =
        std::max<std::size_t>(10, width - std::min(width, name_width + 2 + kPercentWidth));
    const TimeAxis axis = make_time_axis(options.step == kAllSteps ? steps.front().begin : shown.begin,
                                         shown.end, static_cast<int>(std::max<std::size_t>(2, columns / 12)));

    std::string head = trace.title;
    std::string facts = headline(trace, {steps.begin(), steps.begin() + (&shown - steps.data()) + 1});
    if (!options.unicode) {
        for (std::size_t at; (at = facts.find(" · ")) != std::string::npos;)
            facts.replace(at, 4, ", ");
    }
    if (rows.size() < trace.ranks.size()) {
        facts += fmt::format("{}{} of {} ranks", glyphs.dot, rows.size(),
                             format_count(static_cast<std::int64_t>(trace.ranks.size())));
    }
    std::string out = head.empty() ? "" : styled(head, TextStyle::Bold, options.colour) + "\n";
    out += facts + "\n";
    for (const std::size_t r : rows) {
        out += fmt::format("{} {}{}{} {:>7}\n", pad_right(row_name(trace.ranks[r]), name_width), glyphs.wall,
                           Row(trace.ranks[r], options).draw(axis, columns), glyphs.wall,
                           format_percent(shown.ranks[r].bubble_fraction));
    }
    out += std::string(name_width + 2, ' ') + axis_line(axis, columns) + "\n";
    out += std::string(name_width + 2, ' ') + legend(trace, rows, options) + "\n";
    return out;
}

}  // namespace tw
