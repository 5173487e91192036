// Degrees and batch of a row's plan.
#include <algorithm>

#include <fmt/format.h>

#include "sim/validate/row_words.hpp"
#include "sim/validate/truth_plan.hpp"

namespace tw {
namespace {

Status set_degrees(const TruthRow& row, DeviceMesh& mesh) {
    if (!row.tp) return reason("tp missing");
    if (!row.pp) return reason("pp missing");
    mesh.tp = *row.tp;
    mesh.pp = *row.pp;
    mesh.cp = row.cp.value_or(1);
    mesh.ep = row.ep.value_or(1);
    if (std::min({mesh.tp, mesh.pp, mesh.cp, row.dp.value_or(1)}) < 1) return reason("a degree is 0");
    const double model = static_cast<double>(mesh.tp) * mesh.pp * mesh.cp;
    if (model * row.dp.value_or(1) > kMaxClusterDevices) return reason("more devices than a cluster has");
    const int ranks = static_cast<int>(model);
    if (row.dp) {
        mesh.dp = *row.dp;
    } else if (row.gpus && *row.gpus > 0 && *row.gpus % ranks == 0) {
        mesh.dp = *row.gpus / ranks;
    } else {
        return reason("dp missing");
    }
    if (row.gpus && *row.gpus != mesh.devices()) {
        return reason(fmt::format("dp {} * tp {} * pp {} * cp {} are not the row's {} GPUs", mesh.dp, mesh.tp,
                                  mesh.pp, mesh.cp, *row.gpus));
    }
    return ok();
}

}  // namespace

Status set_mesh(const TruthRow& row, ParallelPlan& plan) {
    if (Status degrees = set_degrees(row, plan.mesh); !degrees) return degrees;
    if (!row.microbatch) return reason("microbatch missing");
    if (!row.global_batch) return reason("global batch missing");
    plan.microbatch = *row.microbatch;
    plan.global_batch = *row.global_batch;
    const std::int64_t pass = plan.microbatch * plan.mesh.dp;
    if (pass < 1 || plan.global_batch % pass != 0) {
        return reason(fmt::format("global batch {} is not a multiple of {} microbatches of {}",
                                  plan.global_batch, plan.mesh.dp, plan.microbatch));
    }
    plan.microbatches = plan.global_batch / pass;
    if (row.microbatches && *row.microbatches != plan.microbatches) {
        return reason(fmt::format("num_microbatches {}: global batch {} is {} of {} on dp {}",
                                  *row.microbatches, plan.global_batch, plan.microbatches, plan.microbatch,
                                  plan.mesh.dp));
    }
    return ok();
}

}  // namespace tw
