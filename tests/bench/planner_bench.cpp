// Plans and searches: a layout that was not seen before, a known one, a ring of random plans, whole searches.
#include <benchmark/benchmark.h>
#include <malloc.h>
#include <sys/resource.h>

#include "bench_plans.hpp"
#include "plan/lower_plan.hpp"
#include "planner/request.hpp"

namespace tw {
namespace {

// Generate, lower, compile, cost and run: nothing is known but the layers' costs.
void BM_NewLayout(benchmark::State& state) {
    const auto environment = bench::environment("gpt3-175b", "a100:1024");
    const ParallelPlan plan = bench::gpt3_plan(*environment, "1f1b", 1);
    ShapeCostCache shapes;
    EngineWorkspace workspace;
    for (auto _ : state) {
        const ComputeOrder order = *generate_order(plan.schedule, schedule_shape(plan));
        const PlanCost costs(*environment, plan, order.rank_of_stage, shapes);
        const Schedule schedule =
            lower(order, plan.schedule, lowering_options(environment->graph, plan, costs.parameters()));
        const CompiledSchedule compiled = *compile_schedule(schedule);
        benchmark::DoNotOptimize(run_engine(compiled, costs.table(schedule, compiled), workspace).period);
    }
}
BENCHMARK(BM_NewLayout)->Unit(benchmark::kMicrosecond);

// Of these, the order, its passes and the graph alone.
void BM_LowerAndCompile(benchmark::State& state) {
    const auto environment = bench::environment("gpt3-175b", "a100:1024");
    const ParallelPlan plan = bench::gpt3_plan(*environment, "1f1b", 1);
    const LoweringOptions options = [&] {
        ShapeCostCache shapes;
        const ComputeOrder order = *generate_order(plan.schedule, schedule_shape(plan));
        const PlanCost costs(*environment, plan, order.rank_of_stage, shapes);
        return lowering_options(environment->graph, plan, costs.parameters());
    }();
    for (auto _ : state) {
        const ComputeOrder order = *generate_order(plan.schedule, schedule_shape(plan));
        const Schedule schedule = lower(order, plan.schedule, options);
        benchmark::DoNotOptimize(compile_schedule(schedule)->nodes());
    }
}
BENCHMARK(BM_LowerAndCompile)->Unit(benchmark::kMicrosecond);

void BM_EvaluateKnownLayout(benchmark::State& state) {
    const auto environment = bench::environment("gpt3-175b", "a100:1024");
    const ParallelPlan plan = bench::gpt3_plan(*environment, "1f1b", 1);
    const Simulator simulator(environment);
    for (auto _ : state)
        benchmark::DoNotOptimize(simulator.evaluate(plan)->step_time);
}
BENCHMARK(BM_EvaluateKnownLayout)->Unit(benchmark::kMicrosecond);

// A thousand random legal plans over and over: more layouts than the caches hold.
void BM_EvaluateRing(benchmark::State& state) {
    const auto environment = bench::environment("gpt3-175b", "a100:1024");
    Prng prng(5);
    const auto pick = [&](std::initializer_list<int> values) {
        return values.begin()[prng.integer(0, static_cast<std::int64_t>(values.size()) - 1)];
    };
    std::vector<ParallelPlan> plans;
    while (plans.size() < 1000) {
        const bool interleaved = prng.integer(0, 1) == 1;
        const bool zero_bubble = prng.integer(0, 1) == 1;
        ParallelPlan plan = bench::gpt3_plan(*environment,
                                             interleaved   ? "interleaved"
                                             : zero_bubble ? "zb-h1"
                                                           : "1f1b",
                                             1);
        plan.mesh.tp = pick({1, 2, 4, 8});
        plan.mesh.pp = pick({4, 8, 16, 32});
        plan.mesh.dp = 1024 / plan.mesh.tp / plan.mesh.pp;
        plan.sequence_parallel = plan.mesh.tp > 1;
        plan.virtual_stages = interleaved ? pick({2, 3}) : 1;
        plan.microbatch = pick({1, 2, 4});
        plan.zero_stage = pick({0, 1, 2});
        plan.recompute = static_cast<RecomputeMode>(prng.integer(0, 2));
        plan.global_batch = 1536;
        if (plan.global_batch % (plan.microbatch * plan.mesh.dp) != 0) continue;
        plan.microbatches = plan.global_batch / plan.microbatch / plan.mesh.dp;
        plan.stages =
            uniform_partition(environment->graph, plan.mesh.pp * plan.virtual_stages, plan.recompute);
        const auto generator = find_schedule(plan.schedule);
        if ((*generator)->check(schedule_shape(plan)).empty()) plans.push_back(std::move(plan));
    }
    const Simulator simulator(environment);
    std::size_t next = 0;
    for (auto _ : state) {
        benchmark::DoNotOptimize(simulator.evaluate(plans[next])->step_time);
        next = next + 1 == plans.size() ? 0 : next + 1;
    }
}
BENCHMARK(BM_EvaluateRing)->Unit(benchmark::kMicrosecond);

void search(benchmark::State& state, const char* model, const char* cluster, std::int64_t batch,
            std::int64_t seq_len) {
    const auto environment = bench::environment(model, cluster);
    PlanRequest request;
    request.global_batch = batch;
    request.seq_len = seq_len;
    SearchStatistics found;
    for (auto _ : state)
        found = find_plans(environment, request)->search;
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    state.counters["configurations"] = static_cast<double>(found.configurations);
    state.counters["simulated"] = static_cast<double>(found.simulated);
    state.counters["peak_rss_bytes"] =
        static_cast<double>(usage.ru_maxrss) * 1024.0;  // of the process so far
}
void BM_SearchGpt3(benchmark::State& state) {
    search(state, "gpt3-175b", "a100:1024", 1536, 2048);
}
void BM_SearchLlama405b(benchmark::State& state) {
    search(state, "llama3-405b", "h100:16384", 2048, 8192);
}
BENCHMARK(BM_SearchGpt3)->Unit(benchmark::kSecond)->UseRealTime();
BENCHMARK(BM_SearchLlama405b)->Unit(benchmark::kSecond)->UseRealTime();

}  // namespace
}  // namespace tw

// As trainwright allocates (cli/main/trainwright.cpp): without page faults for every new schedule.
int main(int argc, char** argv) {
    mallopt(M_MMAP_THRESHOLD, 64 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
