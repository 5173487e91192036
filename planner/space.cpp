#include "planner/space.hpp"

#include <algorithm>

#include "plan/check_plan.hpp"
#include "plan/frameworks/framework.hpp"
#include "plan/rules/rule.hpp"
#include "plan/schedule/generator.hpp"
#include "plan/sharded_layers.hpp"
#include "plan/stage_partition.hpp"
#include "plan/stage_program/stage_program.hpp"
#include "sim/cost/one_thread.hpp"

namespace tw {

std::vector<int> divisors_of(std::int64_t n) {
    std::vector<int> result;
    for (const std::int64_t divisor : divisors(n))
        result.push_back(static_cast<int>(divisor));
    return result;
}

namespace {

bool is_selective(RecomputeMode mode) {
    return mode == RecomputeMode::Selective || mode == RecomputeMode::SelectiveOps;
}

RecomputeModules searched_modules(const Environment& environment, const PlanRequest& request) {
    const LayerGraph& graph = environment.graph;
    const PlanConstraints& fix = request.constraints;
    if (!fix.recompute.allows(RecomputeMode::Modules)) return {};
    if (fix.modules.any()) return fix.modules;
    const bool named = !fix.recompute.any();
    return named || has_modules(environment, request.base.framework) ? usual_modules(graph)
                                                                     : RecomputeModules{};
}

// Whether a selective recompute frees anything: convolutions have no attention core.
bool selects(const LayerGraph& graph, ParallelPlan plan, std::int64_t seq_len, RecomputeMode mode) {
    plan.seq_len = seq_len;
    plan.recompute = mode;
    const WorkShape shape = plan.work_shape(graph);
    std::vector<char> seen(static_cast<std::size_t>(graph.layer_classes()), 0);
    for (int i = 0; i < graph.size(); ++i) {
        if (seen[static_cast<std::size_t>(graph.layer(i).layer_class)]++ != 0) continue;
        const LayerWork work = graph.layer(i).model->work(shape);
        if (saved_bytes(work, mode) < saved_bytes(work, RecomputeMode::None)) return true;
    }
    return false;
}

// What the framework calls selective is searched, the other one where it is named; neither where it is the
// same plan as without.
std::vector<RecomputeMode> recompute_modes(const LayerGraph& graph, const PlanRequest& request,
                                           std::int64_t seq_len, bool modules) {
    const WordChoice<RecomputeMode>& fix = request.constraints.recompute;
    const bool by_op = framework_defaults(request.base.framework).selective_by_op;
    const RecomputeMode own = by_op ? RecomputeMode::SelectiveOps : RecomputeMode::Selective;
    std::vector<RecomputeMode> modes;
    for (const RecomputeMode mode : kRecomputeModes) {
        if (!fix.allows(mode)) continue;
        if (mode == RecomputeMode::Modules && !modules) continue;
        const bool same_as_none = fix.allows(RecomputeMode::None) && is_selective(mode);
        if (is_selective(mode) && mode != own && fix.any()) continue;
        if (same_as_none && !selects(graph, request.base, seq_len, mode)) continue;
        modes.push_back(mode);
    }
    return modes;
}

}  // namespace

bool has_modules(const Environment& environment, std::string_view framework) {
    const FrameworkDefaults& defaults = framework_defaults(framework);
    const bool processors = runs_on_processors(environment.cluster.groups.front().device);
    return !defaults.selective_by_op && !(defaults.own_executor && processors);
}

SearchSpace::SearchSpace(const Environment& environment, const PlanRequest& request)
    : environment_(environment),
      request_(request),
      seq_len_(request.seq_len > 0 ? request.seq_len : environment.graph.default_seq_len),
      modules_(searched_modules(environment, request)) {
    const LayerGraph& graph = environment.graph;
    modes_ = recompute_modes(graph, request, seq_len_, modules_.any());
    const PlanConstraints& fix = request.constraints;
    for (const ScheduleGenerator* generator : schedule_generators()) {
        GeneratorInfo info = generator->info();
        // Other semantics are never ranked against synchronous ones unless the user names them.
        if (fix.schedule.any() ? info.semantics != Semantics::Synchronous : !fix.schedule.allows(info.name))
            continue;
        if (!runs_schedule(request.target, info.name)) continue;
        if (info.combines_passes && fix.schedule.any()) continue;  // searched where it is named
        candidates_.push_back({generator, std::move(info)});
    }
    // Megatron combines passes only where no layer is recomputed in full, nor its experts
    // (megatron_limits.cpp).
    const bool combined = std::any_of(candidates_.begin(), candidates_.end(),
                                      [](const auto& c) { return c.info.combines_passes; });
    if (combined && request.target == TargetFramework::Megatron) {
        std::erase(modes_, RecomputeMode::Full);
        if (modules_.has(RecomputeModule::Experts)) std::erase(modes_, RecomputeMode::Modules);
    }
    const int world = environment.cluster.devices();
    const std::vector<int> degrees = divisors_of(world);
    const std::vector<int> experts = graph.experts > 0 ? legal_ep(graph, world) : std::vector<int>{1};
    // Tensor parallel beyond a node is searched only where it is named.
    int domain = 1;
    for (const NodeGroup& g : environment.cluster.groups)
        domain = std::max(domain, g.type.devices);
    for (const int tp : legal_tp(graph, fix.tp.any() ? std::min(world, domain) : world, request.target)) {
        if (world % tp != 0 || !fix.tp.allows(tp)) continue;
        for (const int pp : degrees) {
            if (world / tp % pp != 0 || pp > graph.blocks || !fix.pp.allows(pp)) continue;
            for (const int cp : degrees) {
                if (world / tp / pp % cp != 0 || !fix.cp.allows(cp)) continue;
                if (cp > 1 && (!graph.counts_tokens || seq_len_ % (std::int64_t{2} * cp) != 0)) continue;
                const int dp = world / (tp * pp * cp);
                if (request.global_batch % dp != 0 || !fix.dp.allows(dp)) continue;
                for (const int ep : experts) {
                    if (!fix.ep.allows(ep)) continue;
                    for (const int etp : {1, tp}) {
                        if ((graph.experts == 0 && etp > 1) || !fix.etp.allows(etp)) continue;
                        if (dp * cp * tp % (ep * etp) != 0) continue;
                        if (etp > 1 && !splits_experts(graph, etp)) continue;
                        for (const bool sp : {false, true}) {
                            if (sp && (tp == 1 || seq_len_ % (std::int64_t{tp} * cp) != 0)) continue;
                            if (!fix.sp.allows(sp ? 1 : 0)) continue;
                            for (const int mbs : divisors_of(request.global_batch / dp)) {
                                if (!fix.mbs.allows(mbs)) continue;
                                MeshChoice m;
                                m.mesh = {dp, pp, tp, cp, ep, etp};
                                m.sequence_parallel = sp;
                                m.microbatch = mbs;
                                m.microbatches = request.global_batch / dp / mbs;
                                if (m.microbatches > kMaxSearchedComputes / pp) {
                                    ++too_long_;
                                    continue;
                                }
                                add_mesh(m);
                            }
                        }
                        if (tp == 1) break;  // etp 1 and etp tp are the same
                    }
                }
            }
        }
    }
}

void SearchSpace::add_mesh(const MeshChoice& mesh) {
    if (own_rules()) {
        const std::vector<ZeroChoice> zeros = all_zeros(mesh);
        if (zeros.empty()) return;
    }
    meshes_.push_back(mesh);
}

bool SearchSpace::runs(const MeshChoice& mesh, RecomputeMode recompute, const ZeroChoice& zero) const {
    if (!own_rules()) return true;
    const ParallelPlan plan = make_plan(mesh, {1, recompute, -1}, **find_schedule("1f1b"), zero);
    return check_plan(environment_.graph, environment_.cluster, plan, request_.target).errors.empty();
}

bool SearchSpace::recomputes_by_op() const {
    return std::find(modes_.begin(), modes_.end(), RecomputeMode::SelectiveOps) != modes_.end();
}

bool SearchSpace::has_partitions(const MeshChoice& mesh, const ChunkChoice& chunk) const {
    const int stages = mesh.mesh.pp * chunk.virtual_stages;
    return stages > 1 && chunk.recompute_layers < 0 &&
           !own_split(environment_.graph, request_.target, stages);
}

std::vector<ChunkChoice> SearchSpace::chunks(const MeshChoice& mesh) const {
    const PlanConstraints& fix = request_.constraints;
    const std::int64_t blocks = environment_.graph.blocks;
    std::vector<ChunkChoice> result;
    const std::int64_t most = std::min(blocks, kMaxSearchedComputes / mesh.microbatches);  // stages
    std::vector<RecomputeMode> modes;
    const ZeroChoice any = own_rules() ? all_zeros(mesh).front() : ZeroChoice{};
    for (const RecomputeMode mode : modes_) {
        if (runs(mesh, mode, any)) modes.push_back(mode);
    }
    for (int v = 1; v == 1 || std::int64_t{v} * mesh.mesh.pp <= most; ++v) {
        if (v > 1 && mesh.mesh.pp == 1) break;
        if (fix.vpp.any() && v > kMaxUnnamedVirtualStages) break;
        if (!fix.vpp.allows(v) || schedules(mesh, v).empty()) continue;
        const auto own = own_split(environment_.graph, request_.target, v * mesh.mesh.pp);
        if (own && own->empty()) continue;
        for (const RecomputeMode mode : modes) {
            const auto add = [&](int first) {
                if (mode != RecomputeMode::Full || fix.full_blocks.allows(first))
                    result.push_back({v, mode, first});
            };
            if (mode != RecomputeMode::Full) {
                add(-1);
                continue;
            }
            // The first k blocks of every stage; k of the largest stage is everything.
            const std::int64_t stages = std::int64_t{v} * mesh.mesh.pp;
            const auto largest = static_cast<int>((blocks + stages - 1) / stages);
            const bool some = !own_rules() || request_.target == TargetFramework::Megatron;
            for (int k = 1; some && k < largest; ++k)
                add(k);
            add(-1);
        }
    }
    return result;
}

std::vector<const ScheduleGenerator*> SearchSpace::schedules(const MeshChoice& mesh, int v) const {
    std::vector<const ScheduleGenerator*> result;
    const auto m = static_cast<int>(mesh.microbatches);
    for (const auto& [generator, info] : candidates_) {
        // Limits of p and 2p activations (zb-auto keeps to what the devices have), and orders that take a
        // millisecond to make, are searched where they are named.
        const bool costly = info.uses_costs && (!info.uses_memory_limit ||
                                                mesh.microbatches * mesh.mesh.pp > kMaxUnnamedCostDriven);
        if (request_.constraints.schedule.any() && costly) continue;
        if (info.fixed_virtual_stages > 0 ? v != info.fixed_virtual_stages : (v > 1) != info.virtual_stages)
            continue;
        if (info.combines_passes && mesh.mesh.ep == 1) continue;
        // Without a pipeline, and with one microbatch, all orders are 1F1B's or GPipe's.
        if (mesh.mesh.pp == 1 && info.name != "1f1b" && (info.name != "gpipe" || own_rules())) continue;
        if (m == 1 && mesh.mesh.pp == 1 && info.name != "1f1b") continue;
        ScheduleShape shape;
        shape.ranks = mesh.mesh.pp;
        shape.virtual_stages = v;
        shape.microbatches = m;
        if (generator->check(shape).empty()) result.push_back(generator);
    }
    return result;
}

std::vector<ZeroChoice> SearchSpace::all_zeros(const MeshChoice& mesh) const {
    std::vector<ZeroChoice> result;
    const auto add = [&](const ZeroChoice& zero) {
        if (runs(mesh, RecomputeMode::None, zero)) result.push_back(zero);
    };
    const int replicas = mesh.mesh.dp * mesh.mesh.cp;
    add({0, 0});
    if (replicas == 1) return result;
    // HSDP: shards over the replicas of one node, or of as many as are named, copies across them.
    const int inside =
        environment_.cluster.groups.front().type.devices / (mesh.mesh.tp * mesh.mesh.cp) * mesh.mesh.cp;
    std::vector<int> shards = request_.constraints.zero_shard.some(inside);
    std::sort(shards.begin(), shards.end());
    ParallelPlan plan = request_.base;
    plan.mesh = mesh.mesh;
    std::erase_if(shards, [&](int shard) {
        plan.zero_shard = shard;
        return shard <= 1 || shard >= replicas || replicas % shard != 0 ||
               (environment_.graph.experts > 0 && zero_shard_ranks(plan).expert == 0);
    });
    for (const int stage : {1, 2, 3}) {
        add({stage, 0});
        for (const int shard : shards)
            add({stage, shard});
    }
    return result;
}

std::vector<ZeroChoice> SearchSpace::zeros(const MeshChoice& mesh) const {
    std::vector<ZeroChoice> result = all_zeros(mesh);
    std::erase_if(result, [this](const ZeroChoice& zero) {
        const PlanConstraints& fix = request_.constraints;
        return !fix.zero.allows(zero.stage) || (zero.stage > 0 && !fix.zero_shard.allows(zero.shard));
    });
    return result;
}

std::int64_t SearchSpace::leaves(const MeshChoice& mesh) const {
    const auto zero = static_cast<std::int64_t>(zeros(mesh).size());
    std::int64_t total = 0;
    int known = 0;
    std::int64_t schedule_count = 0;
    for (const ChunkChoice& chunk : chunks(mesh)) {
        if (chunk.virtual_stages != known) {
            known = chunk.virtual_stages;
            schedule_count = static_cast<std::int64_t>(schedules(mesh, known).size());
        }
        total += schedule_count * zero;
    }
    return total;
}

ParallelPlan SearchSpace::make_plan(const MeshChoice& mesh, const ChunkChoice& chunk,
                                    const ScheduleGenerator& schedule, const ZeroChoice& zero) const {
    ParallelPlan plan = request_.base;
    plan.mesh = mesh.mesh;
    plan.virtual_stages = chunk.virtual_stages;
    plan.schedule = schedule.info().name;
    plan.semantics = schedule.info().semantics;
    plan.microbatch = mesh.microbatch;
    plan.microbatches = mesh.microbatches;
    plan.global_batch = request_.global_batch;
    plan.seq_len = seq_len_;
    plan.sequence_parallel = mesh.sequence_parallel;
    plan.zero_stage = zero.stage;
    plan.zero_shard = zero.shard;
    plan.recompute = chunk.recompute;
    plan.recompute_modules = modules_;
    const int stages = mesh.mesh.pp * chunk.virtual_stages;
    plan.stages = uniform_partition(environment_.graph, stages, chunk.recompute);
    if (const auto own = own_split(environment_.graph, request_.target, stages); own && !own->empty()) {
        if (auto split = explicit_partition(environment_.graph, *own, chunk.recompute)) plan.stages = *split;
    }
    for (StageSpec& stage : plan.stages)
        stage.recompute_layers = chunk.recompute_layers;
    place_stages(plan);
    return plan;
}

void SearchSpace::place_stages(ParallelPlan& plan) const {
    assign_node_groups(environment_.cluster, plan);
}

}  // namespace tw
