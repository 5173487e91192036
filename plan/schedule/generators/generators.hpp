// The generators' constructors, one file each in this folder, for registry.cpp alone; and what several of
// them share.
#pragma once

#include <memory>

#include "plan/schedule/generator.hpp"

namespace tw {

const ScheduleGenerator& naive_schedule();
const ScheduleGenerator& gpipe_schedule();
const ScheduleGenerator& one_f_one_b_schedule();

// An order without actions: stages placed round robin (stage s on rank s % p), microbatches and versions of
// one step.
ComputeOrder empty_order(const ScheduleShape& shape, const GeneratorInfo& info);

inline Action make_action(Opcode opcode, int stage, int microbatch) {
    Action action;
    action.opcode = opcode;
    action.stage = static_cast<std::uint16_t>(stage);
    action.microbatch = microbatch;
    return action;
}

// Rules that hold for every generator: positive sizes, and v and replicas where `info` allows them.
Errors check_shape(const ScheduleShape& shape, const GeneratorInfo& info);

// Forwards that rank r of p runs ahead of its first backward under 1F1B: min(m, p - r - 1).
inline int one_f_one_b_warm_up(int ranks, int rank, int microbatches) {
    return std::min(microbatches, ranks - rank - 1);
}

}  // namespace tw
