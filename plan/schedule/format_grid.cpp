#include <algorithm>

#include <fmt/format.h>

#include "plan/schedule/check.hpp"
#include "plan/schedule/replay.hpp"

namespace tw {
namespace {

std::string cell_text(const Action& action) {
    Instruction instruction;
    instruction.opcode = action.opcode;
    instruction.stage = action.stage;
    instruction.microbatch = action.microbatch;
    instruction.stage2 = action.stage2;
    instruction.microbatch2 = action.microbatch2;
    return to_string(instruction);
}

// Whether a replay may look at every action; check_order reports those that are not.
bool in_range(const ComputeOrder& order) {
    const auto inside = [&](int stage, int microbatch) {
        return stage < order.stages && microbatch >= 0 && microbatch < order.total_microbatches();
    };
    return std::all_of(order.ranks.begin(), order.ranks.end(), [&](const auto& actions) {
        return std::all_of(actions.begin(), actions.end(), [&](const Action& a) {
            return is_compute(a.opcode) && inside(a.stage, a.microbatch) &&
                   (a.opcode != Opcode::OverlapForwardBackward || inside(a.stage2, a.microbatch2));
        });
    });
}

std::vector<std::vector<std::string>> padded(std::vector<std::vector<std::string>> rows) {
    std::size_t columns = 0;
    for (const auto& row : rows)
        columns = std::max(columns, row.size());
    for (auto& row : rows)
        row.resize(columns);
    return rows;
}

}  // namespace

std::vector<std::vector<std::string>> order_grid(const ComputeOrder& order) {
    std::vector<std::vector<std::string>> rows(order.ranks.size());
    const auto put = [&](std::size_t rank, std::size_t index, std::size_t column) {
        rows[rank].resize(std::max(rows[rank].size(), column + 1));
        rows[rank][column] = cell_text(order.ranks[rank][index]);
    };
    if (!in_range(order)) {
        for (std::size_t r = 0; r < rows.size(); ++r) {
            for (std::size_t i = 0; i < order.ranks[r].size(); ++i)
                put(r, i, i);
        }
        return padded(std::move(rows));
    }
    const ReplayResult result = replay(
        order, [](const Action&) { return std::int64_t{1}; },
        [&](std::size_t rank, std::size_t index, std::int64_t time) {
            put(rank, index, static_cast<std::size_t>(time));
        },
        [](std::size_t, std::size_t, std::int64_t) {});
    // What cannot start stands behind everything that could.
    for (std::size_t r = 0; r < rows.size(); ++r) {
        for (std::size_t i = result.done[r]; i < order.ranks[r].size(); ++i) {
            put(r, i, static_cast<std::size_t>(result.makespan) + i - result.done[r]);
        }
    }
    return padded(std::move(rows));
}

std::string format_grid(const ComputeOrder& order, const Error* error) {
    const auto rows = order_grid(order);
    std::size_t width = 0;
    for (const auto& row : rows) {
        for (const std::string& cell : row)
            width = std::max(width, cell.size());
    }
    std::string out;
    for (std::size_t r = 0; r < rows.size(); ++r) {
        std::string line = fmt::format("rank {:<4}", r);
        for (const std::string& cell : rows[r])
            line += fmt::format(" {:<{}}", cell, width);
        while (line.ends_with(' '))
            line.pop_back();
        if (error != nullptr && error->context.starts_with(fmt::format("rank {},", r)))
            line += "  <-- ERROR HERE";
        out += line + '\n';
    }
    return out;
}

}  // namespace tw
