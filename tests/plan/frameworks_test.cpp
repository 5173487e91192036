// The table of frameworks' defaults, and what follows from a row for a plan's kernels.
#include <set>

#include <gtest/gtest.h>

#include "plan/frameworks/framework.hpp"
#include "plan/lower_plan.hpp"
#include "plan/parallel_plan.hpp"

namespace tw {
namespace {

TEST(Frameworks, NamesAreUniqueAndDocumented) {
    std::set<std::string> seen;
    for (const FrameworkDefaults* d : frameworks()) {
        EXPECT_TRUE(seen.insert(std::string(d->name)).second) << d->name;
        EXPECT_FALSE(d->versions.empty()) << d->name;
        EXPECT_EQ(find_framework(d->name), d);
        if (d->name == "trainwright") continue;  // what the executor does needs no outside source
        EXPECT_FALSE(d->facts.empty()) << d->name;
        for (const FrameworkFact& fact : d->facts) {
            EXPECT_FALSE(fact.what.empty()) << d->name;
            EXPECT_FALSE(fact.value.empty()) << d->name << " " << fact.what;
            EXPECT_FALSE(fact.source.empty()) << d->name << " " << fact.what;
        }
    }
    EXPECT_GE(seen.size(), 15u);
    EXPECT_EQ(find_framework("megatorn"), nullptr);
    EXPECT_EQ(framework_defaults("megatorn").name, "trainwright");
}

TEST(Frameworks, EveryTargetOfPlanChecksHasARow) {
    for (const char* name : {"trainwright", "megatron", "torchtitan", "deepspeed"})
        EXPECT_NE(find_framework(name), nullptr) << name;
}

TEST(Frameworks, ApplyingARowSetsThePlansPrecision) {
    ParallelPlan plan;
    plan.precision.compute = Precision::Bf16;
    apply_framework(*find_framework("composer-fsdp"), false, plan);
    EXPECT_EQ(plan.zero_stage, 3);
    EXPECT_EQ(plan.precision.parameters, Precision::Fp32);  // the shards; gathered in bf16
    EXPECT_EQ(plan.precision.gradient_reduce, Precision::Fp32);
    EXPECT_FALSE(plan.precision.master_weights);
    EXPECT_EQ(plan.attention, AttentionKernel::Flash1);
    apply_framework(*find_framework("composer-fsdp-pure"), false, plan);
    EXPECT_EQ(plan.precision.gradient_reduce, Precision::Bf16);

    plan.precision.compute = Precision::Fp16;
    apply_framework(*find_framework("megatron-2022"), false, plan);
    EXPECT_EQ(plan.attention, AttentionKernel::Unfused);
    EXPECT_EQ(plan.precision.parameters, Precision::Fp16);
    EXPECT_TRUE(plan.precision.master_weights);
    EXPECT_TRUE(plan.precision.gradient_fp32);
    EXPECT_TRUE(plan.dropout);
    EXPECT_EQ(plan.zero_stage, 0);

    plan.precision.compute = Precision::Bf16;
    apply_framework(*find_framework("pytorch-bf16"), true, plan);
    EXPECT_EQ(plan.precision.optimizer_states, Precision::Bf16);  // 8 bytes a parameter in all
    EXPECT_FALSE(plan.precision.master_weights);
    EXPECT_FALSE(plan.precision.gradient_fp32);
}

TEST(Frameworks, BucketsFollowTheRow) {
    ParallelPlan plan;
    plan.framework = "megatron";
    plan.mesh.dp = 8;
    EXPECT_DOUBLE_EQ(bucket_bytes(plan), 4 * 40e6);
    plan.mesh.dp = 64;
    EXPECT_DOUBLE_EQ(bucket_bytes(plan), 4 * 64e6);
    plan.framework = "internevo";
    EXPECT_DOUBLE_EQ(bucket_bytes(plan), 2 * 512.0 * 1024 * 1024);  // elements of bf16
    plan.framework = "pytorch";
    EXPECT_DOUBLE_EQ(bucket_bytes(plan), 25.0 * 1024 * 1024);
    plan.bucket_bytes = 7;
    EXPECT_DOUBLE_EQ(bucket_bytes(plan), 7);
}

// Megatron-LM, distributed_data_parallel.py: 40e6 parameters a bucket whatever their width, on the first
// stage and beside the backward alone.
TEST(Frameworks, MegatronCutsTheFirstStageWhereReductionsOverlap) {
    ParallelPlan plan;
    plan.framework = "nemo";
    plan.mesh.dp = 8;
    plan.precision.gradient_fp32 = false;
    plan.overlap.grad_reduce = true;
    EXPECT_DOUBLE_EQ(bucket_bytes(plan), 2 * 40e6);
    EXPECT_DOUBLE_EQ(bucket_count(plan, 0, 400e6, 2), 10);
    EXPECT_DOUBLE_EQ(bucket_count(plan, 0, 400e6, 1), 10);  // gathered parameters lie in the same buckets
    EXPECT_DOUBLE_EQ(bucket_count(plan, 1, 400e6, 2), 1);
    plan.overlap.grad_reduce = false;
    EXPECT_DOUBLE_EQ(bucket_count(plan, 0, 400e6, 2), 1);
    plan.framework = "pytorch";
    EXPECT_DOUBLE_EQ(bucket_count(plan, 1, 25.0 * 1024 * 1024, 4), 4);
}

}  // namespace
}  // namespace tw
