// What the benchmarks simulate.
#pragma once

#include <memory>
#include <string>

#include "base/prng.hpp"
#include "models/load_model.hpp"
#include "plan/stage_partition.hpp"
#include "sim/simulator.hpp"

namespace tw::bench {

inline std::shared_ptr<const Environment> environment(const std::string& model, const std::string& cluster) {
    return *make_environment(load_model(model)->graph, *load_cluster(cluster));
}

// GPT-3 175B on 1024 devices: tensor 8, pipeline 16, data 8; 1536 sequences in microbatches of one.
inline ParallelPlan gpt3_plan(const Environment& environment, const std::string& schedule,
                              int virtual_stages) {
    ParallelPlan plan;
    plan.mesh.tp = 8;
    plan.mesh.pp = 16;
    plan.mesh.dp = 8;
    plan.virtual_stages = virtual_stages;
    plan.schedule = schedule;
    plan.microbatch = 1;
    plan.microbatches = 192;
    plan.global_batch = 1536;
    plan.seq_len = 2048;
    plan.sequence_parallel = true;
    plan.zero_stage = 1;
    plan.recompute = RecomputeMode::Full;
    plan.stages = uniform_partition(environment.graph, plan.mesh.pp * virtual_stages, plan.recompute);
    return plan;
}

}  // namespace tw::bench
