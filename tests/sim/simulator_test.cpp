// Whole simulations with numbers that can be checked by hand.
#include "sim/simulator.hpp"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "models/families/registry.hpp"
#include "models/load_model.hpp"
#include "plan/frameworks/framework.hpp"
#include "plan/stage_partition.hpp"
#include "sim/memory/model_states.hpp"

namespace tw {
namespace {

std::shared_ptr<const Environment> environment_of(const std::string& model, const std::string& cluster) {
    auto made = make_environment(load_model(model).value().graph, load_cluster(cluster).value());
    return *made;
}

ParallelPlan plan_of(const Environment& environment, DeviceMesh mesh, std::int64_t microbatch,
                     std::int64_t microbatches, std::int64_t seq_len,
                     RecomputeMode recompute = RecomputeMode::None) {
    ParallelPlan plan;
    plan.mesh = mesh;
    plan.microbatch = microbatch;
    plan.microbatches = microbatches;
    plan.global_batch = microbatch * microbatches * mesh.dp;
    plan.seq_len = seq_len;
    plan.recompute = recompute;
    plan.stages = uniform_partition(environment.graph, mesh.pp, recompute);
    return plan;
}

double addend(const StageMemory& memory, const std::string& name) {
    for (const MemoryAddend& a : memory.addends) {
        if (a.name == name) return a.bytes;
    }
    return 0;
}

// GPT-3 175B as Megatron-LM trained it: 96 layers of width 12288, tensor parallel 8, pipeline parallel 16.
class Gpt3 : public testing::Test {
  protected:
    static SimulationReport simulate(int zero_stage) {
        const auto environment = environment_of("gpt3-175b", "a100:1024");
        DeviceMesh mesh;
        mesh.tp = 8, mesh.pp = 16, mesh.dp = 8;
        ParallelPlan plan = plan_of(*environment, mesh, 1, 192, 2048, RecomputeMode::Full);
        plan.zero_stage = zero_stage;
        auto report = Simulator(environment).simulate(plan);
        EXPECT_TRUE(report) << to_string(report.errors());
        return std::move(*report);
    }

    // 12 h^2 + 13 h of a block (Narayanan et al. 2021, equation 2): 6 blocks a stage, the matrices split over
    // 8 ranks; norms (4 h) and the two biases after a reduction (2 h) are whole.
    static constexpr double kHidden = 12288;
    static constexpr double kStage = 6 * ((12 * kHidden * kHidden + 7 * kHidden) / 8 + 6 * kHidden);
};

TEST_F(Gpt3, ModelStatesAreBytesTimesParameters) {
    const SimulationReport report = simulate(0);
    const StageMemory& middle = report.memory[8];
    EXPECT_DOUBLE_EQ(addend(middle, "parameters"), 2 * kStage);
    EXPECT_DOUBLE_EQ(addend(middle, "gradients"), 4 * kStage);
    EXPECT_DOUBLE_EQ(addend(middle, "master weights"), 4 * kStage);
    EXPECT_DOUBLE_EQ(addend(middle, "optimizer states"), 8 * kStage);
}

TEST_F(Gpt3, FullRecomputeKeepsTheInputOfEveryBlockInFlight) {
    const SimulationReport report = simulate(0);
    for (int rank = 1; rank < 15; ++rank) {
        const auto r = static_cast<std::size_t>(rank);
        EXPECT_EQ(report.ranks[r].peak_in_flight, 16 - rank);
        // 2 s b h bytes a block (Korthikanti et al. 2022, section 5).
        EXPECT_DOUBLE_EQ(addend(report.memory[r], "activations"), (16 - rank) * 6 * 2.0 * 2048 * kHidden);
    }
}

TEST_F(Gpt3, ThroughputAndUtilisationFollowFromTheStep) {
    const SimulationReport report = simulate(0);
    EXPECT_EQ(report.plan.global_batch, 1536);
    EXPECT_DOUBLE_EQ(report.tokens_per_s, 1536 * 2048 / report.step_time_s);
    EXPECT_DOUBLE_EQ(report.samples_per_s, 1536 / report.step_time_s);
    // Narayanan et al. 2021, equation 3, without its recomputation: 72 B s l h^2 (1 + s / (6 h) + V / (12 l
    // h)); causal attention is counted half (Megatron-LM, num_floating_point_operations).
    const double b = 1536, s = 2048, l = 96, h = kHidden, v = 51200;
    const double flops = 72 * b * s * l * h * h * (1 + s / (12 * h) + v / (12 * l * h));
    EXPECT_NEAR(report.model_flops, flops, 1e-4 * flops);
    EXPECT_NEAR(report.mfu, report.model_flops / report.step_time_s / (1024 * 312e12), 1e-12);
    // Published: 44 % to 52 % with recomputation counted, on 1024 A100s (table 1, 140 to 163 TFLOP/s).
    EXPECT_GT(report.hfu, 0.38);
    EXPECT_LT(report.hfu, 0.60);
    EXPECT_GT(report.hfu, 1.25 * report.mfu);
    // 192 microbatches on 16 stages: at least the 1F1B bubble.
    EXPECT_GE(report.bubble_fraction, 0.9 * 15.0 / (192 + 15));
    EXPECT_LE(report.bubble_fraction, 0.2);
    for (const RankReport& rank : report.ranks)
        EXPECT_NEAR(rank.busy_s + rank.idle_s, report.step_time_s, 1e-9 * report.step_time_s);
}

TEST_F(Gpt3, EachZeroStageDividesItsOwnAddends) {
    const StageMemory none = simulate(0).memory[8];
    for (int stage = 1; stage <= 3; ++stage) {
        const StageMemory sharded = simulate(stage).memory[8];
        const auto expect = [&](const char* name, int from) {
            EXPECT_DOUBLE_EQ(addend(sharded, name), addend(none, name) / (stage >= from ? 8 : 1))
                << name << " under ZeRO-" << stage;
        };
        expect("master weights", 1);
        expect("optimizer states", 1);
        expect("gradients", 2);
        expect("parameters", 3);
        EXPECT_DOUBLE_EQ(addend(sharded, "activations"), addend(none, "activations"));
    }
}

TEST(ModelStates, Llama3OfEightBillionParametersOnEightDevices) {
    // 8,030,261,248 parameters: 18 bytes each; ZeRO-1 leaves 6 + 12 / dp; tensor parallelism divides all.
    constexpr double kParameters = 8'030'261'248;
    EXPECT_EQ(load_model("llama3-8b")->graph.parameters(), 8'030'261'248);
    ParallelPlan plan;
    plan.mesh.dp = 8;
    EXPECT_NEAR(model_state_bytes(plan, kParameters, 0).device() / 1e9, 144.5, 0.05);
    plan.zero_stage = 1;
    EXPECT_NEAR(model_state_bytes(plan, kParameters, 0).device() / 1e9, 60.2, 0.05);
    plan.mesh.dp = 4, plan.mesh.tp = 2;
    EXPECT_NEAR(model_state_bytes(plan, kParameters / 2, 0).device() / 1e9, 36.1, 0.05);
    plan.mesh.dp = 1, plan.mesh.tp = 8;
    EXPECT_NEAR(model_state_bytes(plan, kParameters / 8, 0).device() / 1e9, 18.1, 0.05);
}

// 94 layers over 32 ranks: some have two blocks, others three, and the first and the last an embedding or a
// head. What is shown of a kind of communication is never less than its mean.
TEST(Simulator, CommunicationIsThatOfTheRankThatHasMost) {
    const auto environment = environment_of("qwen3-235b-a22b", "h100:256");
    ParallelPlan plan;
    plan.mesh = {4, 32, 2, 1, 4, 1};
    plan.global_batch = 128, plan.microbatches = 32, plan.seq_len = 4096;
    plan.sequence_parallel = true;
    plan.stages = uniform_partition(environment->graph, 32, RecomputeMode::None);
    const auto report = Simulator(environment).simulate(plan);
    ASSERT_TRUE(report) << to_string(report.errors());
    for (const auto& [kind, part] :
         {std::pair("ep", &TimeBreakdown::exposed_ep), std::pair("tp", &TimeBreakdown::exposed_tp)}) {
        double most = 0;
        for (const RankReport& rank : report->ranks)
            most = std::max(most, rank.breakdown.*part);
        const auto shown = std::find_if(report->communication.begin(), report->communication.end(),
                                        [&](const CommunicationReport& c) { return c.kind == kind; });
        ASSERT_NE(shown, report->communication.end()) << kind;
        EXPECT_GT(shown->exposed_s, 0);
        EXPECT_DOUBLE_EQ(shown->exposed_s, most) << kind;
    }
}

// PyTorch's FSDP without resharding: fp32 shards, and a whole copy in the compute precision; the project's
// own ZeRO-2 holds whole parameters.
TEST(ModelStates, FsdpKeepsItsShardsUnderZero2) {
    constexpr double kParameters = 8'030'261'248;
    ParallelPlan plan;
    apply_framework(framework_defaults("torchtitan"), true, plan);
    plan.mesh.dp = 64;
    plan.zero_stage = 3;
    EXPECT_NEAR(model_state_bytes(plan, kParameters, 0).parameters, 4 * kParameters / 64, 1);
    plan.zero_stage = 2;
    EXPECT_NEAR(model_state_bytes(plan, kParameters, 0).parameters, kParameters * (4.0 / 64 + 2), 1);
    const std::vector<MemoryAddend> addends = model_state_addends(plan, kParameters, 0);
    EXPECT_EQ(addends[0].formula, "4 B x 8.03026e+09 parameters / 64 shards");
    EXPECT_EQ(addends[1].name, "gathered parameters");
    EXPECT_EQ(addends[1].formula, "2 B x 8.03026e+09 parameters");
    plan.precision.autocast = true;  // beside it autocast finds nothing to cast
    EXPECT_NEAR(model_state_bytes(plan, kParameters, 0).parameters, kParameters * (4.0 / 64 + 2), 1);
    plan.framework = "trainwright";
    EXPECT_NEAR(model_state_bytes(plan, kParameters, 0).parameters, 4 * kParameters, 1);
}

// Experts are sharded among their own replicas: the formula's terms give the bytes.
TEST(ModelStates, FormulasOfExpertsAddUp) {
    ParallelPlan plan;
    plan.mesh.dp = 128;
    plan.mesh.ep = 64;
    plan.zero_stage = 1;
    const double dense = 1.2e9, expert = 4.4e8;
    for (const MemoryAddend& a : model_state_addends(plan, dense, expert)) {
        if (a.name != "master weights") continue;
        EXPECT_EQ(a.formula, "4 B x (1.2e+09 / 128 + experts 4.4e+08 / 2)");
        EXPECT_DOUBLE_EQ(a.bytes, 4 * (dense / 128 + expert / 2));
    }
    plan.mesh.ep = 1;  // as many replicas as the dense layers
    EXPECT_EQ(model_state_addends(plan, dense, expert)[2].formula, "4 B x 1.64e+09 parameters / 128 shards");
}

// DeepSpeed's ZeRO-3 without overlap_comm reduces on the stream that computes.
TEST(Simulator, DeepSpeedReducesBesideTheBackwardOrNot) {
    const auto environment = environment_of("llama2-7b", "a100:16");
    DeviceMesh mesh;
    mesh.dp = 16;
    ParallelPlan plan = plan_of(*environment, mesh, 1, 2, 2048, RecomputeMode::Full);
    apply_framework(framework_defaults("deepspeed"), false, plan);
    plan.zero_stage = 3;
    plan.overlap.grad_reduce = true;
    const auto beside = Simulator(environment).simulate(plan);
    plan.overlap.grad_reduce = false;
    const auto after = Simulator(environment).simulate(plan);
    ASSERT_TRUE(beside && after);
    EXPECT_GT(after->step_time_s, 1.01 * beside->step_time_s);
    EXPECT_GT(after->ranks[0].breakdown.exposed_dp, beside->ranks[0].breakdown.exposed_dp);
    EXPECT_NEAR(after->ranks[0].breakdown.total(), after->step_time_s, 1e-6 * after->step_time_s);
    plan.framework = "torchtitan";  // its reductions have a stream of their own
    const auto fsdp = Simulator(environment).simulate(plan);
    plan.overlap.grad_reduce = true;
    EXPECT_DOUBLE_EQ(Simulator(environment).simulate(plan)->step_time_s, fsdp->step_time_s);
}

// Activations on their way to the host are no wait for other ranks, and they take the host's memory.
TEST(Simulator, OffloadedActivationsHaveATimeAndAPlace) {
    const auto environment = environment_of("llama3-8b", "h100:8");
    DeviceMesh mesh;
    mesh.tp = 8;
    ParallelPlan plan = plan_of(*environment, mesh, 1, 4, 8192);
    const auto kept = Simulator(environment).simulate(plan);
    plan.offload_activations = true;
    const auto away = Simulator(environment).simulate(plan);
    ASSERT_TRUE(kept && away);
    EXPECT_EQ(kept->ranks[0].breakdown.exposed_offload, 0);
    EXPECT_EQ(kept->memory[0].host_bytes, 0);
    const double more = away->step_time_s - kept->step_time_s;
    EXPECT_GT(more, 0);
    EXPECT_NEAR(away->ranks[0].breakdown.exposed_offload, more, 0.01 * more);
    EXPECT_NEAR(away->ranks[0].breakdown.bubble, kept->ranks[0].breakdown.bubble, 0.01 * more);
    EXPECT_DOUBLE_EQ(away->memory[0].host_bytes, addend(kept->memory[0], "activations"));  // one microbatch
}

TEST(Simulator, Llama3OfEightBillionFitsOnlyWhereStatesAreDivided) {
    const auto environment = environment_of("llama3-8b", "h100:8");
    const Simulator simulator(environment);
    const auto fits = [&](int tp, int dp, int zero_stage) {
        DeviceMesh mesh;
        mesh.tp = tp, mesh.dp = dp;
        ParallelPlan plan = plan_of(*environment, mesh, 1, 8, 4096, RecomputeMode::Full);
        plan.zero_stage = zero_stage;
        return simulator.simulate(plan)->fits;
    };
    EXPECT_FALSE(fits(1, 8, 0));
    EXPECT_TRUE(fits(2, 4, 1));
    EXPECT_TRUE(fits(8, 1, 0));
}

TEST(Simulator, FirstAndLastStageHoldMoreThanThoseBetween) {
    // One block a stage: the ends also hold the embedding and the head (DeepSpeed reported 10.8, 8.0 and 11.0
    // GB for such a GPT).
    const auto environment = environment_of("gpt2-xl", "h100:48");
    DeviceMesh mesh;
    mesh.pp = 48;
    const auto report = Simulator(environment).simulate(plan_of(*environment, mesh, 1, 1, 1024));
    ASSERT_TRUE(report) << to_string(report.errors());
    const double first = report->memory.front().peak_allocated_bytes;
    const double middle = report->memory[24].peak_allocated_bytes;
    const double last = report->memory.back().peak_allocated_bytes;
    EXPECT_GT(first, 1.2 * middle);
    EXPECT_GT(last, 1.2 * middle);
}

TEST(Simulator, EverythingThatIsWrongIsSaidAtOnce) {
    const auto environment = environment_of("llama3-8b", "h100:8");
    DeviceMesh mesh;
    mesh.tp = 3, mesh.dp = 2;
    ParallelPlan plan = plan_of(*environment, mesh, 1, 8, 4096);
    plan.schedule = "1f2b";
    const auto report = Simulator(environment).simulate(plan);
    ASSERT_FALSE(report);
    EXPECT_GE(report.errors().size(), 2U);
}

TEST(Simulator, PartsOfARanksTimeAddUpToTheStep) {
    const auto environment = environment_of("llama3-8b", "h100:16");
    DeviceMesh mesh;
    mesh.tp = 2, mesh.pp = 4, mesh.dp = 2;
    const auto report = Simulator(environment).simulate(plan_of(*environment, mesh, 1, 16, 4096));
    ASSERT_TRUE(report);
    for (const RankReport& rank : report->ranks)
        EXPECT_NEAR(rank.breakdown.total(), report->step_time_s, 1e-6 * report->step_time_s) << rank.rank;
}

// Recomputation adds what runs again and nothing else: a forward of the blocks, or of their attention cores
// (the backward of a fused core makes its own scores again, which no recomputation does).
TEST(Simulator, HardwareFlopsCountWhatRunsAgain) {
    const auto environment = environment_of("gpt3-175b", "a100:1024");
    DeviceMesh mesh;
    mesh.tp = 8, mesh.pp = 16, mesh.dp = 8;
    const double tokens = 192.0 * 8 * 2048, hidden = 12288;
    const auto again = [&](RecomputeMode mode) {
        const auto report = Simulator(environment).simulate(plan_of(*environment, mesh, 1, 192, 2048, mode));
        EXPECT_TRUE(report);
        return report->hardware_flops - report->model_flops;
    };
    const double core = 96 * 4 * tokens * (2048 / 2) * hidden;  // 2 products of causal scores
    EXPECT_EQ(again(RecomputeMode::None), 0);
    EXPECT_NEAR(again(RecomputeMode::Selective) / core, 1, 1e-9);
    EXPECT_NEAR(again(RecomputeMode::Full) / (core + 96 * 2 * tokens * 12 * hidden * hidden), 1, 1e-9);
}

// A last stage with multi-token prediction holds the embedding's table again, and its gradients are summed
// with the first stage's.
TEST(Simulator, MultiTokenPredictionHoldsTheTableAgain) {
    ModelConfig config = load_model("deepseek-v3").value().config.value();
    config.mtp_layers = 1;
    const auto environment =
        make_environment(build_model(config).value(), load_cluster("h100:16").value()).value();
    const double table = 129280.0 * 7168;
    ShapeCostCache shapes;
    const auto last_stage = [&](DeviceMesh mesh) {
        const ParallelPlan plan = plan_of(*environment, mesh, 1, 8, 4096);
        std::vector<std::uint16_t> ranks;
        for (int s = 0; s < mesh.pp; ++s)
            ranks.push_back(static_cast<std::uint16_t>(s));
        const PlanCost costs(*environment, plan, ranks, shapes);
        const StageSpec& stage = plan.stages.back();
        double layers = 0;
        for (int i = stage.first_layer; i < stage.last_layer; ++i) {
            layers += static_cast<double>(
                costs.shape(mesh.pp - 1)
                    .works[static_cast<std::size_t>(environment->graph.layer(i).layer_class)]
                    .dense_parameters);
        }
        return std::pair(costs.stage(mesh.pp - 1).dense_parameters - layers, costs.tied_embeddings().bytes);
    };
    DeviceMesh mesh;
    mesh.dp = mesh.ep = 8, mesh.pp = 2;
    EXPECT_EQ(last_stage(mesh), std::pair(table, 4 * table));
    mesh.pp = 1;
    EXPECT_EQ(last_stage(mesh), std::pair(0.0, 0.0));
}

}  // namespace
}  // namespace tw
