// Schedules by name, and what their programs say, for the tests of orders and passes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "plan/schedule/check.hpp"
#include "plan/schedule/generator.hpp"
#include "plan/schedule/lower.hpp"

namespace tw::testing {

inline ScheduleShape shape(int ranks, int microbatches, int virtual_stages = 1) {
    ScheduleShape s;
    s.ranks = ranks;
    s.microbatches = microbatches;
    s.virtual_stages = virtual_stages;
    return s;
}

// Lowered, and proven.
inline Schedule lowered(std::string_view name, const ScheduleShape& shape,
                        const LoweringOptions& options = {}) {
    Schedule schedule = lower(*generate_order(name, shape), std::string(name), options);
    EXPECT_TRUE(check_schedule(schedule).empty()) << name << ": " << to_string(check_schedule(schedule));
    return schedule;
}

// A rank's program: "0F0 0SEND_F0 ...".
inline std::string tokens(const Schedule& schedule, std::size_t rank) {
    std::string out;
    for (const Instruction& i : schedule.programs[rank].instructions)
        out += (out.empty() ? "" : " ") + to_string(i);
    return out;
}

using Names = std::vector<std::string>;

// What the first instruction of this name waits for.
inline Names waits_of(const Schedule& schedule, std::size_t rank, std::string_view token) {
    const RankProgram& program = schedule.programs[rank];
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
        if (to_string(program.instructions[i]) != token) continue;
        Names names;
        for (const std::uint32_t w : program.waits_of(i))
            names.push_back(to_string(program.instructions[w]));
        return names;
    }
    return {"missing"};
}

}  // namespace tw::testing
