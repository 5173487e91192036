// What follows from the degrees that a row states.
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "models/hardware/cluster.hpp"
#include "sim/validate/row_words.hpp"
#include "sim/validate/truth_plan.hpp"
#include "sim/validate/truth_shapes_json.hpp"

namespace tw {
namespace {

constexpr double kMostBatch = 1e9;

double of(const std::optional<int>& degree) {
    return degree.value_or(1);
}

// Data parallelism alone is what FSDP and DDP do unless a row says otherwise.
void assume_data_parallel(TruthRow& row) {
    const bool whole = row.zero_stage.value_or(stated_sharding(row).stage.value_or(0)) == 3;
    const std::string framework = lower(row.framework);
    if (!whole && !says_any(framework, {"ddp", "horovod"})) return;
    for (auto* degree : {&row.tp, &row.pp}) {
        if (*degree) continue;
        *degree = 1;
        row.assumed.emplace_back(degree == &row.tp ? "tp: 1" : "pp: 1");
    }
}

// dp, tp and pp: the one that is absent is what the others leave of the GPUs; where they leave one GPU, all
// that are absent are 1.
void complete_mesh(TruthRow& row) {
    const std::array<std::optional<int>*, 3> degrees = {&row.dp, &row.tp, &row.pp};
    int absent = 0;
    for (const auto* degree : degrees)
        absent += *degree ? 0 : 1;
    const double stated = of(row.dp) * of(row.tp) * of(row.pp) * of(row.cp);
    if (absent == 0 && !row.gpus && stated <= kMaxClusterDevices) row.gpus = static_cast<int>(stated);
    if (absent == 0 || !row.gpus || stated < 1) return;
    const double left = *row.gpus / stated;
    if (left < 1 || left != std::floor(left) || (absent > 1 && left > 1)) return;
    for (auto* degree : degrees) {
        if (!*degree) *degree = static_cast<int>(left);
    }
}

// "dp" of the ranks that hold all of a parameter's gradients: some frameworks count the context-parallel
// ones.
void divide_by_context(TruthRow& row) {
    if (!row.gpus || !row.dp || !row.tp || !row.pp || of(row.cp) <= 1 || *row.dp % *row.cp != 0) return;
    if (of(row.dp) * of(row.tp) * of(row.pp) != *row.gpus) return;
    row.assumed.push_back(fmt::format("dp {}: counts cp {}", *row.dp, *row.cp));
    row.dp = *row.dp / *row.cp;
}

// Of microbatch, microbatches and global batch the one that the others leave open.
void complete_batch(TruthRow& row) {
    if (!row.dp || !row.microbatches || *row.dp < 1 || *row.microbatches < 1) return;
    const double passes = of(row.dp) * static_cast<double>(*row.microbatches);
    if (!row.global_batch && row.microbatch) {
        const double batch = passes * static_cast<double>(*row.microbatch);
        if (batch >= 1 && batch <= kMostBatch) row.global_batch = static_cast<std::int64_t>(batch);
    } else if (row.global_batch && !row.microbatch) {
        const double each = static_cast<double>(*row.global_batch) / passes;
        if (each >= 1 && each == std::floor(each)) row.microbatch = static_cast<std::int64_t>(each);
    }
}

}  // namespace

void complete_degrees(TruthRow& row) {
    complete_mesh(row);
    assume_data_parallel(row);
    complete_mesh(row);
    divide_by_context(row);
    complete_batch(row);
}

}  // namespace tw
