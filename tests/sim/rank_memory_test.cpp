// What a rank holds by framework: at the peak, and reserved beside it.
#include "sim/memory/rank_memory.hpp"

#include <gtest/gtest.h>

#include "plan/frameworks/framework.hpp"
#include "sim/memory/device_overhead.hpp"
#include "sim/memory/segment_pool.hpp"

namespace tw {
namespace {

constexpr double kGiB = 0x1p30, kMiB = 0x1p20;

Device device_of(const char* name) {
    auto device = load_device(name);
    TW_CHECK(device.has_value());
    return std::move(*device);
}

ParallelPlan plan_of(const char* framework, Precision compute, int dp, int zero) {
    ParallelPlan plan;
    plan.mesh.dp = dp;
    plan.precision.compute = compute;
    apply_framework(framework_defaults(framework), false, plan);
    plan.zero_stage = zero;
    plan.microbatches = 4;
    return plan;
}

TEST(SegmentPool, ServesFromTheSmallestCachedSegmentWithRoom) {
    SegmentPool pool;
    const std::size_t large = pool.take(100), small = pool.take(40);
    pool.release(large, 100);
    pool.release(small, 40);
    EXPECT_EQ(pool.take(30), small);
    EXPECT_EQ(pool.take(30), large);
    EXPECT_EQ(pool.take(70), large);
    EXPECT_DOUBLE_EQ(pool.reserved(), 140);
    pool.take(1);
    EXPECT_DOUBLE_EQ(pool.reserved(), 140);
    pool.take(11);
    EXPECT_DOUBLE_EQ(pool.reserved(), 151);
}

// InternEvo without replicas: 2 + 2 + 12 bytes a parameter held; the step holds 4 + 8 more, and the flat copy
// of the gradients before it stays reserved: 30 in all, beside two flat buckets of 512 Mi elements.
TEST(RankMemory, InternEvoReservesThirtyBytesAParameter) {
    const Device device = device_of("a100");
    const ParallelPlan plan = plan_of("internevo", Precision::Bf16, 1, 1);
    RankFootprint f;
    f.dense = 2e9;
    f.activations = 3e9;
    f.device = &device;
    f.capacity = as_double(device.memory);
    const RankMemory m = rank_memory(plan, f);
    const double bucket = 2 * 512 * kMiB;
    EXPECT_TRUE(m.at_step);
    EXPECT_DOUBLE_EQ(m.allocated, (16 + 12) * f.dense + 2 * bucket);
    // The first 4 bytes of the step find no cached segment; the rest of what was flat is reused.
    EXPECT_NEAR(m.reserved, 30 * f.dense + 2 * bucket + f.activations, 20 * kMiB);
    EXPECT_NEAR(m.cached, m.reserved - m.allocated, 20 * kMiB);
}

// Cached blocks are given back before an allocation fails: they never decide whether a plan fits.
TEST(RankMemory, CachedBlocksDoNotRunOutOfMemory) {
    const Device device = device_of("a100");
    const ParallelPlan plan = plan_of("internevo", Precision::Bf16, 1, 1);
    RankFootprint f;
    f.dense = 2.6e9;
    f.activations = 4e9;
    f.device = &device;
    f.capacity = as_double(device.memory);
    const RankMemory m = rank_memory(plan, f);
    EXPECT_GT(m.reserved + device_overhead(plan, device), as_double(device.memory));
    EXPECT_DOUBLE_EQ(m.device, as_double(device.memory));
    f.dense = 3e9;  // 28 bytes a parameter at once
    EXPECT_GT(rank_memory(plan, f).device, as_double(device.memory));
}

// DeepSpeed's own estimate for ZeRO-3 (runtime/zero/stage3.py, estimate_zero3_model_states_mem_needs): 18
// bytes a parameter over all GPUs and 4 of the largest layer, 29.01 GiB for 6805M parameters on 4 GPUs; with
// the optimizer offloaded 2 bytes, 3.66 GiB; with the parameters too 0.49 GiB. A real run adds what is
// gathered, 2.1 GB, and the bucket, 1 GB.
TEST(RankMemory, DeepSpeedZero3) {
    const Device device = device_of("a100");
    ParallelPlan plan = plan_of("deepspeed", Precision::Fp16, 4, 3);
    plan.precision.gradient_fp32 = true;
    RankFootprint f;
    f.dense = 6805e6;
    f.largest_block = 0.49 * kGiB / 4;
    f.device = &device;
    f.capacity = as_double(device.memory);
    const RankMemory m = rank_memory(plan, f);
    const double largest = 4 * f.largest_block;
    EXPECT_NEAR((m.states.device() + largest) / kGiB, 29.01, 0.005);
    EXPECT_NEAR((m.states.parameters + largest) / kGiB, 3.66, 0.005);
    EXPECT_DOUBLE_EQ(m.gathered, 2 * (1e9 + 5e7));
    EXPECT_DOUBLE_EQ(m.buckets, 1e9);
}

// DeepSpeed's ZeRO-3 steps sub-group by sub-group of 1e9 parameters: 4 bytes of each at once.
TEST(RankMemory, DeepSpeedStepsBySubGroups) {
    const Device device = device_of("h100");
    RankFootprint f;
    f.device = &device;
    f.capacity = as_double(device.memory);
    const ParallelPlan plan = plan_of("deepspeed", Precision::Bf16, 8, 3);
    f.dense = 4e9;
    EXPECT_DOUBLE_EQ(rank_memory(plan, f).step, 4 * 4e9 / 8);
    f.dense = 40e9;
    const RankMemory m = rank_memory(plan, f);
    EXPECT_DOUBLE_EQ(m.step, 4e9);
    EXPECT_DOUBLE_EQ(m.states.gradients, 2 * 40e9 / 8);
    EXPECT_DOUBLE_EQ(rank_memory(plan_of("deepspeed", Precision::Bf16, 8, 2), f).step, 4 * 40e9 / 8);
}

RankFootprint fsdp_footprint(const Device& device, double activations, double loose) {
    RankFootprint f;
    f.dense = 8e9;
    f.largest_block = 0.2e9;
    f.outside_blocks = 1e9;
    f.activations = activations;
    f.loose = loose;
    f.device = &device;
    f.capacity = as_double(device.memory);
    return f;
}

// What the device shows does not depend on what a plan leaves free; whether the plan fits does.
TEST(RankMemory, CachedBlocksFillTheDeviceWhateverIsLeftFree) {
    const Device device = device_of("h100");
    const ParallelPlan plan = plan_of("torchtitan", Precision::Bf16, 8, 3);
    RankFootprint f = fsdp_footprint(device, 60e9, 8e9);
    const RankMemory whole = rank_memory(plan, f);
    EXPECT_GT(whole.device, whole.required);
    f.capacity = whole.required + 1;
    EXPECT_DOUBLE_EQ(rank_memory(plan, f).device, whole.device);
    EXPECT_LE(rank_memory(plan, f).required, f.capacity);
}

// FSDP2's gathers and reduced gradients have pools of their own.
TEST(RankMemory, TorchtitanReservesTheStreamsPools) {
    const Device device = device_of("h100");
    const ParallelPlan plan = plan_of("torchtitan", Precision::Bf16, 8, 3);
    const RankFootprint f = fsdp_footprint(device, 30e9, 4e9);
    const RankMemory m = rank_memory(plan, f);
    EXPECT_DOUBLE_EQ(m.gathered, 2 * (2 * f.largest_block + f.outside_blocks));
    EXPECT_NEAR(m.cached, f.loose + 2 * (f.largest_block + f.outside_blocks), 4 * kMiB);
}

// What the executor opens (tests/real_exec/runtime/groups_test.cpp).
TEST(DeviceOverhead, TheExecutorsCommunicators) {
    const Device a100 = device_of("a100");
    ParallelPlan plan = plan_of("trainwright", Precision::Bf16, 1, 1);
    const double alone = device_overhead(plan, a100);
    const auto mib = [&] { return (device_overhead(plan, a100) - alone) / kMiB; };
    plan.mesh.dp = 8;
    EXPECT_NEAR(mib(), 2 * 688, 1e-6);  // all, dp
    plan.zero_stage = 3;
    EXPECT_NEAR(mib(), 3 * 688, 1e-6);  // and layer by layer
    plan.zero_shard = 2;
    EXPECT_NEAR(mib(), 688 + 2 * (544 + 688), 1e-6);  // all; parts of two, their four copies
    plan.zero_stage = 1;
    plan.zero_shard = 0;
    plan.mesh.dp = 2;
    plan.mesh.tp = 4;
    plan.mesh.pp = 4;
    EXPECT_NEAR(mib(), 688 + 688 + 544 + 4 * 544, 1e-6);  // all, tp, dp, neighbours both ways
    plan.mesh.pp = 2;
    EXPECT_NEAR(mib(), 688 + 688 + 544 + 2 * 544, 1e-6);
    EXPECT_NEAR((device_overhead(plan, a100, true) - alone) / kMiB, 688 + 688 + 544 + 3 * 544, 1e-6);
}

TEST(DeviceOverhead, ContextsAndCommunicators) {
    const Device v100 = device_of("v100-32"), a100 = device_of("a100");
    ParallelPlan plan = plan_of("megatron-deepspeed-bigscience", Precision::Fp16, 1, 1);
    EXPECT_DOUBLE_EQ(device_overhead(plan, v100), 1113 * kMiB);
    EXPECT_DOUBLE_EQ(device_overhead(plan, a100), 1573 * kMiB);
    plan.mesh.dp = 2;
    EXPECT_DOUBLE_EQ(device_overhead(plan, a100), (1573 + 544) * kMiB);
    plan.mesh.tp = 8;  // all devices, tp, dp
    EXPECT_DOUBLE_EQ(device_overhead(plan, a100), (1573 + 688 + 688 + 544) * kMiB);
    plan.mesh.tp = 1;
    plan.mesh.dp = 8;
    plan.mesh.ep = 2;  // all devices, experts, their 4 replicas; dp is all devices
    EXPECT_DOUBLE_EQ(device_overhead(plan, a100), (1573 + 688 + 544 + 688) * kMiB);
}

// Processors: what the profile measured of the process, no context and no buffers of NCCL.
TEST(DeviceOverhead, ProcessorsHoldTheProcess) {
    const Device cpu = device_of("cpu");
    ParallelPlan plan = plan_of("trainwright", Precision::Fp32, 2, 0);
    RankFootprint f;
    f.dense = 1e6;
    f.executor = true;
    f.outside = 29e6;
    f.device = &cpu;
    f.capacity = as_double(cpu.memory);
    const RankMemory m = rank_memory(plan, f);
    EXPECT_DOUBLE_EQ(m.device, m.reserved + 29e6);
}

// Transformer Engine keeps a weight's casts for the forward and for the input gradient from the first
// microbatch on; NeMo's recipes hold them instead of 16 bits, torchao casts anew for every product.
TEST(RankMemory, QuantisedWeightsLiveBesideTheirParameters) {
    const Device device = device_of("h100");
    RankFootprint f;
    f.dense = 1e9;
    f.device = &device;
    f.capacity = as_double(device.memory);
    for (const auto& [framework, bytes] :
         {std::pair{"megatron", 1.8e9}, {"nemo", 0.0}, {"torchtitan", 0.0}}) {
        const ParallelPlan plan = plan_of(framework, Precision::Fp8, 1, 0);
        f.quantised = 0;
        const double without = rank_memory(plan, f).allocated;
        f.quantised = 9e8;
        const RankMemory m = rank_memory(plan, f);
        EXPECT_DOUBLE_EQ(m.quantised_weights, bytes) << framework;
        EXPECT_DOUBLE_EQ(m.allocated - without, bytes) << framework;
    }
}

// In nvfp4 NeMo's parameters stay in 16 bits (fp4_param is not supported), and a cast has 9/16 byte.
TEST(RankMemory, CastsToFourBitsLiveBesideParametersEverywhere) {
    const Device device = device_of("gb300");
    RankFootprint f;
    f.dense = 1e9;
    f.quantised = 9e8;
    f.device = &device;
    f.capacity = as_double(device.memory);
    for (const char* framework : {"megatron", "nemo"}) {
        const ParallelPlan plan = plan_of(framework, Precision::Nvfp4, 1, 0);
        EXPECT_DOUBLE_EQ(rank_memory(plan, f).quantised_weights, 2 * 9e8 * 9 / 16) << framework;
        EXPECT_EQ(gathered_parameter_bytes(plan), 2) << framework;
    }
}

// Modules in fp8 cast what was gathered: 16 bits a parameter.
TEST(RankMemory, Fp8GathersSixteenBits) {
    const Device device = device_of("h100");
    const ParallelPlan plan = plan_of("torchtitan", Precision::Fp8, 8, 3);
    EXPECT_EQ(gathered_parameter_bytes(plan), 2);
    EXPECT_EQ(gathered_parameter_bytes(plan_of("torchtitan", Precision::Fp32, 8, 3)), 4);
    EXPECT_EQ(gathered_parameter_bytes(plan_of("nemo", Precision::Fp8, 8, 3)), 1);  // fp8_param_gather
    RankFootprint f;
    f.dense = 8e9;
    f.largest_block = 2e8;
    f.outside_blocks = 1e9;
    f.device = &device;
    f.capacity = as_double(device.memory);
    EXPECT_DOUBLE_EQ(rank_memory(plan, f).gathered, 2 * (2 * 2e8 + 1e9));
}

}  // namespace
}  // namespace tw
