// ParallelPlan: how a model is trained on a cluster. A list of virtual stages plus what applies to all of
// them; a uniform DeviceMesh is the shorthand from which the list is made (stage_partition.hpp). "axis" is a
// mesh axis, "dim" a tensor's.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "models/graph/layer_graph.hpp"
#include "models/hardware/cluster.hpp"
#include "plan/gradient_sync/sync_options.hpp"
#include "plan/schedule/schedule.hpp"

namespace tw {

struct DeviceMesh {
    int dp = 1, pp = 1, tp = 1, cp = 1;
    int ep = 1;   // experts; divides dp * cp * tp / etp (Megatron: world % (etp * ep * pp) == 0)
    int etp = 1;  // tensor parallel inside an expert
    [[nodiscard]] int devices() const { return dp * pp * tp * cp; }
    [[nodiscard]] int expert_dp() const { return dp * cp * tp / (ep * etp); }
    friend bool operator==(const DeviceMesh&, const DeviceMesh&) = default;
};

// Selective: the attention core (Korthikanti et al. 2022). SelectiveOps: operation by operation
// (RecomputeByOp). Modules: those of ParallelPlan::recompute_modules, in every layer that has them.
enum class RecomputeMode : std::uint8_t { None, Selective, Full, SelectiveOps, Modules };
inline constexpr std::array kRecomputeModes = {RecomputeMode::None, RecomputeMode::Selective,
                                               RecomputeMode::SelectiveOps, RecomputeMode::Modules,
                                               RecomputeMode::Full};

// One virtual stage: consecutive layers [first_layer, last_layer) of the LayerGraph.
struct StageSpec {
    int first_layer = 0;
    int last_layer = 0;
    RecomputeMode recompute = RecomputeMode::None;
    int recompute_layers =
        -1;              // Full: the first so many blocks of the stage only (Megatron "block"); -1: all
    int replicas = 1;    // PipeDream: replicas of this stage alone, beside the mesh's dp
    int node_group = 0;  // mixed clusters: index into Cluster::groups
    friend bool operator==(const StageSpec&, const StageSpec&) = default;
};

enum class OptimizerKind : std::uint8_t { Adam, Sgd, SgdMomentum, Lamb };
inline constexpr std::array kOptimizers = {OptimizerKind::Adam, OptimizerKind::Sgd,
                                           OptimizerKind::SgdMomentum, OptimizerKind::Lamb};

// Bytes of model state follow from these (sim/memory): 18 bytes a parameter for bf16 with fp32 gradients and
// Adam.
// What microbatches and the like may be at most, of which three multiply within int64, and tokens of a
// sequence.
inline constexpr std::int64_t kMostOfAPlan = std::int64_t{1} << 20;
inline constexpr std::int64_t kLongestSequence = std::int64_t{1} << 31;

struct PrecisionSpec {
    Precision compute = Precision::Bf16;     // matrix products and activations
    Precision parameters = Precision::Bf16;  // as held for compute; Fp32 with autocast
    bool autocast = false;                   // torch.autocast over fp32 parameters
    bool master_weights = true;              // fp32 copy in the optimizer (where parameters are not fp32)
    bool gradient_fp32 =
        true;  // gradients accumulated and reduced in fp32, else in the parameters' precision
    Precision gradient_reduce = Precision::Fp32;   // on the wire
    Precision optimizer_states = Precision::Fp32;  // Adam's moments
    friend bool operator==(const PrecisionSpec&, const PrecisionSpec&) = default;
};

struct OverlapSpec {
    bool grad_reduce = true;    // gradient synchronisation beside the last backward
    bool param_gather = false;  // ZeRO-1/2: parameters' all-gather beside the next forward
    bool p2p = true;            // pipeline transfers beside compute
    bool tp = false;            // tensor-parallel collectives beside their GEMMs (async TP, userbuffers)
    friend bool operator==(const OverlapSpec&, const OverlapSpec&) = default;
};

struct ParallelPlan {
    DeviceMesh mesh;
    std::vector<StageSpec> stages;  // pp * virtual_stages entries, in model order
    int virtual_stages = 1;         // per pipeline rank
    std::string schedule = "1f1b";  // registry name
    int microbatch_group = 0;       // interleaved's group size; 0: pp
    std::int64_t microbatch = 1;    // sequences a rank computes at a time
    std::int64_t microbatches =
        1;  // a step and data-parallel rank; global_batch = microbatch * microbatches * dp
    std::int64_t global_batch = 1;  // sequences
    std::int64_t seq_len = 2048;
    std::int64_t vocab_divisor = 128;  // padded vocabulary: a multiple of this times tp
    bool sequence_parallel = false;
    WorkShape::Cp cp_kind = WorkShape::Cp::Ring;
    int zero_stage = 0;                             // 0-3; 1 is Megatron's distributed optimizer, 3 is FSDP
    int zero_shard = 0;                             // ranks that a shard group spans (HSDP); 0: all dp * cp
    RecomputeMode recompute = RecomputeMode::None;  // what every stage has where they agree
    RecomputeModules recompute_modules = {};        // of the stages with RecomputeMode::Modules
    PrecisionSpec precision;
    OptimizerKind optimizer = OptimizerKind::Adam;
    OverlapSpec overlap;
    std::string gradient_sync = "all-reduce";  // registry name
    SyncOptions gradient_sync_options;         // those that the method uses
    // By axis ("tp", "cp", "ep", "dp", "pp"; ep: etp's too) what NCCL is made to use: "ring/simple", or one
    // of the two ("ring", "/ll128"); plan/collective_choice.hpp. An axis that is absent: NCCL's own choice.
    std::map<std::string, std::string> collectives;
    double bucket_bytes = 0;       // gradient bucket; 0: the framework's own
    double offload_optimizer = 0;  // share of optimizer states kept in host memory, 0..1
    bool offload_activations = false;
    AttentionKernel attention = AttentionKernel::Flash2;
    bool dropout = false;
    double expert_imbalance = 1.0;
    WorkShape::ExpertDispatch expert_dispatch = WorkShape::ExpertDispatch::AllToAll;
    std::string rank_order = "tp-cp-ep-dp-pp";  // innermost first
    std::string framework = "trainwright";      // whose kernels and defaults are modelled
    Semantics semantics = Semantics::Synchronous;
    // Schedules that costs decide: the order found, one row a pipeline rank (plan_order.hpp); empty: to be
    // made.
    std::vector<std::string> order;

    [[nodiscard]] int stage_count() const { return static_cast<int>(stages.size()); }
    // How one rank runs the layers of stage s.
    [[nodiscard]] WorkShape work_shape(const LayerGraph& graph) const;
    friend bool operator==(const ParallelPlan&, const ParallelPlan&) = default;
};

// "tp8 pp16 dp8 mbs1 1f1b zero1 full": the short name in tables.
std::string summary(const ParallelPlan& plan);

std::string_view to_string(RecomputeMode mode);  // "none", "selective", "full", "selective-ops", "modules"
// "full:2", "modules:layernorm+moe_act": the mode with what it is given.
std::string recompute_text(RecomputeMode mode, int layers, RecomputeModules modules);
// Whether some stage, or the plan itself, has the mode.
bool recomputes_by(const ParallelPlan& plan, RecomputeMode mode);
// What is recomputed by modules where none is named, of models with latent attention or experts; none of
// others: what DeepSeek-V3's training recomputed (DeepSeek-AI 2024, 2412.19437, section 3.2.3: norms and the
// latent up-projection; section 3.3.2: the activation's output inside the experts), as a Megatron-Bridge
// recipe has it too (scripts/performance/configs/deepseek/deepseek_workload_base_configs.py, B200_NVFP4_V2).
RecomputeModules usual_modules(const LayerGraph& graph);
std::string_view to_string(WorkShape::Cp kind);                  // "ring", "all-to-all"
std::string_view to_string(WorkShape::ExpertDispatch dispatch);  // "all-to-all", "per-node"
std::string_view to_string(OptimizerKind kind);                  // "adam", ...

// What users choose by a name. Mixed precision ("bf16", "fp16", "fp8", "nvfp4") keeps fp32 masters and
// moments, as the defaults do; "fp32" and "tf32" compute with fp32 parameters. An unknown name is the
// default.
PrecisionSpec precision_named(std::string_view name);
OptimizerKind optimizer_named(std::string_view name);
std::vector<std::string> precision_names();
std::vector<std::string> optimizer_names();

std::string_view to_string(Semantics semantics);    // "synchronous", ...
std::string_view to_string(StepBoundary boundary);  // "barrier", "rank-local", "none"

}  // namespace tw
