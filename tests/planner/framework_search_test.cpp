// Searches for one framework: every plan of the space can be exported to it.
#include <gtest/gtest.h>

#include "plan/frameworks/export/export_plan.hpp"
#include "planner/space.hpp"
#include "tests/planner/planner_fixtures.hpp"

namespace tw {
namespace {

PlanRequest request_for(const Environment& environment, TargetFramework target) {
    PlanRequest request;
    request.global_batch = 32;
    request.seq_len = 4096;
    request.target = target;
    plan_for(target, environment.cluster, request.base);
    return request;
}

TEST(FrameworkSearch, TheSpaceHoldsLegalPlansAlone) {
    for (const char* model : {"llama3.2-1b", "qwen3-30b-a3b", "bert-base"}) {
        const auto environment = test::environment_of(model, "h100:16");
        for (const PlanExporter& exporter : plan_exporters()) {
            PlanRequest request = request_for(*environment, exporter.target);
            if (model == std::string("bert-base")) request.seq_len = 512;
            const SearchSpace space(*environment, request);
            const bool decoders = exporter.target == TargetFramework::Torchtitan ||
                                  exporter.target == TargetFramework::Nanotron;
            if (decoders && !environment->graph.causal) {  // they train no encoder: nothing is legal
                EXPECT_TRUE(space.meshes().empty()) << to_string(exporter.target);
                continue;
            }
            ASSERT_FALSE(space.meshes().empty()) << model << to_string(exporter.target);
            std::int64_t checked = 0;
            for (const MeshChoice& mesh : space.meshes()) {
                for (const ChunkChoice& chunk : space.chunks(mesh)) {
                    for (const ScheduleGenerator* schedule : space.schedules(mesh, chunk.virtual_stages)) {
                        for (const ZeroChoice& zero : space.zeros(mesh)) {
                            if (++checked % 7 != 0) continue;
                            const ParallelPlan plan = space.make_plan(mesh, chunk, *schedule, zero);
                            const PlanCheck check =
                                check_plan(environment->graph, environment->cluster, plan, exporter.target);
                            ASSERT_TRUE(check.errors.empty())
                                << to_string(exporter.target) << " " << model << " " << summary(plan) << ": "
                                << to_string(check.errors);
                        }
                    }
                }
            }
            EXPECT_GE(checked, 20) << to_string(exporter.target);
        }
    }
}

TEST(FrameworkSearch, TheBestPlansAreExported) {
    const auto environment = test::environment_of("llama3.2-1b", "h100:8");
    for (const PlanExporter& exporter : plan_exporters()) {
        PlanRequest request = request_for(*environment, exporter.target);
        request.top = 10;
        const auto answer = find_plans(environment, request);
        ASSERT_TRUE(answer.has_value()) << to_string(answer.errors());
        ASSERT_FALSE(answer->plans.empty()) << to_string(exporter.target);
        for (const RankedPlan& ranked : answer->plans) {
            PlanDocument document;
            document.model_name = "llama3.2-1b";
            document.graph = environment->graph;
            document.model_document = *read_model_document("llama3.2-1b");
            document.cluster = environment->cluster;
            document.plan = ranked.plan;
            const auto made = export_plan(document, exporter.target, "job");
            EXPECT_TRUE(made.has_value()) << to_string(exporter.target) << " " << summary(ranked.plan) << ": "
                                          << (made ? "" : to_string(made.errors()));
        }
    }
}

// torchtitan's "selective" goes operation by operation: searched, named, and the label names the plan again.
TEST(FrameworkSearch, SelectiveIsWhatTheFrameworkCallsIt) {
    const auto environment = test::environment_of("llama3.2-1b", "h100:8");
    PlanRequest request = request_for(*environment, TargetFramework::Torchtitan);
    bool by_op = false;
    const SearchSpace space(*environment, request);
    for (const MeshChoice& mesh : space.meshes()) {
        for (const ChunkChoice& chunk : space.chunks(mesh)) {
            EXPECT_NE(chunk.recompute, RecomputeMode::Selective);
            by_op = by_op || chunk.recompute == RecomputeMode::SelectiveOps;
        }
    }
    EXPECT_TRUE(by_op);

    request.constraints = *parse_fix("recompute=selective-ops");
    const auto answer = find_plans(environment, request);
    ASSERT_TRUE(answer.has_value()) << to_string(answer.errors());
    ASSERT_FALSE(answer->plans.empty());
    const RankedPlan& best = answer->plans.front();
    EXPECT_EQ(best.plan.recompute, RecomputeMode::SelectiveOps);
    request.constraints = *parse_fix(summary(best.plan));
    const auto again = find_plans(environment, request);
    ASSERT_TRUE(again.has_value()) << to_string(again.errors());
    ASSERT_FALSE(again->plans.empty());
    EXPECT_EQ(again->plans.front().plan, best.plan);
    EXPECT_EQ(again->plans.front().evaluation.step_time, best.evaluation.step_time);

    request.constraints = *parse_fix("recompute=selective");
    const auto refused = find_plans(environment, request);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().context, "--fix");
    EXPECT_NE(refused.error().message.find("goes operation by operation"), std::string::npos);
    EXPECT_EQ(refused.error().hint, "recompute selective-ops");
    request.constraints = *parse_fix("recompute=selective|full");  // one of them is left
    EXPECT_TRUE(find_plans(environment, request).has_value());
}

// Without a framework of its own, the other selective recomputation is searched where it is named.
TEST(FrameworkSearch, TheOtherSelectiveIsNamed) {
    const auto environment = test::environment_of("llama3.2-1b", "h100:8");
    PlanRequest request;
    request.global_batch = 32;
    request.seq_len = 4096;
    EXPECT_FALSE(SearchSpace(*environment, request).recomputes_by_op());
    request.constraints = *parse_fix("pp=1,recompute=selective-ops");
    const auto answer = find_plans(environment, request);
    ASSERT_TRUE(answer.has_value()) << to_string(answer.errors());
    ASSERT_FALSE(answer->plans.empty());
    EXPECT_EQ(answer->plans.front().plan.recompute, RecomputeMode::SelectiveOps);
}

// Modules are recomputed in one more way between nothing and everything, of models that have them.
TEST(FrameworkSearch, ModulesOfLatentAttentionAndExperts) {
    const auto searched = [](const char* model, TargetFramework target, const char* fix = "") {
        const auto environment = test::environment_of(model, "h100:16");
        PlanRequest request = request_for(*environment, target);
        request.constraints = *parse_fix(fix);
        const SearchSpace space(*environment, request);
        std::string found = "none";
        for (const MeshChoice& mesh : space.meshes()) {
            for (const ChunkChoice& chunk : space.chunks(mesh)) {
                if (chunk.recompute == RecomputeMode::Modules) found = to_string(space.modules());
            }
        }
        return found;
    };
    for (const TargetFramework target : {TargetFramework::Trainwright, TargetFramework::Megatron}) {
        EXPECT_EQ(searched("qwen3-30b-a3b", target), "moe_act+layernorm");
        EXPECT_EQ(searched("deepseek-v2-lite", target), "moe_act+layernorm+mla_up_proj");
        EXPECT_EQ(searched("llama3.2-1b", target), "none");
        EXPECT_EQ(searched("qwen3-30b-a3b", target, "recompute=modules:moe|none"), "moe");
        EXPECT_EQ(searched("llama3.2-1b", target, "recompute=modules:mlp"), "mlp");
        EXPECT_EQ(searched("qwen3-30b-a3b", target, "recompute=none|full"), "none");
    }
    EXPECT_EQ(searched("qwen3-30b-a3b", TargetFramework::Torchtitan), "none");
    EXPECT_EQ(searched("qwen3-30b-a3b", TargetFramework::Megatron,
                       "recompute=modules:moe|none,schedule=interleaved-overlap,vpp=2"),
              "none");

    const auto environment = test::environment_of("llama3.2-1b", "h100:16");
    PlanRequest request = request_for(*environment, TargetFramework::Megatron);
    request.constraints = *parse_fix("recompute=none|modules:mla_up_proj");
    const auto refused = find_plans(environment, request);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().context, "--fix");
    EXPECT_EQ(refused.error().hint, "recompute_modules of core_attn, mlp");
    // What is found names its modules where it recomputes them, and only there.
    request.constraints = *parse_fix("recompute=modules:mlp,pp=1,tp=2,mbs=1,zero=1");
    const auto found = find_plans(environment, request);
    ASSERT_TRUE(found) << to_string(found.errors());
    ASSERT_FALSE(found->plans.empty());
    EXPECT_NE(summary(found->plans.front().plan).find("modules:mlp"), std::string::npos);
    request.constraints = *parse_fix("recompute=modules:mlp|none,pp=1,tp=2,mbs=1,zero=1");
    const auto both = find_plans(environment, request);
    ASSERT_TRUE(both) << to_string(both.errors());
    for (const RankedPlan& plan : both->plans) {
        EXPECT_EQ(plan.plan.recompute_modules.any(), plan.plan.recompute == RecomputeMode::Modules)
            << summary(plan.plan);
    }
}

TEST(FrameworkSearch, MegatronsShardedParametersHaveNoPipeline) {
    const auto environment = test::environment_of("llama3.2-1b", "h100:16");
    PlanRequest request = request_for(*environment, TargetFramework::Megatron);
    const SearchSpace space(*environment, request);
    bool sharded = false;
    for (const MeshChoice& mesh : space.meshes()) {
        for (const ZeroChoice& zero : space.zeros(mesh)) {
            sharded = sharded || zero.stage >= 2;
            EXPECT_TRUE(zero.stage < 2 || mesh.mesh.pp == 1);
        }
    }
    EXPECT_TRUE(sharded);
}

TEST(FrameworkSearch, WhatNoPlanCanChangeIsRefusedAtOnce) {
    const auto environment = test::environment_of("llama3.2-1b", "h100:8");
    PlanRequest request = request_for(*environment, TargetFramework::Torchtitan);
    request.base.optimizer = OptimizerKind::Lamb;
    const auto answer = find_plans(environment, request);
    ASSERT_FALSE(answer.has_value());
    EXPECT_EQ(answer.error().code, ErrorCode::Usage);
    EXPECT_EQ(answer.error().context, "optimizer.name");
}

}  // namespace
}  // namespace tw
