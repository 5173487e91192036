// Plan documents to be exported, and what the exporters write of them.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "plan/frameworks/export/export_plan.hpp"
#include "plan/stage_partition.hpp"

namespace tw::test {

inline PlanDocument document_of(const char* model, const char* cluster) {
    PlanDocument document;
    document.model_name = model;
    document.graph = load_model(model)->graph;
    document.model_document = *read_model_document(model);
    document.cluster = *load_cluster(cluster);
    document.plan.seq_len = 4096;
    return document;
}

// Sets the mesh with what follows from it; one sequence a microbatch.
inline void set_mesh(PlanDocument& document, DeviceMesh mesh, std::int64_t microbatches = 8) {
    ParallelPlan& plan = document.plan;
    mesh.dp = document.cluster.devices() / (mesh.tp * mesh.pp * mesh.cp);
    plan.mesh = mesh;
    plan.sequence_parallel = mesh.tp > 1;
    plan.microbatches = microbatches;
    plan.global_batch = microbatches * mesh.dp;
    plan.stages = uniform_partition(document.graph, mesh.pp * plan.virtual_stages, plan.recompute);
}

inline std::string exported(const PlanDocument& document, TargetFramework target) {
    const auto made = export_plan(document, target, "job");
    EXPECT_TRUE(made.has_value()) << (made ? "" : to_string(made.errors()));
    return made ? made->text : "";
}

// The words of Megatron's arrays: "--name" and what follows it.
inline bool has_argument(const std::string& text, const std::string& line) {
    return text.find("    " + line + "\n") != std::string::npos;
}

}  // namespace tw::test
