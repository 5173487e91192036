// A step's schedule as Chakra execution traces (models/formats/chakra.hpp), one file a global rank, so that
// other simulators (ASTRA-sim) give a second opinion. Every instruction that takes time is a node: compute
// with the FLOPs and bytes of its stage's kernels, sends and receives between pipeline ranks, collectives
// over replicas and between pipeline ranks, copies to the host. Its dependencies are the schedule's own: what
// ran before on the same stream, and its waits. Times are those of the trace's first step, in whole
// microseconds, at least one.
//
// Collectives inside a stage (tensor, context and expert parallel, FSDP's) are no instructions: they are in
// their stage's durations, and so are the replicas' experts in the dense gradients' groups.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "models/formats/chakra.hpp"
#include "models/hardware/placement.hpp"
#include "plan/parallel_plan.hpp"
#include "plan/schedule/schedule.hpp"
#include "plan/trace/trace.hpp"

namespace tw {

class ChakraExport {
  public:
    // `trace` is a simulation of `schedule`, the plan's; both outlive this. Usage error where stages have
    // replicas of their own (PipeDream), for which a global rank has no one program.
    static Result<ChakraExport> make(const LayerGraph& graph, const ParallelPlan& plan,
                                     const RankPlacement& placement, const Schedule& schedule,
                                     const Trace& trace);

    [[nodiscard]] int ranks() const { return static_cast<int>(pipeline_of_.size()); }
    // Nodes of a global rank, ids from 1 in program order.
    [[nodiscard]] std::vector<ChakraNode> nodes(int rank) const;
    [[nodiscard]] std::string file(int rank) const;  // the bytes of NAME.<rank>.et
    // What pg_name names: {"1": [0, 8], ...}, as ASTRA-sim reads communicator groups.
    [[nodiscard]] std::string groups() const;

  private:
    struct Work {
        double flops = 0, bytes = 0;
    };

    ChakraExport(const Schedule& schedule, const Trace& trace) : schedule_(&schedule), trace_(&trace) {}
    void count_work(const LayerGraph& graph, const ParallelPlan& plan);
    [[nodiscard]] int add_group(std::vector<int> ranks);
    [[nodiscard]] Work work_of(const Instruction& instruction) const;
    [[nodiscard]] double bytes_of(const Instruction& instruction) const;
    // False where the instruction is none of a rank's: it takes no time, or the rank is alone in its group.
    [[nodiscard]] bool describe(int rank, const Instruction& instruction, double share,
                                ChakraNode& node) const;

    const Schedule* schedule_;
    const Trace* trace_;
    std::map<std::pair<Opcode, int>, Work> work_;  // by compute opcode and stage, one microbatch
    std::vector<int> program_of_;                  // by global rank
    std::vector<std::vector<int>> pipeline_of_;    // by global rank: the ranks of its pipeline, by program
    std::vector<int> replica_group_;               // by global rank: of its replicas; 0: none
    std::vector<std::vector<int>> rank_groups_;    // by global rank and the schedule's group; 0: none
    std::vector<std::vector<int>> groups_;         // ranks of group id - 1
    std::map<std::vector<int>, int> ids_;
};

}  // namespace tw
