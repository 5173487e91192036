// The search against everything that it could have found: small spaces are enumerated and simulated leaf by
// leaf.
#include <algorithm>
#include <atomic>
#include <functional>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "plan/check_plan.hpp"
#include "plan/plan_json.hpp"
#include "planner/best_plans.hpp"
#include "tests/planner/planner_fixtures.hpp"

namespace tw {
namespace {

constexpr std::uint64_t kSeed = 20250214;

using Values = std::pair<SimTime, double>;  // step time, bytes on the fullest device

struct Problem {
    std::shared_ptr<const Environment> environment;
    PlanRequest request;
};

// What the search tries of a leaf's layers: of the plan's stages, the uniform ones.
std::vector<std::vector<StageSpec>> partitions(const Simulator& simulator, const Problem& problem,
                                               const SearchSpace& space, const MeshChoice& mesh,
                                               const ChunkChoice& chunk, const ScheduleGenerator& schedule,
                                               const ParallelPlan& plan) {
    if (plan.stage_count() == 1 || chunk.recompute_layers >= 0) return {plan.stages};
    const auto shapes = test::shapes_of(simulator, problem.request, space, mesh, plan.stages);
    return distinct_partitions(problem.environment->graph, shapes, test::placement_of(schedule, plan),
                               plan.stages, chunk.recompute);
}

struct Everything {
    std::int64_t plans = 0, unfit = 0, illegal = 0;
    std::vector<Values> values;  // of those that fit
    std::vector<PlanKind> kinds;
    std::vector<std::vector<Values>> by_kind;

    void add(const ParallelPlan& plan, const Values& value) {
        values.push_back(value);
        const PlanKind kind = kind_of(plan);
        const auto at = std::find(kinds.begin(), kinds.end(), kind);
        if (at == kinds.end()) {
            kinds.push_back(kind);
            by_kind.push_back({value});
        } else {
            by_kind[static_cast<std::size_t>(at - kinds.begin())].push_back(value);
        }
    }
    // The first of each kind in an order, the five first of these.
    template <class Less>
    [[nodiscard]] std::vector<Values> best_kinds(Less less) const {
        std::vector<Values> best;
        for (const std::vector<Values>& kind : by_kind)
            best.push_back(*std::min_element(kind.begin(), kind.end(), less));
        std::sort(best.begin(), best.end(), less);
        best.resize(std::min<std::size_t>(5, best.size()));
        return best;
    }
};

Everything simulate_everything(const Problem& problem) {
    Everything all;
    const SearchSpace space(*problem.environment, problem.request);
    const Simulator simulator(problem.environment);
    for (const MeshChoice& mesh : space.meshes()) {
        for (const ChunkChoice& chunk : space.chunks(mesh)) {
            for (const ScheduleGenerator* schedule : space.schedules(mesh, chunk.virtual_stages)) {
                ParallelPlan plan = space.make_plan(mesh, chunk, *schedule, {});
                for (auto& stages : partitions(simulator, problem, space, mesh, chunk, *schedule, plan)) {
                    plan.stages = std::move(stages);
                    for (const ZeroChoice& zero : space.zeros(mesh)) {
                        plan.zero_stage = zero.stage;
                        plan.zero_shard = zero.shard;
                        ++all.plans;
                        const auto e = simulator.evaluate(plan);
                        if (!e) {
                            ++all.illegal;
                        } else if (!e->fits) {
                            ++all.unfit;
                        } else {
                            all.add(plan, {e->step_time, e->peak_device_bytes});
                        }
                    }
                }
            }
        }
    }
    return all;
}

// Until its space is small enough to be enumerated.
Problem random_problem(Prng& random) {
    Problem problem;
    const std::string cluster =
        test::pick<std::string>(random, {"h100:4", "a100:2", "p4d:8", "rtx4090-pcie:4", "h100:8"});
    problem.environment =
        test::environment_of(test::random_model(random, 4), cluster, random.integer(0, 3) == 0 ? 5e-6 : 0.0);
    if (random.integer(0, 3) == 0) {  // beside as many slower devices, before or after them
        Cluster machines = problem.environment->cluster;
        const Cluster slower = load_cluster("l40s:" + std::to_string(machines.devices())).value();
        const std::vector<NodeGroup>& groups = slower.groups;
        machines.groups.insert(random.integer(0, 1) == 0 ? machines.groups.begin() : machines.groups.end(),
                               groups.begin(), groups.end());
        machines.name += " and slower";
        problem.environment =
            *make_environment(problem.environment->graph, machines, problem.environment->memory_headroom);
    }
    if (random.integer(0, 1) == 0) {  // a device too small for some plans
        auto small = std::make_shared<Environment>(*problem.environment);
        small->cluster.groups.front().device.memory =
            Bytes(test::pick<std::int64_t>(random, {3, 4, 6}) * 1'000'000'000);
        problem.environment = small;
    }
    PlanRequest& request = problem.request;
    request.global_batch = test::pick<std::int64_t>(random, {2, 4, 8, 12});
    request.base.overlap.tp = random.integer(0, 1) == 1;
    request.base.overlap.param_gather = random.integer(0, 1) == 1;
    if (random.integer(0, 2) == 0) request.base.framework = "torchtitan";  // recomputes by operation
    if (random.integer(0, 2) == 0) request.constraints = test::every_schedule();
    std::erase(request.constraints.schedule.words, "pipedream");
    std::erase(request.constraints.schedule.words, "pipedream-2bw");
    if (random.integer(0, 2) == 0) request.constraints.mbs.ranges = {{1, 2}};
    if (random.integer(0, 1) == 0) request.constraints.cp.ranges = {{1, 1}};
    return problem;
}

PlanAnswer search(const Problem& problem, Objective objective = Objective::Time, int jobs = 1,
                  bool every = true) {
    PlanRequest request = problem.request;
    request.every = every;
    request.objective = objective;
    request.jobs = jobs;
    auto answer = find_plans(problem.environment, request);
    EXPECT_TRUE(answer) << to_string(answer.errors());
    return std::move(*answer);
}

std::vector<Values> values_of(const PlanAnswer& answer) {
    std::vector<Values> values;
    for (const RankedPlan& p : answer.plans)
        values.emplace_back(p.evaluation.step_time, p.evaluation.peak_device_bytes);
    return values;
}

std::string text_of(const PlanAnswer& answer) {
    std::string text =
        std::to_string(answer.search.configurations) + " " + std::to_string(answer.search.simulated);
    for (const auto& [rule, count] : answer.search.pruned)
        text += " " + rule + " " + std::to_string(count);
    text += " " + std::to_string(answer.search.uniform_only);
    for (const RankedPlan& p : answer.plans) {
        text += "\n" + std::to_string(p.evaluation.step_time) + " " +
                std::to_string(p.evaluation.peak_device_bytes) + " " + plan_to_json(p.plan).dump();
    }
    return text;
}

// The first is the best; the others are no slower than the best of as many kinds, but for the slack.
void expect_near_best(const std::vector<Values>& found, const std::vector<Values>& best) {
    ASSERT_EQ(found.size(), best.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
        if (i == 0) {
            EXPECT_EQ(found[i], best[i]);
        }
        EXPECT_GE(found[i].first, best[i].first);
        EXPECT_LE(static_cast<double>(found[i].first),
                  static_cast<double>(best[i].first) * (1 + kSlackOfOtherKinds));
    }
}

std::int64_t accounted(const SearchStatistics& search) {
    std::int64_t count = search.simulated;
    for (const auto& [rule, pruned] : search.pruned)
        count += pruned;
    return count;
}

TEST(PlannerOptimum, EqualsExhaustiveSimulationForEveryObjective) {
    Prng random(kSeed);
    int problems = 0, with_unfit = 0;
    std::int64_t plans = 0;
    for (int draw = 0; problems < test::cases(50, 200) && draw < 4000; ++draw) {
        const Problem problem = random_problem(random);
        const SearchSpace space(*problem.environment, problem.request);
        std::int64_t leaves = 0;
        for (const MeshChoice& mesh : space.meshes())
            leaves += space.leaves(mesh);
        if (leaves < 20 || leaves > 1500) continue;
        Everything all = simulate_everything(problem);
        ASSERT_EQ(all.illegal, 0);
        ++problems;
        plans += all.plans;
        with_unfit += all.unfit > 0;
        SCOPED_TRACE("problem " + std::to_string(draw) + ": " + problem.environment->graph.family + " on " +
                     problem.environment->cluster.name);

        const PlanAnswer fastest = search(problem);
        std::sort(all.values.begin(), all.values.end());
        auto expected = all.values;
        expected.resize(std::min<std::size_t>(5, expected.size()));
        EXPECT_EQ(values_of(fastest), expected);
        const PlanAnswer kinds = search(problem, Objective::Time, 1, false);
        expect_near_best(values_of(kinds), all.best_kinds(std::less<>()));
        EXPECT_EQ(accounted(kinds.search), kinds.search.configurations);
        EXPECT_TRUE(fastest.search.proven_optimal);
        EXPECT_GE(fastest.search.configurations, fastest.search.simulated);
        EXPECT_EQ(accounted(fastest.search), fastest.search.configurations);
        if (fastest.search.uniform_only == 0) {
            EXPECT_EQ(fastest.search.configurations, all.plans);
        } else {  // partitions below what a bound left out
            EXPECT_FALSE(problem.environment->cluster.uniform());
            EXPECT_LE(fastest.search.configurations, all.plans);
        }
        EXPECT_EQ(fastest.plans.empty(), !fastest.missing.empty());

        const auto smaller = [](const Values& a, const Values& b) {
            return std::tuple(memory_step(a.second), a.first, a.second) <
                   std::tuple(memory_step(b.second), b.first, b.second);
        };
        EXPECT_EQ(values_of(search(problem, Objective::Memory, 1, false)), all.best_kinds(smaller));
        std::stable_sort(all.values.begin(), all.values.end(), smaller);
        expected = all.values;
        expected.resize(std::min<std::size_t>(5, expected.size()));
        EXPECT_EQ(values_of(search(problem, Objective::Memory)), expected);

        std::sort(all.values.begin(), all.values.end(), [](const Values& a, const Values& b) {
            return std::pair(a.second, a.first) < std::pair(b.second, b.first);
        });
        std::set<Values> front;
        for (const Values& v : all.values) {  // ascending in memory
            if (front.empty() ||
                std::all_of(front.begin(), front.end(), [&](const Values& f) { return v.first < f.first; }))
                front.insert(v);
        }
        const auto found = values_of(search(problem, Objective::Pareto));
        EXPECT_EQ(std::set<Values>(found.begin(), found.end()), front);
        if (HasFailure()) break;
    }
    EXPECT_GE(problems, 50);
    EXPECT_GE(with_unfit, 10);
    RecordProperty("plans_simulated", static_cast<int>(plans));
    std::printf("%d problems, %lld plans, %d problems where some do not fit\n", problems,
                static_cast<long long>(plans), with_unfit);
}

TEST(PlannerOptimum, AnswerAndCountsDoNotDependOnThreads) {
    Prng random(kSeed, 1);
    for (int draw = 0; draw < test::cases(6, 50); ++draw) {
        const Problem problem = random_problem(random);
        if (SearchSpace(*problem.environment, problem.request).meshes().empty()) continue;
        const std::string one = text_of(search(problem, Objective::Time, 1));
        EXPECT_EQ(text_of(search(problem, Objective::Time, 2)), one);
        EXPECT_EQ(text_of(search(problem, Objective::Time, 4)), one);
        EXPECT_EQ(text_of(search(problem, Objective::Time, 4, false)),
                  text_of(search(problem, Objective::Time, 1, false)));
    }
    Problem large;
    large.environment = test::environment_of("llama3.2-1b", "h100:16");
    large.request.global_batch = 32;
    large.request.constraints.vpp.ranges = {{1, 1}};
    const std::string one = text_of(search(large, Objective::Time, 1));
    EXPECT_EQ(text_of(search(large, Objective::Time, 2)), one);
    EXPECT_EQ(text_of(search(large, Objective::Time, 4)), one);
}

TEST(PlannerLeaves, AreLegalAndSimulateTheSameAlone) {
    Prng random(kSeed, 2);
    std::vector<std::shared_ptr<const Environment>> environments = {
        test::environment_of("gpt2-tiny", "h100:8", 5e-6),
        test::environment_of("llama3.2-1b", "p4d:16"),
        test::environment_of("mixtral-8x7b", "h100:64"),
        test::environment_of("llama3.2-1b", "rtx4090-pcie:8"),
        test::environment_of("t5-3b", "a100:16"),
        test::environment_of("bert-base", "h100:8")};
    for (int i = 0; i < 4; ++i)
        environments.push_back(test::environment_of(test::random_model(random, 9), "a100:16"));
    const int wanted = test::cases(1000, 10'000);
    const int each = wanted / static_cast<int>(environments.size());
    int simulated = 0, uneven = 0;
    for (const auto& environment : environments) {
        Problem problem;
        problem.environment = environment;
        problem.request.global_batch = environment->cluster.devices() * 2;
        problem.request.constraints = test::every_schedule();
        const SearchSpace space(*environment, problem.request);
        const Simulator searching(environment);
        for (int draw = 0, done = 0; done < each && draw < 4 * each; ++draw) {
            test::Leaf leaf;
            if (!test::draw_leaf(random, space, leaf)) continue;
            if (random.integer(0, 1) == 0) {
                const auto all =
                    partitions(searching, problem, space, leaf.mesh, leaf.chunk, *leaf.schedule, leaf.plan);
                leaf.plan.stages = test::pick(random, all);
                uneven += leaf.plan.stages != all.front();
            }
            const std::string what = environment->graph.name + " " + summary(leaf.plan);
            const PlanCheck check = check_plan(environment->graph, environment->cluster, leaf.plan);
            ASSERT_TRUE(check.errors.empty()) << what << ": " << to_string(check.errors);
            const auto evaluation = searching.evaluate(leaf.plan);
            if (!evaluation && leaf.schedule->info().uses_costs) continue;
            ASSERT_TRUE(evaluation) << what << ": " << to_string(evaluation.errors());
            ++done;
            const auto report = Simulator(environment).simulate(leaf.plan);
            ASSERT_TRUE(report) << what << ": " << to_string(report.errors());
            ++simulated;
            EXPECT_EQ(report->step_time_s, to_seconds(evaluation->step_time).value) << what;
            double allocated = 0, reserved = 0, device = 0;
            for (const StageMemory& m : report->memory) {
                allocated = std::max(allocated, m.peak_allocated_bytes);
                reserved = std::max(reserved, m.peak_reserved_bytes);
                device = std::max(device, m.device_bytes);
            }
            EXPECT_NEAR(evaluation->peak_allocated_bytes, allocated, 1e-9 * allocated) << what;
            EXPECT_NEAR(evaluation->peak_reserved_bytes, reserved, 1e-9 * reserved) << what;
            EXPECT_NEAR(evaluation->peak_device_bytes, device, 1e-9 * device) << what;
            EXPECT_EQ(evaluation->fits, report->fits) << what;
            const auto quick = searching.evaluate(leaf.plan, true);
            ASSERT_TRUE(quick) << what;
            EXPECT_EQ(quick->fits, evaluation->fits) << what;
            EXPECT_EQ(quick->step_time, evaluation->fits ? evaluation->step_time : 0) << what;
            if (HasFailure()) return;
        }
    }
    EXPECT_GE(simulated, wanted * 9 / 10);
    EXPECT_GE(uneven, 20);
}

}  // namespace
}  // namespace tw
