// The generators' constructors, one file each in this folder, for registry.cpp alone; and what several of
// them share.
#pragma once

#include <algorithm>

#include "plan/schedule/generator.hpp"

namespace tw {

const ScheduleGenerator& naive_schedule();
const ScheduleGenerator& gpipe_schedule();
const ScheduleGenerator& pipedream_schedule();
const ScheduleGenerator& pipedream_2bw_schedule();
const ScheduleGenerator& one_f_one_b_schedule();
const ScheduleGenerator& interleaved_schedule();
const ScheduleGenerator& interleaved_overlap_schedule();
const ScheduleGenerator& looped_bfs_schedule();
const ScheduleGenerator& zb_h1_schedule();
const ScheduleGenerator& zb_h2_schedule();
const ScheduleGenerator& zb_1p_schedule();
const ScheduleGenerator& zb_2p_schedule();
const ScheduleGenerator& zb_auto_schedule();
const ScheduleGenerator& zb_v_schedule();
const ScheduleGenerator& dualpipev_schedule();

// An order without actions: stages placed round robin (stage s on rank s % p), microbatches and versions of
// one step.
ComputeOrder empty_order(const ScheduleShape& shape, const GeneratorInfo& info);

// Rank r owns stages r and 2p - 1 - r: {0:[0,7], 1:[1,6], 2:[2,5], 3:[3,4]} for p = 4.
void place_in_a_v(ComputeOrder& order);

// Steps of a schedule that never flushes, enough for a steady period between filling and draining: at least
// 4, and (steps - 2) * microbatches >= 2 * workers.
int steps_for_a_period(int microbatches, int workers);

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
