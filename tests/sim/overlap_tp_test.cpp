// Which kernels hide a tensor-parallel collective that runs inside a product (overlap.tp).
#include <gtest/gtest.h>

#include "models/load_model.hpp"
#include "sim/collectives/collective_cost.hpp"
#include "sim/cost/layer_cost.hpp"
#include "sim/environment.hpp"

namespace tw {
namespace {

constexpr double kBytes = 2.0 * 8192 * 8192;

class OverlapTp : public testing::Test {
  protected:
    OverlapTp() {
        environment_ =
            make_environment(load_model("llama3-8b").value().graph, load_cluster("h100:8").value()).value();
        context_.profile = &environment_->profile(0);
        context_.node = &environment_->node_group(0).type;
        context_.tp.size = context_.tp.per_node = 8;
        context_.tp.nodes = 1;
        context_.overlap_tp = true;
    }

    [[nodiscard]] double time(const std::vector<Op>& ops) const {
        LayerWork work;
        work.forward = ops;
        const LayerCost cost(work, context_);
        return to_seconds(cost.phase(RecomputeMode::None, Opcode::Forward).device_time()).value;
    }
    static Op product(std::int64_t m) { return {.name = "mlp.up", .body = Gemm{m, 8192, 8192}}; }
    static Op cast() { return {.name = "mlp.up", .body = MemoryOp{MemoryOpKind::Cast, 3e8}}; }
    static Op add() { return {.name = "mlp.residual", .body = MemoryOp{MemoryOpKind::Add, 6e8}}; }
    static Op collective(CollectiveKind kind, const char* name = "mlp.up") {
        return {.name = name, .body = CollectiveOp{kind, Axis::Tp, kBytes}};
    }

    std::shared_ptr<const Environment> environment_;
    CostContext context_;
};

constexpr double kRounding = 1e-11;

TEST_F(OverlapTp, AGatherHidesBehindTheProductAfterIt) {
    const Op gather = collective(CollectiveKind::AllGather);
    const double comm = time({gather});
    for (const std::int64_t m : {64, 8192}) {  // shorter and longer than the gather
        const double work = time({product(m)});
        EXPECT_NEAR(time({gather, product(m)}), std::max(comm, work), kRounding);
        // A cast on the way hides some of it too; what comes after the product waits for all.
        EXPECT_NEAR(time({gather, cast(), product(m), add()}),
                    std::max(comm, time({cast()}) + work) + time({add()}), kRounding);
    }
    EXPECT_LT(time({product(64)}), comm);
    EXPECT_GT(time({product(8192)}), comm);
}

TEST_F(OverlapTp, AReduceScatterHidesBehindTheProductBeforeIt) {
    const Op scatter = collective(CollectiveKind::ReduceScatter);
    const double comm = time({scatter});
    for (const std::int64_t m : {64, 8192}) {
        const double work = time({product(m)});
        // The residual's addition reads all of its output.
        EXPECT_NEAR(time({product(m), scatter, add()}), std::max(comm, work) + time({add()}), kRounding);
    }
    // Behind another kernel there is nothing to run inside of.
    EXPECT_NEAR(time({add(), scatter, add()}), comm + 2 * time({add()}), kRounding);
}

// Plain tensor parallelism's all-reduces, and the output layer's gather, are awaited.
TEST_F(OverlapTp, AllReducesAndTheHeadsGatherHideNowhere) {
    const Op reduce = collective(CollectiveKind::AllReduce);
    const double all = time({reduce}), work = time({product(8192)});
    EXPECT_NEAR(time({product(8192), reduce, add()}), work + all + time({add()}), kRounding);
    const Op gather = collective(CollectiveKind::AllGather, "head.logits");
    EXPECT_NEAR(time({gather, product(8192)}), time({gather}) + work, kRounding);
    // Without the option all are.
    context_.overlap_tp = false;
    const Op scatter = collective(CollectiveKind::ReduceScatter);
    EXPECT_NEAR(time({product(8192), scatter}), work + time({scatter}), kRounding);
}

// What a checkpoint runs again has ended, exchanges beside the core included, before the backward starts.
TEST_F(OverlapTp, ABackwardWaitsForTheExchangesThatItsCheckpointRepeats) {
    LayerWork work;
    Op core = add(), exchange = collective(CollectiveKind::AllGather, "attn.ring");
    std::get<CollectiveOp>(exchange.body).overlaps = true;
    core.recompute = exchange.recompute = RecomputeLevel::Selective;
    work.forward = {exchange, core};
    Op backward = product(64);
    backward.phase = Phase::BackwardInput;
    work.backward = {backward};
    const LayerCost cost(work, context_);
    const PhaseCost& phase = cost.phase(RecomputeMode::Selective, Opcode::Backward);
    const double comm = time({exchange});
    ASSERT_GT(comm, time({core}));
    EXPECT_NEAR(to_seconds(phase.device_time()).value, comm + time({product(64)}), kRounding);
    EXPECT_NEAR(phase.recompute_s, time({core}), kRounding);
}

}  // namespace
}  // namespace tw
