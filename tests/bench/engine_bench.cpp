// The contention-free engine on two schedules: 1F1B of 16 ranks and 512 microbatches, and GPT-3 175B on 1024
// A100 (tensor 8, pipeline 16, data 8, 192 microbatches). Two references in the same run: an event loop on a
// binary heap over the same graph, and a chain of dependent max and add of equal length, the least that a
// longest path can cost. Counters: seconds a node and instruction, and the two as multiples of the engine.
#include <chrono>
#include <functional>
#include <memory>
#include <queue>

#include <benchmark/benchmark.h>

#include "bench_plans.hpp"
#include "sim/engine/engine.hpp"

namespace tw {
namespace {

// Every slot its own cost: nothing can be shared between equal stages.
CostTable distinct_costs(const CompiledSchedule& compiled, bool host) {
    Prng prng(11);
    CostTable costs(compiled);
    if (host) costs.enable_host();
    for (int r = 0; r < compiled.ranks; ++r) {
        for (int k = 0; k < compiled.classes; ++k) {
            const std::uint32_t slot = compiled.slot_of(r, k);
            costs.duration[slot] = prng.integer(50'000'000, 200'000'000);
            if (!host) continue;
            costs.dispatch[slot] = prng.integer(5'000'000, 20'000'000);
            costs.host_path[slot] = costs.duration[slot] + costs.dispatch[slot];
        }
    }
    return costs;
}

// The same relaxation as a simulation of events: a node ends at its time, and its successors lose a
// predecessor.
class HeapSimulation {
  public:
    explicit HeapSimulation(const CompiledSchedule& c) : compiled_(c), begin_(c.time_entries() + 1, 0) {
        const auto each_edge = [&](auto&& visit) {
            for (std::uint32_t i = 0; i < c.nodes(); ++i) {
                visit(c.pred0[i], i);
                if (c.pred1[i] != c.pred0[i]) visit(c.pred1[i], i);
            }
        };
        each_edge([&](std::uint32_t from, std::uint32_t) { ++begin_[from + 1]; });
        for (std::size_t i = 1; i < begin_.size(); ++i)
            begin_[i] += begin_[i - 1];
        successors_.resize(begin_.back());
        std::vector<std::uint32_t> next(begin_.begin(), begin_.end() - 1);
        each_edge([&](std::uint32_t from, std::uint32_t to) { successors_[next[from]++] = to; });
    }

    SimTime run(const CostTable& costs) {
        const CompiledSchedule& c = compiled_;
        missing_.resize(c.nodes());
        ready_.assign(c.nodes(), 0);
        for (std::size_t i = 0; i < c.nodes(); ++i)
            missing_[i] = c.pred1[i] == c.pred0[i] ? 1 : 2;
        SimTime now = 0;
        const auto end = [&](std::uint32_t entry) {
            for (std::uint32_t k = begin_[entry]; k < begin_[entry + 1]; ++k) {
                const std::uint32_t i = successors_[k];
                ready_[i] = std::max(ready_[i], now);
                if (--missing_[i] == 0) heap_.emplace(ready_[i] + costs.duration[c.slot[i]], i);
            }
        };
        for (std::uint32_t lane = 0; lane < c.lane_count; ++lane)
            end(lane);
        while (!heap_.empty()) {
            const auto [time, node] = heap_.top();
            heap_.pop();
            now = time;
            end(c.lane_count + node);
        }
        return now;
    }

  private:
    using Event = std::pair<SimTime, std::uint32_t>;
    const CompiledSchedule& compiled_;
    std::vector<std::uint32_t> begin_, successors_;
    std::vector<int> missing_;
    std::vector<SimTime> ready_;
    std::priority_queue<Event, std::vector<Event>, std::greater<>> heap_;
};

// As many dependent steps as the schedule has nodes, over the same costs in the same order.
SimTime chain(const CompiledSchedule& c, const CostTable& costs) {
    SimTime t = 0;
    for (std::size_t i = 0; i < c.nodes(); ++i)
        t = std::max(t, SimTime{c.pred0[i]}) + costs.duration[c.slot[i]];
    return t;
}

template <class Run>
double seconds_of(Run&& run) {
    const auto start = std::chrono::steady_clock::now();
    run();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Engine and references take turns; the fastest turn of each counts, so that a busy machine disturbs all
// alike.
void measure(benchmark::State& state, const LoweredSchedule& lowered, bool host) {
    const CompiledSchedule& compiled = lowered.compiled;
    const CostTable costs = distinct_costs(compiled, host);
    EngineWorkspace workspace;
    HeapSimulation heap(compiled);
    double engine_s = 1, heap_s = 1, chain_s = 1;
    double steps = 2;
    for (auto _ : state) {
        engine_s = std::min(engine_s, seconds_of([&] {
                                const StepTimes times = run_engine(compiled, costs, workspace);
                                steps = static_cast<double>(times.step_end.size());
                                benchmark::DoNotOptimize(times.period);
                            }));
        heap_s = std::min(heap_s, seconds_of([&] { benchmark::DoNotOptimize(heap.run(costs)); }));
        chain_s = std::min(chain_s, seconds_of([&] { benchmark::DoNotOptimize(chain(compiled, costs)); }));
    }
    const auto nodes = static_cast<double>(compiled.nodes());
    const auto instructions = static_cast<double>(lowered.schedule.instruction_count());
    state.counters["two_steps_s"] = engine_s * 2 / steps;
    state.counters["s/instruction"] = engine_s / steps / instructions;
    state.counters["s/node"] = engine_s / steps / nodes;
    state.counters["instructions"] = instructions;
    state.counters["heap/engine"] = heap_s / (engine_s / steps);
    state.counters["engine/chain"] = engine_s / steps / chain_s;
}

std::shared_ptr<const LoweredSchedule> deep_pipeline() {
    auto ordered = std::make_shared<OrderedSchedule>();
    ScheduleShape shape;
    shape.ranks = 16;
    shape.microbatches = 512;
    ordered->name = "1f1b";
    ordered->order = *generate_order("1f1b", shape);
    return *lower_and_compile(ordered, {});
}

void BM_Engine1f1b(benchmark::State& state) {
    measure(state, *deep_pipeline(), state.range(0) != 0);
}
void BM_EngineGpt3(benchmark::State& state) {
    const auto environment = bench::environment("gpt3-175b", "a100:1024");
    const ParallelPlan plan = bench::gpt3_plan(*environment, "1f1b", 1);
    const Simulator simulator(environment);
    measure(state, *simulator.prepare(plan)->lowered, state.range(0) != 0);
}
BENCHMARK(BM_Engine1f1b)->ArgName("host")->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_EngineGpt3)->ArgName("host")->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tw

BENCHMARK_MAIN();
