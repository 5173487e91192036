// Events per second of the event engine, with contention and without; a binary heap as reference. Counters:
// "ns/event" is the figure that counts (an event: a node completes, a flow starts, ends or changes its rate).
#include <queue>

#include <benchmark/benchmark.h>

#include "base/prng.hpp"
#include "plan/schedule/generator.hpp"
#include "plan/schedule/lower.hpp"
#include "sim/engine/event_engine.hpp"

namespace tw {
namespace {

constexpr SimTime kMicro = 1'000'000;

struct Pipeline {
    Schedule schedule;
    CompiledSchedule compiled;

    Pipeline(int ranks, int microbatches, int data) {
        ScheduleShape shape;
        shape.ranks = ranks;
        shape.microbatches = microbatches;
        LoweringOptions options;
        options.buckets.assign(static_cast<std::size_t>(ranks), 4);
        schedule = lower(*generate_order("1f1b", shape), "1f1b", options);
        compiled = std::move(*compile_schedule(schedule, {data, 1}));
    }
};

// Forward 100 us, backward 200 us, transfers and gradient buckets long enough to meet; all vary by 10 %.
CostTable costs_of(const Pipeline& p, SimTime transfer) {
    Prng prng(3);
    CostTable costs(p.compiled);
    for (int r = 0; r < p.compiled.ranks; ++r) {
        for (int k = 0; k < p.compiled.classes; ++k) {
            const Opcode op = p.schedule.duration_classes[static_cast<std::size_t>(k)].opcode;
            const SimTime mean = op == Opcode::Forward ? 100 * kMicro
                                 : is_compute(op)      ? 200 * kMicro
                                                       : transfer;
            costs.duration[p.compiled.slot_of(r, k)] = mean * prng.integer(90, 110) / 100;
        }
    }
    return costs;
}

// Two neighbouring programs share a way out and a way in; gradients use both.
FlowTable flows_of(const Pipeline& p, double capacity) {
    const int ranks = p.compiled.ranks, stages = p.compiled.pipeline_ranks;
    FlowTable flows(p.compiled, std::vector<double>(static_cast<std::size_t>(ranks) + 1, capacity));
    for (int r = 0; r < ranks; ++r) {
        for (int k = 0; k < p.compiled.classes; ++k) {
            const DurationKey& key = p.schedule.duration_classes[static_cast<std::size_t>(k)];
            std::vector<int> links;
            if (is_send(key.opcode) && key.stage == r % stages) {
                const int peer = r / stages * stages + key.stage2;
                links = {r / 2 * 2, peer / 2 * 2 + 1};
            } else if (key.opcode == Opcode::AllReduce) {
                links = {r / 2 * 2, r / 2 * 2 + 1};
            }
            flows.add(p.compiled.slot_of(r, k), links, 1e9, 5 * kMicro);
        }
    }
    return flows;
}

void run(benchmark::State& state, double capacity, bool with_flows) {
    const Pipeline p(16, static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
    const CostTable costs = costs_of(p, 80 * kMicro);
    const FlowTable flows = flows_of(p, capacity);
    EventEngine engine(p.compiled, with_flows ? &flows : nullptr);
    const std::vector<StepCosts> steps(2, StepCosts{&costs});
    EventRun out;
    for (auto _ : state) {
        engine.run(steps, out);
        benchmark::DoNotOptimize(out.times.period);
    }
    const auto per_second = benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert;
    state.counters["s/event"] = benchmark::Counter(static_cast<double>(out.counts.events()), per_second);
    state.counters["s/node"] = benchmark::Counter(static_cast<double>(out.counts.nodes), per_second);
    state.counters["slowed"] = static_cast<double>(out.counts.slowed) /
                               static_cast<double>(std::max<std::int64_t>(out.counts.flows, 1));
}

void BM_Contention(benchmark::State& state) {
    run(state, 1e9, true);
}
void BM_Uncrowded(benchmark::State& state) {
    run(state, 1e12, true);
}
void BM_NoFlows(benchmark::State& state) {
    run(state, 1e9, false);
}
BENCHMARK(BM_Contention)->Args({192, 1})->Args({64, 8});
BENCHMARK(BM_Uncrowded)->Args({192, 1})->Args({64, 8});
BENCHMARK(BM_NoFlows)->Args({192, 1})->Args({64, 8});

// The relaxation of engine.hpp over the same nodes.
void BM_Relaxation(benchmark::State& state) {
    const Pipeline p(16, 192, 1);
    const CostTable costs = costs_of(p, 80 * kMicro);
    EngineWorkspace workspace;
    for (auto _ : state)
        benchmark::DoNotOptimize(run_engine(p.compiled, costs, workspace).period);
    state.counters["s/node"] =
        benchmark::Counter(static_cast<double>(2 * p.compiled.nodes()),
                           benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(BM_Relaxation);

// One push and one pop of a heap of 64 times: what a plain event loop pays for each event.
void BM_BinaryHeap(benchmark::State& state) {
    std::priority_queue<std::pair<SimTime, int>, std::vector<std::pair<SimTime, int>>, std::greater<>> heap;
    Prng prng(1);
    for (int i = 0; i < 64; ++i)
        heap.emplace(prng.integer(0, 1000), i);
    for (auto _ : state) {
        const auto [time, id] = heap.top();
        heap.pop();
        heap.emplace(time + static_cast<SimTime>(prng.next() & 1023U), id);
    }
}
BENCHMARK(BM_BinaryHeap);

}  // namespace
}  // namespace tw

BENCHMARK_MAIN();
