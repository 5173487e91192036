// Gradient synchronisation among replicas of a stage: what each method sends, when, with which semantics and
// at what cost in memory and kernels. One method a file in methods/, listed in registry.cpp; nothing here
// knows a network.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "models/graph/op.hpp"
#include "plan/gradient_sync/sync_options.hpp"
#include "plan/schedule/schedule.hpp"

namespace tw {

// What is synchronised: one rank's share of the model and its replicas.
struct SyncRequest {
    double parameters = 0;  // elements that the rank holds, after tensor and pipeline parallelism
    Precision gradient = Precision::Fp32;   // on the wire
    Precision parameter = Precision::Bf16;  // as gathered or pulled
    int replicas = 1;
    int microbatches = 1;            // a step
    int zero_stage = 0;              // "zero": 1 to 3
    std::int64_t matrix_dim = 4096;  // side of the typical weight matrix (hidden size): low-rank methods
};

enum class SyncMoment : std::uint8_t {
    AfterBackward,   // may overlap the last backward, before the optimizer
    AfterOptimizer,  // may overlap the next forward
    EachForward,     // before a stage's forward, every microbatch
    EachBackward,    // before (parameters) or after (gradients) a stage's backward, every microbatch
};

// One collective of a step; `bytes` as in CollectiveOp.
struct SyncCollective {
    CollectiveKind kind = CollectiveKind::AllReduce;
    double bytes = 0;
    double times = 1;  // a step; 1/H for local steps, the number of microbatches for ZeRO-3
    SyncMoment moment = SyncMoment::AfterBackward;
    double server_bytes = 0;  // parameter servers: of all workers, through the port of one server
    friend bool operator==(const SyncCollective&, const SyncCollective&) = default;
};

// What a method costs one rank in one step.
struct SyncCost {
    std::vector<SyncCollective> collectives;  // in order
    double wire_bytes = 0;     // sent by the rank, by bandwidth-optimal algorithms (rank_wire_bytes)
    double server_bytes = 0;   // parameter servers: through the port of one server, the busier direction
    double memory_bytes = 0;   // beyond gradients and parameters: error feedback, buffers
    double kernel_bytes = 0;   // device memory read and written to compress and decompress
    double max_staleness = 0;  // updates of others that a rank's parameters may miss; infinity: unbounded
};

struct SyncInfo {
    std::string_view name;  // "top-k"
    std::string_view title;
    std::string_view source;  // paper
    Semantics semantics = Semantics::Synchronous;
    bool exact = true;  // false: replicas apply another gradient than the sum
};

class GradientSync {
  public:
    virtual ~GradientSync() = default;
    [[nodiscard]] virtual SyncInfo info() const = 0;
    // Names of those SyncOptions that the method uses.
    [[nodiscard]] virtual std::span<const std::string_view> options() const { return {}; }
    // All violations of this method's rules, each with its key as context and a legal value as hint.
    [[nodiscard]] virtual Errors check(const SyncRequest& request, const SyncOptions& options) const = 0;
    // The request and options have passed check(). One replica: nothing to do, all zero but memory.
    [[nodiscard]] virtual SyncCost cost(const SyncRequest& request, const SyncOptions& options) const = 0;
};

// In the order of the table; the objects live for ever.
std::span<const GradientSync* const> gradient_syncs();
Result<const GradientSync*> find_gradient_sync(std::string_view name);  // unknown: the nearest name and all
std::vector<std::string> gradient_sync_names();

// Why `option` says nothing of this method, with the options that do as hint; nothing where it is one of
// them.
std::optional<Error> why_not_an_option(const GradientSync& method, std::string_view option);

// check + cost.
Result<SyncCost> gradient_sync_cost(std::string_view name, const SyncRequest& request,
                                    const SyncOptions& options = {});

// Bytes that a rank sends in a bandwidth-optimal collective: 2(n-1)/n S for all-reduce, (n-1)/n S for
// all-gather, reduce-scatter, all-to-all, broadcast and reduce, S for a message (Thakur et al. 2005).
double rank_wire_bytes(CollectiveKind kind, double bytes, int ranks);

}  // namespace tw
