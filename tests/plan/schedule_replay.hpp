// A tiny simulator for tests: longest path over a lowered schedule, by relaxing until nothing changes.
// Independent of check_schedule and of the engine; batch groups are not supported.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "plan/schedule/schedule.hpp"

namespace tw::test {

struct Replayed {
    bool complete = true;
    std::int64_t makespan = 0;
    std::vector<std::vector<std::int64_t>> end;  // by rank and instruction; -1 where it never runs
};

// cost(instruction) >= 0; a transfer costs what its sender's instruction does.
template <class Cost>
Replayed replay_schedule(const Schedule& schedule, const Cost& cost) {
    struct Item {
        std::size_t rank, index;
        std::int64_t start = -1, end = -1;
        std::vector<std::size_t> before;  // items of the same rank
        std::size_t partner;
    };
    std::vector<Item> items;
    std::map<std::tuple<bool, int, int>, std::size_t> half_open;
    for (std::size_t r = 0; r < schedule.programs.size(); ++r) {
        const std::size_t base = items.size();
        std::map<std::pair<Stream, std::uint16_t>, std::size_t> lanes;
        const RankProgram& program = schedule.programs[r];
        for (std::size_t i = 0; i < program.instructions.size(); ++i) {
            const Instruction& in = program.instructions[i];
            Item item{r, i, -1, -1, {}, items.size()};
            for (const std::uint32_t wait : program.waits_of(i))
                item.before.push_back(base + wait);
            const auto [lane, first] = lanes.try_emplace({in.stream, in.communicator}, items.size());
            if (!first) item.before.push_back(std::exchange(lane->second, items.size()));
            if (is_transfer(in.opcode)) {
                const bool gradient = in.opcode == Opcode::SendGrad || in.opcode == Opcode::RecvGrad;
                const int receiver = is_receive(in.opcode) ? in.stage : in.stage + (gradient ? -1 : 1);
                const auto [other, fresh] =
                    half_open.try_emplace({gradient, receiver, in.microbatch}, items.size());
                if (!fresh) {
                    item.partner = other->second;
                    items[other->second].partner = items.size();
                }
            }
            items.push_back(item);
        }
    }
    bool moved = true;
    while (moved) {
        moved = false;
        for (Item& item : items) {
            if (item.start < 0) {
                std::int64_t start = 0;
                bool ready = true;
                for (const std::size_t b : item.before) {
                    ready &= items[b].end >= 0;
                    start = std::max(start, items[b].end);
                }
                if (!ready) continue;
                item.start = start;
                moved = true;
            }
            Item& partner = items[item.partner];
            if (item.end >= 0 || partner.start < 0) continue;
            const Instruction& own = schedule.programs[item.rank].instructions[item.index];
            const Instruction& other = schedule.programs[partner.rank].instructions[partner.index];
            item.end = std::max(item.start, partner.start) + cost(is_receive(own.opcode) ? other : own);
            moved = true;
        }
    }
    Replayed result;
    for (const RankProgram& program : schedule.programs)
        result.end.emplace_back(program.instructions.size(), -1);
    for (const Item& item : items) {
        result.complete &= item.end >= 0;
        result.makespan = std::max(result.makespan, item.end);
        result.end[item.rank][item.index] = item.end;
    }
    return result;
}

struct UnitInstructionCosts {
    std::int64_t forward = 1, input = 1, weight = 1, transfer = 0;
    std::int64_t operator()(const Instruction& in) const {
        switch (in.opcode) {
            case Opcode::Forward:
                return forward;
            case Opcode::Backward:
                return input + weight;
            case Opcode::BackwardInput:
                return input;
            case Opcode::BackwardWeight:
                return weight;
            case Opcode::OverlapForwardBackward:
                return forward + input + weight;
            default:
                return is_transfer(in.opcode) ? transfer : 0;
        }
    }
};

}  // namespace tw::test
