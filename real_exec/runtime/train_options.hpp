// What a run is told beside its plan: how long, with which data, seed and hyperparameters.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "plan/gradient_sync/sync_options.hpp"
#include "real_exec/runtime/loss_scaler.hpp"

namespace tw {

enum class Decay : std::uint8_t { Constant, Cosine };

struct LearningRate {
    double peak = 6e-4;        // Brown et al. 2020 (GPT-3), table 2.1, the smallest model
    double final_share = 0.1;  // of the peak, where the cosine ends (ibid., appendix B)
    std::int64_t warmup_steps = 0;
    Decay decay = Decay::Constant;
    // Linear scaling rule (Goyal et al. 2017, section 2.1): the rate above is for this global batch; 0: off.
    std::int64_t scale_from_batch = 0;

    // Of step `step` (from 0) out of `steps`: rises linearly over the warm-up, then stays or follows a
    // cosine.
    [[nodiscard]] double at(std::int64_t step, std::int64_t steps, std::int64_t global_batch) const;
};

struct OptimizerOptions {
    LearningRate rate;
    double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;  // Brown et al. 2020, appendix B
    double weight_decay = 0.1;                         // matrices alone
    double momentum = 0.9;
    double clip = 1.0;  // of the global gradient norm; 0: none
    // LARS (You et al. 2017, arXiv 1708.03888) on the plan's sgd-momentum: the trust coefficient; 0: off.
    double lars_trust = 0;
};

// A fault on purpose, for tests: "slow:rank=1,ms=200", "kill:rank=2,step=5", "hang:rank=1,step=3",
// "nan:step=4", "corrupt:rank=0", "full-disk:rank=0,bytes=1000". Without a step it holds for all, without a
// rank for rank 0.
struct Fault {
    enum class Kind : std::uint8_t { Slow, Kill, Hang, Nan, Corrupt, FullDisk } kind = Kind::Slow;
    int rank = 0;
    std::int64_t step = -1;
    std::int64_t at = -1;  // kill, hang: instruction of the step's program; -1: its first compute
    double ms = 0;
    std::int64_t bytes = 0;
};
Result<Fault> parse_fault(std::string_view text);

struct TrainOptions {
    std::int64_t steps = 10;
    std::uint64_t seed = 1;
    std::string data;  // file; empty: the built-in corpus
    OptimizerOptions optimizer;
    // Instead of the plan's gradient_sync_options: local_steps, density, block, staleness.
    std::optional<SyncOptions> sync;
    LossScaleOptions loss_scale;  // of fp16
    double dropout = 0;           // probability; the plan says whether
    int threads = 1;              // of each rank's kernels

    std::string checkpoint_folder;
    std::int64_t checkpoint_every = 0;  // steps; 0: after the last one
    std::string resume_folder;
    std::string weights;  // safetensors to start from, a file or a folder; empty: drawn from the seed
    std::uint64_t attempt = 0;

    std::string trace;       // trainwright/trace document; empty: none
    std::string result;      // result document, JSON
    std::string log_folder;  // metrics.jsonl, metrics.prom and a log for each rank; empty: none
    double watchdog_s = 120;
    std::vector<Fault> faults;
    bool quiet = false;  // no line for each step on stdout
    // Set while the run goes on (by a signal, on any of the ranks): all ranks end after the same step, with a
    // checkpoint and a trace where they are asked for. Null: they run to the last step; the same on all
    // ranks.
    const std::atomic<bool>* stop = nullptr;
};

}  // namespace tw
