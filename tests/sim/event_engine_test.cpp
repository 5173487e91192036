#include "sim/engine/event_engine.hpp"

#include <gtest/gtest.h>

#include "base/prng.hpp"
#include "plan/schedule/generator.hpp"
#include "plan/schedule/lower.hpp"
#include "sim/engine/unit_costs.hpp"

namespace tw {
namespace {

constexpr SimTime kMicro = 1'000'000;

struct Compiled {
    Schedule schedule;
    CompiledSchedule compiled;
};

Compiled compile(const std::string& name, const ScheduleShape& shape, const LoweringOptions& options,
                 const Replication& replication = {}) {
    auto order = generate_order(name, shape);
    EXPECT_TRUE(order.has_value()) << name;
    Compiled result{lower(*order, name, options), {}};
    auto compiled = compile_schedule(result.schedule, replication);
    EXPECT_TRUE(compiled.has_value()) << (compiled.has_value() ? "" : to_string(compiled.errors()));
    result.compiled = std::move(*compiled);
    return result;
}

// Every class costs something else.
CostTable random_costs(const CompiledSchedule& compiled, std::uint64_t seed, bool host) {
    Prng prng(seed);
    CostTable table(compiled);
    if (host) table.enable_host();
    for (int r = 0; r < compiled.ranks; ++r) {
        for (int k = 0; k < compiled.classes; ++k) {
            const std::uint32_t slot = compiled.slot_of(r, k);
            table.duration[slot] = prng.integer(1, 3'000'000'000);
            if (!host) continue;
            table.dispatch[slot] = prng.integer(0, 900'000'000);
            table.host_path[slot] = table.dispatch[slot] + prng.integer(0, table.duration[slot]);
        }
    }
    return table;
}

// Each transfer and each collective on links of its own.
FlowTable lonely_flows(const Schedule& schedule, const CompiledSchedule& compiled) {
    std::vector<double> capacities;
    std::vector<std::uint32_t> slots;
    for (int r = 0; r < compiled.ranks; ++r) {
        for (int k = 0; k < compiled.classes; ++k) {
            const Opcode op = schedule.duration_classes[static_cast<std::size_t>(k)].opcode;
            if (!is_transfer(op) && !is_collective(op)) continue;
            slots.push_back(compiled.slot_of(r, k));
            // Wide enough for flows of one class that different lanes carry at once.
            capacities.push_back(1e15);
        }
    }
    FlowTable flows(compiled, capacities);
    for (std::size_t i = 0; i < slots.size(); ++i)
        flows.add(slots[i], std::vector<int>{static_cast<int>(i)}, 1e9, static_cast<SimTime>(i % 3) * kMicro);
    return flows;
}

LoweringOptions random_options(Prng& random) {
    const auto coin = [&] { return random.integer(0, 1) == 1; };
    LoweringOptions options;
    options.p2p = static_cast<LoweringOptions::P2p>(random.integer(0, 2));
    options.batch_p2p = coin();
    options.overlap_p2p = coin();
    options.grad_sync = static_cast<LoweringOptions::GradSync>(random.integer(0, 2));
    options.overlap_grad_sync = coin();
    options.gather_params_after_step = coin();
    options.overlap_param_gather = coin();
    options.tied_embeddings = coin();
    options.grad_norm = random.integer(0, 3) != 0;
    return options;
}

// Every registered schedule, with and without a host and replicas: all times as the relaxation has them.
TEST(EventEngine, WithoutContentionEqualsTheRelaxationToThePicosecond) {
    Prng random(11);
    for (const ScheduleGenerator* generator : schedule_generators()) {
        const GeneratorInfo info = generator->info();
        int shapes = 0;
        for (int p = 2; p <= 6 && shapes < 6; p += 2) {
            for (int m = p; m <= 3 * p && shapes < 6; m += p) {
                for (int v = 1; v <= 2; ++v) {
                    ScheduleShape shape;
                    shape.ranks = p;
                    shape.virtual_stages = v;
                    shape.microbatches = m;
                    if (!generator->check(shape).empty()) continue;
                    ++shapes;
                    Replication replication;
                    replication.data = static_cast<int>(random.integer(1, 2));
                    replication.tensor = static_cast<int>(random.integer(1, 2));
                    const Compiled c = compile(info.name, shape, random_options(random), replication);
                    const CostTable costs =
                        random_costs(c.compiled, random.next(), random.integer(0, 1) == 1);
                    EngineWorkspace workspace;
                    const StepTimes expected = run_engine(c.compiled, costs, workspace);
                    const std::size_t steps =
                        c.compiled.boundary == StepBoundary::None ? 1 : expected.step_end.size();
                    const FlowTable flows = lonely_flows(c.schedule, c.compiled);
                    EventEngine engine(c.compiled, &flows);
                    EventRun run;
                    engine.run(std::vector<StepCosts>(steps, StepCosts{&costs}), run);
                    EXPECT_EQ(run.times.step_end, expected.step_end) << info.name << " p" << p << " m" << m;
                    EXPECT_EQ(run.times.period, expected.period) << info.name;
                    EXPECT_EQ(run.times.makespan, expected.makespan) << info.name;
                    EXPECT_EQ(run.times.steady, expected.steady) << info.name;
                    const std::span<const SimTime> last = run.step(steps - 1);
                    if (c.compiled.boundary == StepBoundary::Barrier) {
                        for (std::size_t i = c.compiled.lane_count; i < last.size(); ++i)
                            ASSERT_EQ(last[i], workspace.time[i]) << info.name << " node " << i;
                    }
                    EXPECT_EQ(run.counts.slowed, 0);
                }
            }
        }
        EXPECT_GT(shapes, 0) << info.name;
    }
}

// Two pipelines of two ranks whose only transfer crosses one link.
struct TwoFlows {
    Compiled c;
    CostTable costs;
    std::uint32_t send_a, send_b;

    TwoFlows() : c(make()), costs(c.compiled), send_a(0), send_b(0) {
        for (std::size_t k = 0; k < c.schedule.duration_classes.size(); ++k) {
            const DurationKey& key = c.schedule.duration_classes[k];
            for (int r = 0; r < c.compiled.ranks; ++r) {
                const std::uint32_t slot = c.compiled.slot_of(r, static_cast<int>(k));
                if (key.opcode == Opcode::Forward && key.stage == 0) costs.duration[slot] = 10 * kMicro;
                if (key.opcode == Opcode::SendActivation) costs.duration[slot] = 102 * kMicro;
                if (key.opcode == Opcode::SendActivation && r == 0) send_a = slot;
                if (key.opcode == Opcode::SendActivation && r == 2) send_b = slot;
            }
        }
    }
    static Compiled make() {
        ScheduleShape shape;
        shape.ranks = 2;
        shape.microbatches = 1;
        LoweringOptions options;
        options.grad_sync = LoweringOptions::GradSync::None;
        options.grad_norm = false;
        return compile("1f1b", shape, options, Replication{2, 1});
    }
    SimTime makespan(const FlowTable& flows) const {
        EventEngine engine(c.compiled, &flows);
        EventRun run;
        engine.run(std::vector<StepCosts>{{&costs}}, run);
        return run.times.makespan;
    }
    FlowTable flows(double capacity, double demand) const {
        FlowTable table(c.compiled, {capacity});
        table.add(send_a, std::vector<int>{0}, demand, 2 * kMicro);
        table.add(send_b, std::vector<int>{0}, demand, 2 * kMicro);
        return table;
    }
};

TEST(EventEngine, TwoEqualFlowsOnOneLinkTakeTwiceAsLong) {
    const TwoFlows two;
    // 100 us on the link and 2 us of latency each; both start at 10 us.
    EXPECT_EQ(two.makespan(two.flows(2e9, 1e9)), (10 + 102) * kMicro);  // room for both
    EXPECT_EQ(two.makespan(two.flows(1e9, 1e9)), (10 + 202) * kMicro);
    EXPECT_EQ(two.makespan(two.flows(1e9, 5e8)), (10 + 102) * kMicro);  // each wants half
    EXPECT_EQ(two.makespan(two.flows(1e9, 8e8)), (10 + 162) * kMicro);  // 80 % each: 1.6 times as long
}

TEST(EventEngine, AFlowSpeedsUpWhenTheOtherEnds) {
    TwoFlows two;
    two.costs.duration[two.send_b] = 42 * kMicro;  // 40 us on the link
    const FlowTable flows = two.flows(1e9, 1e9);
    // Both at half speed for 80 us; then the long one has 60 us left: 140 + 2 us after the start at 10.
    EXPECT_EQ(two.makespan(flows), (10 + 142) * kMicro);
}

TEST(EventEngine, ASlowerLinkStretchesAFlowByItsFactor) {
    const TwoFlows two;
    FlowTable flows = two.flows(4e9, 1e9);
    flows.set_capacity(0, 5e8);  // both share a quarter of what one of them wants
    EXPECT_EQ(two.makespan(flows), (10 + 402) * kMicro);
}

TEST(EventEngine, NodeDurationsReplaceTheTable) {
    const TwoFlows two;
    const FlowTable flows = two.flows(4e9, 1e9);
    std::vector<SimTime> durations(two.c.compiled.nodes());
    for (std::size_t i = 0; i < durations.size(); ++i)
        durations[i] = 2 * two.costs.duration[two.c.compiled.slot[i]];
    EventEngine engine(two.c.compiled, &flows);
    EventRun run;
    engine.run(std::vector<StepCosts>{{&two.costs}, {&two.costs, durations}}, run);
    EXPECT_EQ(run.times.step_end, (std::vector<SimTime>{112 * kMicro, (112 + 224) * kMicro}));
}

// Contention never makes a fixed order of streams faster, and a run repeats itself.
TEST(EventEngine, ContentionSlowsAndRepeats) {
    ScheduleShape shape;
    shape.ranks = 4;
    shape.microbatches = 12;
    const Compiled c = compile("1f1b", shape, LoweringOptions{});
    const CostTable costs = random_costs(c.compiled, 5, false);
    FlowTable shared(c.compiled, std::vector<double>(4, 1e9));
    for (int r = 0; r < 4; ++r) {
        for (int k = 0; k < c.compiled.classes; ++k) {
            const DurationKey& key = c.schedule.duration_classes[static_cast<std::size_t>(k)];
            if (is_send(key.opcode) || key.opcode == Opcode::AllReduce)
                shared.add(c.compiled.slot_of(r, k), std::vector<int>{r, (r + 1) % 4}, 1e9, 0);
        }
    }
    EventEngine engine(c.compiled, &shared);
    EventRun first, again;
    const std::vector<StepCosts> steps(2, StepCosts{&costs});
    engine.run(steps, first);
    engine.run(steps, again);
    EXPECT_EQ(first.time, again.time);
    EXPECT_GT(first.counts.slowed, 0);
    EngineWorkspace workspace;
    EXPECT_GT(first.times.period, run_engine(c.compiled, costs, workspace).period);
}

}  // namespace
}  // namespace tw
