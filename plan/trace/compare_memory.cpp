#include "plan/trace/compare_memory.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "base/si_format.hpp"

namespace tw {
namespace {

constexpr std::string_view kOther = "other";
constexpr std::string_view kOutside = "outside the allocator";  // of a prediction; nobody measures it

struct Named {
    std::string_view part, group;
};
// The executor's words (MemoryUse) and the simulator's.
constexpr std::array kGroups = {
    Named{"model states", "model states"},
    Named{"parameters", "model states"},
    Named{"gradients", "model states"},
    Named{"master_weights", "model states"},
    Named{"master weights", "model states"},
    Named{"optimizer_states", "model states"},
    Named{"optimizer states", "model states"},
    Named{"activations", "activations"},
    Named{"logits", "activations"},
    Named{"temporaries", "temporaries"},
    Named{"optimizer temporaries", "temporaries"},
    Named{"gathered parameters", "communication buffers"},
    Named{"unsharded gradients", "communication buffers"},
    Named{"gradient buckets", "communication buffers"},
    Named{"synchronisation buffers", "communication buffers"},
    Named{"communication buffers", "communication buffers"},
    Named{"communication_buffers", "communication buffers"},
    Named{"stashed weights", "stashed weights"},
    Named{"weight_stashes", "stashed weights"},
};
constexpr std::array kOrder = {std::string_view("model states"),    std::string_view("activations"),
                               std::string_view("temporaries"),     std::string_view("communication buffers"),
                               std::string_view("stashed weights"), kOther};

double held_in(const HeldMemory& held, std::string_view group) {
    double bytes = 0;
    for (const auto& [part, size] : held.parts)
        if (group.empty() || memory_group(part) == group) bytes += size;
    return bytes;
}

}  // namespace

std::vector<HeldMemory> peak_memory(const Trace& trace) {
    std::vector<HeldMemory> out;
    for (const RankTrace& rank : trace.ranks) {
        const MemorySample* most = nullptr;
        std::int64_t most_bytes = -1;
        for (const MemorySample& sample : rank.memory) {
            const std::int64_t bytes =
                std::accumulate(sample.bytes.begin(), sample.bytes.end(), std::int64_t{0});
            if (bytes <= most_bytes) continue;
            most = &sample;
            most_bytes = bytes;
        }
        if (most == nullptr) continue;
        HeldMemory held{rank.rank, rank.schedule_rank(), {}};
        for (std::size_t k = 0; k < most->bytes.size(); ++k) {
            const bool named = k < trace.memory_categories.size();
            if (named && trace.memory_categories[k] == kOutside) continue;
            held.parts.emplace_back(named ? trace.memory_categories[k] : std::string(kOther),
                                    static_cast<double>(most->bytes[k]));
        }
        out.push_back(std::move(held));
    }
    return out;
}

std::string_view memory_group(std::string_view part) {
    for (const Named& named : kGroups)
        if (named.part == part) return named.group;
    return kOther;
}

std::vector<MemoryRow> compare_memory(std::span<const HeldMemory> predicted,
                                      std::span<const HeldMemory> measured) {
    std::vector<MemoryRow> rows;
    for (const HeldMemory& m : measured) {
        const auto p = std::find_if(predicted.begin(), predicted.end(), [&](const HeldMemory& held) {
            return held.pipeline_rank == m.pipeline_rank;
        });
        if (p == predicted.end()) continue;
        rows.push_back({m.rank, "peak", held_in(*p, ""), held_in(m, "")});
        for (const std::string_view group : kOrder) {
            const double before = held_in(*p, group), now = held_in(m, group);
            if (before > 0 || now > 0) rows.push_back({m.rank, std::string(group), before, now});
        }
    }
    return rows;
}

TextTable memory_table(std::span<const MemoryRow> rows) {
    TextTable table({"rank", "memory", "predicted", "measured", "error"});
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const MemoryRow& row = rows[i];
        const bool first = i == 0 || rows[i - 1].rank != row.rank;
        if (first && i > 0) table.add_separator();
        const double error = row.relative_error();
        table.add_row({first ? std::to_string(row.rank) : "", row.group, format_bytes(row.predicted_bytes),
                       format_bytes(row.measured_bytes),
                       TableCell(fmt::format("{}{}", error > 0 ? "+" : "", format_percent(error)),
                                 row.group != "peak"      ? TextStyle::Plain
                                 : std::abs(error) > 0.02 ? TextStyle::Red
                                                          : TextStyle::Green)});
    }
    return table;
}

}  // namespace tw
