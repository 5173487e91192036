// A schedule compiled for repeated simulation: one node for each thing that takes time, in topological order,
// with at most two predecessors (more are joined by nodes of zero duration). A matched send and receive are
// ONE node that starts when both ends are ready (rendezvous); a collective over several pipeline ranks
// likewise; a batch group is a kernel that begins when every earlier instruction of its lane is done and ends
// when its last transfer ends.
//
// Times of a step live in one array: entries [0, lane_count) are the carried states of the lanes (when each
// lane became free in the previous step), then the nodes. So a step is one pass:  t[i] = max(t[pred0],
// t[pred1]) + duration[slot].
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "plan/schedule/schedule.hpp"

namespace tw {

// Replicas that are simulated one by one where they are not identical (slow ranks, jitter). Replica r of
// pipeline rank p is global program r * ranks + p; r = data index * tensor + tensor index. Collectives of
// group 0 on the Dp stream rendezvous over the `data` replicas of equal tensor index; compute instructions
// rendezvous over the `tensor` replicas of a data replica, which run in lockstep. A shared node takes its
// duration from the first of its replicas, so a cost table holds the slowest member's duration there.
struct Replication {
    int data = 1;
    int tensor = 1;
    [[nodiscard]] int count() const { return data * tensor; }
};

struct CompiledSchedule {
    static constexpr std::uint32_t kNone = 0xffffffffU;

    int ranks = 1;  // programs simulated (pipeline ranks times replicas)
    int pipeline_ranks = 1;
    int classes = 1;  // duration classes of the schedule
    int microbatches = 1, steps = 1;
    StepBoundary boundary = StepBoundary::Barrier;
    std::uint32_t lane_count = 0;

    // Nodes, in topological order. pred indices and lane_end are into the time array; a node's time index is
    // lane_count + its position. slot indexes a cost table: rank * (classes + 1) + class + 1; slot 0 costs
    // nothing.
    std::vector<std::uint32_t> pred0, pred1, slot;

    // Lanes: those of one program are consecutive, programs ascending. For each lane the time index of its
    // last node (or its own carry where the lane is empty).
    std::vector<std::uint32_t> lane_end;
    std::vector<std::uint32_t> lane_rank;  // program of each lane
    std::vector<std::uint32_t> host_lane;  // for each program, the carry entry of its host's clock

    // For each instruction (programs one after the other): the nodes that begin and end it.
    std::vector<std::uint32_t> program_begin;         // ranks + 1 entries
    std::vector<std::uint32_t> begin_node, end_node;  // time indices
    // Host: instruction i is dispatched after the time `anchor` plus the dispatch times of the instructions
    // since then.
    std::vector<std::uint32_t> anchor;  // time index: the host's carry, or the last Wait's node
    // Host constraints of a node: up to two instructions (both ends of a transfer); kNone where there is
    // none.
    std::vector<std::uint32_t> host0, host1;   // by node position
    std::vector<std::uint32_t> barrier_nodes;  // time indices of GradNorm nodes: the host waits for them

    // Completion marks of schedules that never flush: for each step, the instruction that ends it (stage 0's
    // backward of the step's last microbatch).
    std::vector<std::uint32_t> step_marks;  // time indices

    [[nodiscard]] std::size_t nodes() const { return slot.size(); }
    [[nodiscard]] std::size_t time_entries() const { return lane_count + slot.size(); }
    [[nodiscard]] std::uint32_t slot_of(int rank, int duration_class) const {
        return static_cast<std::uint32_t>(rank * (classes + 1) + duration_class + 1);
    }
};

// Fails with a named error where a send has no receive, a collective misses a rank, or waits and rendezvous
// form a cycle (a deadlock); check_schedule (plan/schedule/check.hpp) says more about the last.
Result<CompiledSchedule> compile_schedule(const Schedule& schedule, const Replication& replication = {});

}  // namespace tw
