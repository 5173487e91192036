#include "planner/first_plans.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "plan/lower_plan.hpp"
#include "plan/schedule/placement.hpp"
#include "planner/bounds.hpp"

namespace tw {
namespace {

constexpr std::size_t kMicrobatches = 4;  // the smallest ones of a mesh
constexpr std::size_t kRound = 16;        // plans simulated together, until as many fit
constexpr std::size_t kMostRounds = 16;

// Of each tensor, pipeline and expert parallel degree: the smallest context parallel degree, experts whole,
// sequence parallel where it is legal, the smallest microbatches.
std::vector<MeshChoice> usual_meshes(const SearchSpace& space) {
    std::map<std::tuple<int, int, int>, std::vector<MeshChoice>> by_degrees;
    const auto rank = [](const MeshChoice& m) {
        return std::tuple(m.mesh.cp, m.mesh.etp, !m.sequence_parallel, m.microbatch);
    };
    for (const MeshChoice& mesh : space.meshes()) {
        std::vector<MeshChoice>& best = by_degrees[{mesh.mesh.tp, mesh.mesh.pp, mesh.mesh.ep}];
        const auto at = std::upper_bound(best.begin(), best.end(), mesh,
                                         [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
        best.insert(at, mesh);
        if (best.size() > kMicrobatches) best.pop_back();
    }
    std::vector<MeshChoice> meshes;
    for (const auto& [degrees, best] : by_degrees)
        meshes.insert(meshes.end(), best.begin(), best.end());
    return meshes;
}

// One stage a rank and as many as there are blocks for; of experts also what hides their exchange.
bool usual(const ScheduleGenerator& schedule, int virtual_stages, int most_virtual_stages, bool experts) {
    const GeneratorInfo info = schedule.info();
    const bool plain = info.interleaved && !info.combines_passes;
    return info.name == "1f1b" || (plain && virtual_stages == most_virtual_stages) ||
           (info.name == "dualpipev" && experts);
}

struct UsualPlan {
    MeshChoice mesh;
    ChunkChoice chunk;
    ZeroChoice zero;
    ParallelPlan plan;
};

// Under every recomputation of whole stages.
std::vector<UsualPlan> usual_plans(const SearchSpace& space, bool experts) {
    std::vector<UsualPlan> plans;
    for (const MeshChoice& mesh : usual_meshes(space)) {
        const std::vector<ChunkChoice> chunks = space.chunks(mesh);
        const std::vector<ZeroChoice> zeros = space.zeros(mesh);
        if (chunks.empty() || zeros.empty()) continue;
        const auto sharded =
            std::find_if(zeros.begin(), zeros.end(), [](const ZeroChoice& z) { return z.stage == 1; });
        const ZeroChoice& zero = sharded != zeros.end() ? *sharded : zeros.front();
        for (const ChunkChoice& chunk : chunks) {
            const int v = chunk.virtual_stages, most = chunks.back().virtual_stages;
            if ((v > 2 && v < most) || chunk.recompute_layers >= 0) continue;
            for (const ScheduleGenerator* schedule : space.schedules(mesh, v)) {
                if (usual(*schedule, v, most, experts))
                    plans.push_back({mesh, chunk, zero, space.make_plan(mesh, chunk, *schedule, zero)});
            }
        }
    }
    return plans;
}

// kNever of what cannot fit.
SimTime bound_of(const Simulator& simulator, const UsualPlan& usual) {
    const Environment& environment = simulator.environment();
    const ParallelPlan& plan = usual.plan;
    const ScheduleGenerator& schedule = **find_schedule(plan.schedule);
    const std::vector<std::uint16_t> ranks = rank_of_stage(schedule, schedule_shape(plan));
    const PlanCost costs(environment, plan, ranks, simulator.shapes());
    const MeshBounds mesh(environment, costs.shape(0), usual.mesh, plan);
    if (mesh.memory(usual.chunk, usual.zero) > environment.usable_memory()) return kNever;
    const auto buckets = lowering_options(environment.graph, plan, costs.parameters()).buckets;
    return leaf_step_time_bound(plan, costs, ranks, schedule.info(), buckets, true);
}

}  // namespace

std::vector<RankedPlan> first_plans(const Simulator& simulator, const SearchSpace& space, Workers& workers,
                                    const std::function<bool()>& stop) {
    const std::vector<UsualPlan> plans = usual_plans(space, simulator.environment().graph.experts > 0);
    std::vector<std::pair<SimTime, std::size_t>> order(plans.size());  // fastest first
    workers.for_each(plans.size(), [&](std::size_t i) {
        order[i] = {stop() ? kNever : bound_of(simulator, plans[i]), i};
    });
    std::erase_if(order, [](const auto& plan) { return plan.first == kNever; });
    std::sort(order.begin(), order.end());
    std::vector<RankedPlan> fitting;
    for (std::size_t round = 0; round < kMostRounds && fitting.size() < kRound && !stop(); ++round) {
        const std::size_t begin = std::min(order.size(), round * kRound);
        std::vector<std::optional<Evaluation>> evaluations(std::min(order.size() - begin, kRound));
        workers.for_each(evaluations.size(), [&](std::size_t i) {
            if (stop()) return;
            auto evaluation =
                simulator.evaluate(plans[order[begin + i].second].plan, /*only_if_it_fits=*/true);
            if (evaluation && evaluation->fits) evaluations[i] = *evaluation;
        });
        for (std::size_t i = 0; i < evaluations.size(); ++i) {
            if (evaluations[i])
                fitting.push_back({plans[order[begin + i].second].plan, *evaluations[i], false, {}});
        }
    }
    return fitting;
}

}  // namespace tw
