// What executor_work.hpp says a layer runs is what the executor runs: every kernel with its sizes.
#include "plan/frameworks/executor_work.hpp"

#include <cmath>
#include <map>
#include <tuple>

#include <gtest/gtest.h>

#include "plan/frameworks/executor_kernels.hpp"
#include "plan/stage_program/stage_program.hpp"
#include "profiler/bench/kernel_log.hpp"
#include "profiler/bench/sampler.hpp"
#include "profiler/bench/training_models.hpp"
#include "real_exec/comm/local/local_transport.hpp"
#include "real_exec/runtime/training.hpp"

namespace tw {
namespace {

// A kernel and what tells its calls apart; memory-bound ones by the bytes that they move.
using Call = std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t>;

std::map<Call, int> calls_of(const PlanDocument& document, RecomputeMode recompute) {
    std::map<Call, int> calls;
    const ParallelPlan& plan = document.plan;
    const std::vector<ExecutorLayer> layers =
        executor_layers(document.graph, plan.work_shape(document.graph));
    const auto add = [&](const Op& op, bool) {
        if (const auto* g = std::get_if<Gemm>(&op.body)) {
            ++calls[{"gemm", g->m, g->n, g->k}];
        } else if (const auto* a = std::get_if<Attention>(&op.body)) {
            ++calls[{a->backward ? "attention_backward" : "attention", a->heads, a->seq_q, a->head_dim_qk}];
        } else if (const auto* m = std::get_if<MemoryOp>(&op.body)) {
            for (const ExecutorKernelInfo& info : executor_kernels()) {
                if (info.kind == m->kind && info.backward == m->backward)
                    ++calls[{std::string(info.name), std::llround(m->bytes), 0, 0}];
            }
        }
    };
    for (const StageSegment& segment : stage_segments(document.graph, plan.stages[0])) {
        const LayerWork& work = layers[static_cast<std::size_t>(segment.layer_class)].work;
        for (int i = 0; i < segment.count; ++i) {
            visit_layer_ops(work, segment.recompute, Opcode::Forward, add);
            visit_layer_ops(work, segment.recompute, Opcode::Backward, add);
        }
    }
    (void)recompute;
    return calls;
}

// Of one step, without what belongs to no layer: the update, copies of the batch.
std::map<Call, int> calls_run(const PlanDocument& document) {
    KernelLog log;
    const auto inner = make_cpu_backend();
    const auto timed = make_timing_backend(*inner, log, wall_clock());
    auto transport = std::move(local_transports(1).front());
    TrainOptions options;
    options.steps = 2;
    log.switch_on(false);
    const auto trained = train(document, options, *transport, *timed,
                               [&](const StepResult& step) { log.switch_on(step.step == 0); });
    EXPECT_TRUE(trained);
    log.keep();
    std::map<Call, int> calls;
    for (const auto& [call, seconds] : log.calls()) {
        const std::string kernel(call.kernel);
        const auto count = static_cast<int>(seconds.size());
        if (kernel == "gemm") {
            calls[{kernel, call.size[0], call.size[1], call.size[2]}] += count;
        } else if (kernel.rfind("attention", 0) == 0) {
            calls[{kernel, call.size[2], call.size[1], call.size[4]}] += count;
        } else if (kernel != "optimizer" && kernel != "square_sum" && kernel != "fill" && kernel != "copy") {
            const ExecutorKernelInfo* info = find_executor_kernel(kernel);
            EXPECT_NE(info, nullptr) << kernel;
            const double bytes = info->passes * static_cast<double>(call.size[0] * call.size[1]) * 4;
            calls[{kernel, std::llround(bytes), 0, 0}] += count;
        }
    }
    return calls;
}

TEST(ExecutorWork, IsWhatTheExecutorRuns) {
    for (const bool llama : {false, true}) {
        for (const RecomputeMode recompute :
             {RecomputeMode::None, RecomputeMode::Selective, RecomputeMode::Full}) {
            TrainingModel model;
            model.llama = llama;
            model.hidden = 64, model.heads = 4, model.kv_heads = llama ? 2 : 4, model.head_dim = 16;
            model.ffn = 96, model.vocab = 256, model.seq = 32, model.microbatch = 2;
            auto document = training_document(model);
            ASSERT_TRUE(document);
            document->plan.recompute = recompute;
            document->plan.stages[0].recompute = recompute;
            std::map<Call, int> predicted = calls_of(*document, recompute), run = calls_run(*document);
            const std::string name = model.name() + " " + std::string(to_string(recompute));
            for (const auto& [call, count] : predicted) {
                if (std::get<0>(call) == "copy") continue;
                EXPECT_EQ(run[call], count) << name << ": " << std::get<0>(call) << " " << std::get<1>(call)
                                            << " " << std::get<2>(call) << " " << std::get<3>(call);
            }
            for (const auto& [call, count] : run)
                EXPECT_EQ(predicted[call], count)
                    << name << ": " << std::get<0>(call) << " " << std::get<1>(call) << " "
                    << std::get<2>(call) << " " << std::get<3>(call);
        }
    }
}

}  // namespace
}  // namespace tw
