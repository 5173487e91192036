// The space that a search covers, as a tree of three levels, so that a bound at one level leaves out
// everything below:
//   mesh     tp (within a node unless named) x pp x cp x dp x ep x etp, sequence parallel, microbatch
//   chunking virtual stages x recompute (none, selective, full, full for the first k blocks of a stage; what
//   a framework calls selective: of the attention core, or operation by operation; of latent attention and
//   experts also their usual modules, or those that are named)
//   leaf     schedule
//   (synchronous ones; zb-1p, zb-2p and a long zb-auto where they are named) x ZeRO stage (all replicas, or
//   those of one node: HSDP) x stage partition
// Two leaves never lower to the same schedule with the same StagePrograms and memory: choices without effect
// (ZeRO without replicas, GPipe of one microbatch, sequence parallel without tensor parallel) are left out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/schedule/generator.hpp"
#include "planner/request.hpp"

namespace tw {

struct MeshChoice {
    DeviceMesh mesh;
    bool sequence_parallel = false;
    std::int64_t microbatch = 1, microbatches = 1;
};

struct ChunkChoice {
    int virtual_stages = 1;
    RecomputeMode recompute = RecomputeMode::None;
    int recompute_layers = -1;
};

struct ZeroChoice {
    int stage = 0;
    int shard = 0;  // 0: all replicas
};

// Plans of more pairs of a virtual stage and a microbatch than this are not searched: one alone would take a
// good part of a second. GPT-3's 192 microbatches on 16 stages are 3072 pairs.
inline constexpr std::int64_t kMaxSearchedComputes = std::int64_t{1} << 18;

// Orders that costs drive, of more pairs than this, are searched only where their schedule is named: they
// take a millisecond each (32 microbatches on 4 ranks are 128).
inline constexpr std::int64_t kMaxUnnamedCostDriven = 128;

// Virtual stages a rank that are searched where vpp is not named: no published run that we know of has more
// (Megatron-Bridge's performance summary: 24 for Qwen3 30B), and the bubble that more would save, (p - 1) /
// (v m), is then below a 24th of GPipe's.
inline constexpr int kMaxUnnamedVirtualStages = 24;

std::vector<int> divisors_of(std::int64_t n);  // ascending
// Whether a framework there recomputes by module: not one that selects operations, nor this project's
// executor on processors.
bool has_modules(const Environment& environment, std::string_view framework);

class SearchSpace {
  public:
    SearchSpace(const Environment& environment, const PlanRequest& request);

    // Level by level, in the space's own order.
    [[nodiscard]] const std::vector<MeshChoice>& meshes() const { return meshes_; }
    [[nodiscard]] std::vector<ChunkChoice> chunks(const MeshChoice& mesh) const;
    [[nodiscard]] std::vector<const ScheduleGenerator*> schedules(const MeshChoice& mesh,
                                                                  int virtual_stages) const;
    [[nodiscard]] std::vector<ZeroChoice> zeros(const MeshChoice& mesh) const;
    // Whether a chunking may have partitions beside the one that make_plan gives it.
    [[nodiscard]] bool has_partitions(const MeshChoice& mesh, const ChunkChoice& chunk) const;
    // Plans below a mesh with uniform partitions.
    [[nodiscard]] std::int64_t leaves(const MeshChoice& mesh) const;

    [[nodiscard]] ParallelPlan make_plan(const MeshChoice& mesh, const ChunkChoice& chunk,
                                         const ScheduleGenerator& schedule, const ZeroChoice& zero) const;
    [[nodiscard]] std::int64_t seq_len() const { return seq_len_; }
    // Whether some plan recomputes operation by operation, so that layers are costed for it.
    [[nodiscard]] bool recomputes_by_op() const;
    // What plans that recompute modules recompute; none where no plan does. Layers are costed for it.
    [[nodiscard]] RecomputeModules modules() const { return modules_; }
    // Meshes left out because all below them is longer than kMaxSearchedComputes.
    [[nodiscard]] std::int64_t too_long() const { return too_long_; }
    // Why no mesh is legal, as sentences (why_empty.cpp): of the plans that --fix describes, the violations
    // of one that has fewest; else the divisibilities that failed.
    [[nodiscard]] std::vector<std::string> why_empty() const;

  private:
    // Whether the request's framework can run a plan of this mesh, with everything else at what every
    // framework runs but for what is given.
    [[nodiscard]] bool runs(const MeshChoice& mesh, RecomputeMode recompute, const ZeroChoice& zero) const;
    // ZeRO choices that the framework can run, whichever stage is fixed; shards of a node's replicas, or of
    // the sizes that are named.
    [[nodiscard]] std::vector<ZeroChoice> all_zeros(const MeshChoice& mesh) const;
    [[nodiscard]] bool own_rules() const { return request_.target != TargetFramework::Trainwright; }
    void add_mesh(const MeshChoice& mesh);
    // On mixed clusters, the node group of every stage.
    void place_stages(ParallelPlan& plan) const;
    const Environment& environment_;
    const PlanRequest& request_;
    std::int64_t seq_len_;
    std::vector<RecomputeMode> modes_;  // of the request, but for what the framework refuses
    RecomputeModules modules_;
    struct Candidate {
        const ScheduleGenerator* generator = nullptr;
        GeneratorInfo info;
    };
    std::vector<Candidate> candidates_;  // schedules of which the request allows some use
    std::int64_t too_long_ = 0;
    std::vector<MeshChoice> meshes_;
};

}  // namespace tw
